//! Words: e-mail addresses, IP addresses, bank accounts and national ids of letters and digits.

use super::Found;
use std::net::{IpAddr, Ipv6Addr};

/// The longest IBAN, written without blanks.
const LONGEST_IBAN: usize = 34;
const SHORTEST_IBAN: usize = 15;

/// Looks through a text for words of these kinds.
pub(super) fn scan(text: &str) -> Option<Found> {
    if is_email(text) {
        return Some(Found::Email);
    }
    // What a word is surrounded by in prose, JSON, Markdown and URLs.
    let outside = |c: char| {
        c.is_whitespace() || matches!(c, ',' | ';' | '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | '=' | '|' | '*' | '/')
    };
    for word in text.split(outside) {
        let word = word.trim_matches(|c: char| matches!(c, '.' | '!' | '?' | '#' | '_'));
        if is_ip(word) {
            return Some(Found::Ip);
        }
    }
    if has_iban(text) {
        return Some(Found::Iban);
    }
    has_national_id(text).then_some(Found::NationalId)
}

/// Something, an at sign, and a domain with a dot. Also with the signs that people put there so that no program sees it.
fn is_email(text: &str) -> bool {
    for sign in ["@", "\u{ff20}", "(at)", "[at]", "{at}", "%40"] {
        let mut from = 0;
        while let Some(found) = text[from..].find(sign) {
            let (at, behind) = (from + found, from + found + sign.len());
            let local = text[..at].trim_end_matches(' ').chars().next_back();
            let local = local.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '"' | '\''));
            let domain = text[behind..]
                .trim_start_matches(' ')
                .split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '[' | ']' | '(' | ')'));
            let domain = domain.map(|domain| domain.trim_matches('.')).next().unwrap_or_default();
            let dotted = domain.split_once('.').is_some_and(|(name, top)| !name.is_empty() && top.chars().count() >= 2)
                || ["(dot)", "[dot]"].iter().any(|dot| domain.contains(dot));
            if local && dotted {
                return true;
            }
            from = behind;
        }
    }
    false
}

/// An address of either version, also in brackets, with a port, a zone or a prefix length. Loopback and "any" are nobody's.
fn is_ip(word: &str) -> bool {
    let word = word.strip_prefix('[').map_or(word, |rest| rest.split(']').next().unwrap_or(rest));
    let word = word.split('%').next().unwrap_or(word);
    let address = word.parse::<IpAddr>().ok().or_else(|| {
        let (address, port) = word.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        address.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4)
    });
    match address {
        Some(address) if address.is_loopback() || address.is_unspecified() => false,
        Some(IpAddr::V4(_)) => true,
        // `::` with next to nothing around it is code more often than an address.
        Some(IpAddr::V6(address)) => {
            address.segments().iter().filter(|segment| **segment != 0).count() > 1 && address != Ipv6Addr::LOCALHOST
        }
        None => false,
    }
}

/// A country, two check digits and an account that fit each other, also in groups of four.
fn has_iban(text: &str) -> bool {
    let bytes = text.as_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(at, start)| {
        let free = *at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        free && start[..2].iter().all(u8::is_ascii_alphabetic) && start[2..].iter().all(u8::is_ascii_digit)
    });
    for (at, _) in starts {
        let mut account = Vec::with_capacity(LONGEST_IBAN);
        for (offset, byte) in bytes[at..].iter().enumerate() {
            if byte.is_ascii_alphanumeric() && account.len() < LONGEST_IBAN {
                account.push(byte.to_ascii_uppercase());
                // It may end here, or where the next word begins.
                let ends = !bytes.get(at + offset + 1).is_some_and(u8::is_ascii_alphanumeric);
                if ends && account.len() >= SHORTEST_IBAN && checks(&account) {
                    return true;
                }
            } else if !matches!(byte, b' ' | b'-') {
                break;
            }
        }
    }
    false
}

/// ISO 7064: the number made of it, its first four places last and letters as 10 to 35, leaves 1 when divided by 97.
fn checks(account: &[u8]) -> bool {
    let (head, rest) = account.split_at(4);
    let step = |left: u32, byte: &u8| match byte {
        b'0'..=b'9' => (left * 10 + u32::from(byte - b'0')) % 97,
        _ => (left * 100 + u32::from(byte - b'A') + 10) % 97,
    };
    rest.iter().chain(head).fold(0, step) == 1
}

/// Forms of ids: `A` a letter, `9` a digit. British national insurance, Spanish DNI and NIE, Italian codice fiscale, Indian PAN, Mexican
/// CURP, Polish and German identity cards and passports of one or two letters and seven digits or more.
const FORMS: [&str; 9] = [
    "AA999999A",
    "99999999A",
    "A9999999A",
    "AAAAAA99A99A999A",
    "AAAAA9999A",
    "AAAA999999AAAAAA99",
    "AAA999999",
    "A99999999",
    "AA9999999",
];

fn has_national_id(text: &str) -> bool {
    // Each word, and runs of words as groups of one id: `AB 12 34 56 C`.
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let fits = |id: &str| FORMS.iter().any(|form| form.len() == id.len() && form.bytes().zip(id.bytes()).all(of_form));
    words.iter().enumerate().any(|(at, first)| {
        if fits(first) {
            return true;
        }
        // Grouped ids have capital letters; in small ones every third sentence with numbers would be one.
        let mut id = String::new();
        words[at..].iter().take(5).any(|word| {
            id.push_str(word);
            id.len() <= 18
                && !id.bytes().any(|byte| byte.is_ascii_lowercase())
                && id.len() > first.len()
                && FORMS[..3].iter().any(|form| form.len() == id.len() && form.bytes().zip(id.bytes()).all(of_form))
        })
    })
}

const fn of_form((form, byte): (u8, u8)) -> bool {
    if form == b'A' { byte.is_ascii_alphabetic() } else { byte.is_ascii_digit() }
}
