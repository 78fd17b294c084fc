//! What the patterns of the encodings call a character.

/// A character is in one class, and a set of classes is their sum.
pub(super) type Class = u8;

/// Nothing: the text has ended. In no set.
pub(super) const END: Class = 0;
/// `\p{Lu}` and `\p{Lt}`.
pub(super) const UPPER: Class = 1;
/// `\p{Ll}`.
pub(super) const LOWER: Class = 1 << 1;
/// `\p{Lm}` and `\p{Lo}`: the patterns of `o200k_base` let them stand for both of the above.
pub(super) const CASELESS: Class = 1 << 2;
/// `\p{N}`.
pub(super) const DIGIT: Class = 1 << 3;
/// `\r` and `\n`.
pub(super) const NEWLINE: Class = 1 << 4;
/// The rest of `\s`.
pub(super) const BLANK: Class = 1 << 5;
/// Neither letter, number nor `\s`.
pub(super) const MARK: Class = 1 << 6;
/// Not in our tables: the library has to say.
pub(super) const UNKNOWN: Class = 1 << 7;

/// `\p{L}`.
pub(super) const LETTER: Class = UPPER | LOWER | CASELESS;
/// `\s`.
pub(super) const SPACE: Class = NEWLINE | BLANK;

/// By the first byte of a character.
static BY_BYTE: [Class; 256] = by_byte();

const fn by_byte() -> [Class; 256] {
    let mut table = [UNKNOWN; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => DIGIT,
            b'\r' | b'\n' => NEWLINE,
            b' ' | b'\t' | 0x0B | 0x0C => BLANK,
            _ => MARK,
        };
        byte += 1;
    }
    table
}

/// The class of the character at `at`, and its length in bytes.
#[inline]
pub(super) fn at(text: &str, at: usize) -> (Class, usize) {
    match text.as_bytes().get(at) {
        None => (END, 0),
        Some(&byte) if byte < 128 => (BY_BYTE[byte as usize], 1),
        Some(_) => wide_at(text, at),
    }
}

/// The first place from `at` on that is not in the set, and what is there.
#[inline]
pub(super) fn skip(text: &str, mut at: usize, set: Class) -> (Class, usize) {
    let bytes = text.as_bytes();
    loop {
        let Some(&byte) = bytes.get(at) else { return (END, at) };
        let (class, length) = if byte < 128 { (BY_BYTE[byte as usize], 1) } else { wide_at(text, at) };
        if class & set == 0 {
            return (class, at);
        }
        at += length;
    }
}

/// Out of line, so that the loops over ASCII stay small.
#[inline(never)]
fn wide_at(text: &str, at: usize) -> (Class, usize) {
    text[at..].chars().next().map_or((END, 0), |character| (wide(character), character.len_utf8()))
}

/// The class of a character.
pub(super) fn of(character: char) -> Class {
    if character.is_ascii() { BY_BYTE[character as usize] } else { wide(character) }
}

/// Beyond ASCII: the scripts, signs and pictures that most texts are made of, where a run of them is all of one class and will not change. Combining
/// marks are not here, since `o200k_base` has them in several classes, nor the long s, which it takes for an `s` behind an apostrophe.
fn wide(character: char) -> Class {
    match character {
        // Latin.
        'À'..='Ö' | 'Ø'..='Þ' => UPPER,
        'µ' | 'ß'..='ö' | 'ø'..='ÿ' => LOWER,
        'ª' | 'º' => CASELESS,
        'Ā'..='ž' if character.is_uppercase() => UPPER,
        'Ā'..='ž' => LOWER,
        '¡'..='©' | '«'..='±' | '´' | '¶'..='¸' | '»' | '¿' | '×' | '÷' => MARK,
        '²' | '³' | '¹' | '¼'..='¾' => DIGIT,
        // Greek and Cyrillic.
        'Α'..='Ρ' | 'Σ'..='Ϋ' | 'Ѐ'..='Я' => UPPER,
        'ά'..='ώ' | 'а'..='џ' => LOWER,
        // Hebrew, Arabic, kana, Chinese and Korean.
        '\u{5D0}'..='\u{5EA}' | '\u{620}'..='\u{64A}' => CASELESS,
        '々' | '〆' | 'ぁ'..='ゖ' | 'ゝ'..='ゟ' | 'ァ'..='ヺ' | 'ー'..='ヿ' => CASELESS,
        '\u{3400}'..='\u{4DB5}' | '\u{4E00}'..='\u{9FEF}' | '가'..='힣' => CASELESS,
        '、'..='〃' | '〈'..='〠' | '゛' | '゜' | '・' => MARK,
        // What is as wide as those.
        '！'..='／' | '：'..='＠' | '［'..='｀' | '｛'..='･' => MARK,
        '０'..='９' => DIGIT,
        'Ａ'..='Ｚ' => UPPER,
        'ａ'..='ｚ' => LOWER,
        // Quotes and dashes, money, arrows and formulas, boxes, pictures.
        '\u{200B}'..='\u{2027}' | '\u{2030}'..='\u{205E}' | '\u{20A0}'..='\u{20BF}' | '\u{2190}'..='\u{23FF}' => MARK,
        '\u{2500}'..='\u{2775}' | '\u{1F300}'..='\u{1F64F}' | '\u{1F680}'..='\u{1F6C5}' | '\u{1F900}'..='\u{1F9FF}' => MARK,
        _ if character.is_whitespace() => BLANK,
        _ => UNKNOWN,
    }
}
