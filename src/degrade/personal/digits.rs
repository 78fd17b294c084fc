//! Numbers: cards, telephone numbers, accounts, national ids of digits alone.

use super::Found;

/// The longest number looked at; a longer row of digits is none of those looked for.
const LONGEST: usize = 19;

/// Looks through a text for numbers.
pub(super) fn scan(text: &str) -> Option<Found> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        // Of a date only the time behind it is looked at; days are no numbers of anybody.
        if let Some(behind) = date(&bytes[at..]) {
            at += behind;
            continue;
        }
        let (number, next) = Number::read(bytes, at);
        if let Some(found) = number.judge() {
            return Some(found);
        }
        at = next;
    }
    None
}

/// Digits that belong together: in groups, with single marks between them.
struct Number {
    digits: Vec<u8>,
    /// Digits of each group.
    groups: Vec<usize>,
    /// Whether `+` stands before it.
    plus: bool,
    /// Whether it is two groups with a point between them.
    point: bool,
}

impl Number {
    /// Reads the number that starts at `at`; also says where to go on.
    fn read(bytes: &[u8], at: usize) -> (Self, usize) {
        let before = bytes[..at].iter().rev().find(|byte| **byte != b' ' && **byte != b'(');
        let mut number = Self { digits: Vec::new(), groups: vec![0], plus: before == Some(&b'+'), point: false };
        let mut next = at;
        while next < bytes.len() {
            let byte = bytes[next];
            if byte.is_ascii_digit() {
                if number.digits.len() <= LONGEST {
                    number.digits.push(byte - b'0');
                }
                if let Some(group) = number.groups.last_mut() {
                    *group += 1;
                }
                next += 1;
                continue;
            }
            // One mark, or one beside a blank or bracket: `(030) 12 34`, `12 / 34`.
            let marks =
                bytes[next..].iter().take(3).take_while(|byte| matches!(byte, b' ' | b'-' | b'.' | b'/' | b'(' | b')')).count();
            let goes_on = marks > 0 && bytes.get(next + marks).is_some_and(u8::is_ascii_digit);
            if !goes_on || date(&bytes[next + marks..]).is_some() {
                break;
            }
            number.groups.push(0);
            number.point = number.groups.len() == 2 && &bytes[next..next + marks] == b".";
            next += marks;
        }
        (number, next)
    }

    fn judge(&self) -> Option<Found> {
        let length = self.digits.len();
        if length > LONGEST {
            // A long row of digits is none of those looked for; among groups one may stand.
            return (self.groups.len() > 1).then_some(Found::Number);
        }
        if (13..=LONGEST).contains(&length) && luhn(&self.digits) && self.digits.iter().any(|digit| *digit != 0) {
            return Some(Found::Card);
        }
        let zero = self.digits.first() == Some(&0);
        // `3.14159265`, `0.123456789`: a fraction. A number with an area code has more than one digit before its dot.
        if self.point && !self.plus && (!zero || self.groups[0] == 1) {
            return None;
        }
        let shortest = match () {
            () if self.plus => 7,
            () if zero => 8,
            // Nine digits are the shortest national id (the US one, in any spelling) and number with an area code.
            () => 9,
        };
        (shortest..=15).contains(&length).then_some(Found::Number)
    }
}

/// The check digit of payment cards.
fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(*digit);
            match place % 2 {
                0 => digit,
                _ if digit > 4 => digit * 2 - 9,
                _ => digit * 2,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The length of a date that stands here, `2026-11-30`, if one does.
fn date(bytes: &[u8]) -> Option<usize> {
    const FORM: &[u8] = b"dddd-dd-dd";
    let date = bytes.get(..FORM.len())?;
    let fits = |(form, byte): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { form == byte };
    let ends = !bytes.get(FORM.len()).is_some_and(u8::is_ascii_digit);
    let century = matches!(&date[..2], b"19" | b"20");
    (century && ends && FORM.iter().zip(date).all(fits)).then_some(FORM.len())
}
