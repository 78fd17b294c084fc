//! Arrivals and sizes: of a real trace, or made up in its likeness.

use std::path::Path;
use std::time::Duration;

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// When, since the first.
    pub at: Duration,
    /// Tokens of the prompt and of the answer.
    pub input: u64,
    pub output: u64,
}

/// Reads `time, context tokens, generated tokens`, with or without a heading; as much as begins within `length`.
pub fn read(file: &Path, length: Duration) -> Result<Vec<Asked>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut asked: Vec<Asked> = text.lines().filter_map(line).collect();
    asked.sort_by_key(|one| one.at);
    let first = asked.first().ok_or_else(|| format!("{} has no requests in it", file.display()))?.at;
    asked.iter_mut().for_each(|one| one.at -= first);
    asked.retain(|one| one.at < length);
    Ok(asked)
}

fn line(line: &str) -> Option<Asked> {
    let mut columns = line.split(',').map(str::trim);
    let at = seconds(columns.next()?)?;
    let mut number = || columns.next()?.parse().ok();
    Some(Asked { at, input: number()?, output: number()? })
}

/// A date and time (`2023-11-16 18:15:46.68`, `T` and `Z` allowed), or seconds.
fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim_end_matches('Z');
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return Duration::try_from_secs_f64(text.parse().ok()?).ok();
    };
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hour, minute): (u64, u64) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let second: f64 = time.next()?.parse().ok()?;
    // Days since 1 March of the year 0, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Duration::try_from_secs_f64(second)
        .ok()
        .map(|second| Duration::from_secs(days * 86_400 + hour * 3_600 + minute * 60) + second)
}

/// Made up: arrivals at random, sizes spread as in chat traffic, half of the prompts under 1,020 tokens and half of the answers under 129.
pub fn made_up(length: Duration) -> Vec<Asked> {
    let mut random = fastrand::Rng::with_seed(20_231_116);
    let (mut at, mut asked) = (0.0, Vec::new());
    let spread = |random: &mut fastrand::Rng, middle: f64, sigma: f64| {
        // Twelve dice make a bell.
        let bell: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        (middle * (sigma * bell).exp()) as u64 + 1
    };
    while at < length.as_secs_f64() {
        asked.push(Asked {
            at: Duration::from_secs_f64(at),
            input: spread(&mut random, 1_020.0, 0.6).min(4_000),
            output: spread(&mut random, 129.0, 0.65).min(1_000),
        });
        at += -(1.0 - random.f64()).ln() / 5.5;
    }
    asked
}
