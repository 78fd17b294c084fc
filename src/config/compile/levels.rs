//! `[levels]`: thresholds that ascend, and a margin that leaves room below the first.

use super::Compiler;
use crate::config::file::File;
use crate::config::policy::Levels;
use crate::config::read::At;

/// A trailing minute can hold nearly two ceilings: a full bucket, and its refill.
const MOST: u64 = 200;
/// The longest line that is appended to a prompt, bytes.
const LONGEST_LINE: usize = 500;

/// Compiles `[levels]`.
pub fn levels(c: &mut Compiler<'_>, file: &File) -> Levels {
    let mut levels = Levels::default();
    let Some(written) = &file.levels else { return levels };
    if let Some(at) = &written.at {
        match thresholds(&at.value) {
            Some(up) => levels.up = up,
            None => c.findings.problem(
                &at.place,
                format!("is not three ascending percentages from 1 to {MOST}"),
                "write the use from which level 1, 2 and 3 hold, such as at = [70, 85, 95]",
            ),
        }
    }
    if let Some(at) = &written.margin {
        match u8::try_from(at.value).ok().filter(|margin| *margin < levels.up[0]) {
            Some(margin) => levels.margin = margin,
            None => c.findings.problem(
                &at.place,
                format!("{} points are not less than the first threshold, so no level would ever end", at.value),
                "10 is usual",
            ),
        }
    } else if levels.margin >= levels.up[0] {
        levels.margin = levels.up[0] - 1;
    }
    if let Some(hold) = written.hold {
        levels.hold = [hold.0; 3];
    }
    if let Some(at) = &written.output_cap {
        if at.value == 0 {
            c.findings.problem(&at.place, "is 0, so level 2 would answer nothing", "512 is usual");
        }
        levels.output_cap = at.value;
    }
    if let Some(at) = &written.brevity {
        if at.value.len() > LONGEST_LINE {
            c.findings.problem(&at.place, format!("is longer than {LONGEST_LINE} bytes"), "one sentence is enough");
        }
        levels.brevity = at.value.as_str().into();
    }
    levels
}

fn thresholds(written: &[At<u64>]) -> Option<[u8; 3]> {
    let numbers: Vec<u8> =
        written.iter().filter(|at| (1..=MOST).contains(&at.value)).filter_map(|at| u8::try_from(at.value).ok()).collect();
    let up: [u8; 3] = numbers.try_into().ok()?;
    up.is_sorted_by(|a, b| a < b).then_some(up)
}
