//! What is found and what is let through.

use super::*;

#[test]
fn personal_data_is_found_in_its_usual_spellings() {
    use Found::{Card, Email, Iban, Ip, NationalId, Number};
    for (text, right) in [
        ("write to jane.doe+x@example.co.uk please", Email),
        ("JANE@EXAMPLE.COM", Email),
        ("jane (at) example.com", Email),
        ("jane[at]example[dot]com", Email),
        ("jane＠example.com", Email),
        ("?mail=jane%40example.com", Email),
        ("mailto:<müller@exämple.de>", Email),
        ("call +49 30 1234567", Number),
        ("call +1 (415) 555-2671", Number),
        ("(415) 555-2671", Number),
        ("415.555.2671", Number),
        ("030.12345678", Number),
        ("1 2 3 4111 1111 1111 1111 5 6 7", Number),
        ("030/12345678", Number),
        ("01 23 45 67 89", Number),
        ("tel:004930123456", Number),
        ("SSN 078-05-1120", Number),
        ("ssn 078051120", Number),
        ("CPF 123.456.789-09", Number),
        ("Aadhaar 2345 6789 0123", Number),
        ("4111 1111 1111 1111", Card),
        ("pay with 5500-0000-0000-0004 today", Card),
        ("378282246310005", Card),
        ("6304000000000000", Card),
        ("DE89 3704 0044 0532 0130 00", Iban),
        ("iban:gb82west12345698765432.", Iban),
        ("NO9386011117947", Iban),
        ("to FR14 2004 1010 0505 0001 3M02 606 by Friday", Iban),
        ("AB 12 34 56 C", NationalId),
        ("ab123456c", NationalId),
        ("DNI 12345678Z", NationalId),
        ("RSSMRA85T10A562S", NationalId),
        ("PAN ABCDE1234F", NationalId),
        ("passport C01234567", NationalId),
        ("from 203.0.113.7 at noon", Ip),
        ("http://203.0.113.7:8080/x", Ip),
        ("[2001:db8::7]:443", Ip),
        ("fe80::1ff:fe23:4567:890a%eth0", Ip),
    ] {
        assert_eq!(scan_text(text), Some(right), "{text}");
    }
}

#[test]
fn ordinary_text_passes() {
    for text in [
        "",
        "Where is my parcel? It should have come on Friday.",
        "It is 2026-11-30 14:05, the meeting is on 2026-12-01 at 9.",
        "I paid $1,299.99 for 2 of them, 15 % off, in 2024.",
        "Order 12345678 has 3 items",
        "@media (max-width: 600px) { }",
        "a@b and user@localhost",
        "std::vec::Vec and ::1 and 127.0.0.1 and 0.0.0.0",
        "version 1.2.3, section 4.5.6",
        "GPT-4 and UTF-8, ISO 8859-1, RFC 9110",
        "the ratio is 3.14159265",
        "Die Straße ist 12 m breit – 北京 5 km",
    ] {
        assert_eq!(scan_text(text), None, "{text}");
    }
}

#[test]
fn every_string_key_and_number_of_a_body_is_read() {
    let chat = |content: &str| format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
    for (body, right) in [
        (chat(r#""hello""#), None),
        (chat(r#"[{"type":"text","text":"hello"}]"#), None),
        (chat(r#""jane\u0040example.com""#), Some(Found::Email)),
        (chat(r#"[{"type":"text","text":"4111111111111111"}]"#), Some(Found::Card)),
        (r#"{"model":"m","input":"hi","metadata":{"user_id":"jane@example.com"}}"#.into(), Some(Found::Email)),
        (r#"{"model":"m","input":"hi","metadata":{"jane@example.com":"x"}}"#.into(), Some(Found::Email)),
        (r#"{"model":"m","input":"hi","metadata":{"card":4111111111111111}}"#.into(), Some(Found::Card)),
        (r#"{"model":"m","input":"hi","phone":4.15555e9,"seed":42,"temperature":0.25,"top":-1,"x":null,"y":true}"#.into(), Some(Found::Number)),
        (r#"{"model":"m","prompt":[[464,3290],[318]],"max_tokens":16}"#.into(), None),
        (chat(r#"[{"type":"image_url","image_url":{"url":"data:,"}}]"#), Some(Found::NotText)),
        (chat(r#"[{"image_url":{"url":"data:,"}}]"#), Some(Found::NotText)),
        (chat(r#"[{"type":"file","file":{"file_id":"f"}}]"#), Some(Found::NotText)),
        (chat(r#"[{"type":"input_audio","input_audio":{"data":""}}]"#), Some(Found::NotText)),
        (chat(r#"[{"type":"document","source":{"type":"text","data":"x"}}]"#), Some(Found::NotText)),
        (chat(r#"[{"type":"hologram"}]"#), Some(Found::NotText)),
        (
            r#"{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":["string","null"]}}}}}]}"#.into(),
            None,
        ),
        ("{\"a\":\"\\ud800\"}".into(), Some(Found::Unreadable)),
        ("{\"a\":1} x".into(), Some(Found::Unreadable)),
        ("nope".into(), Some(Found::Unreadable)),
    ] {
        assert_eq!(scan(body.as_bytes()), right, "{body}");
    }
}

#[test]
fn a_long_text_is_read_to_its_end() {
    // Whoever went back to the beginning at each of these would not be done within the hour.
    for unit in ["1 ", "12-", "a@", "AB12 ", "1.", "::", "2026-", "A1 "] {
        let text = unit.repeat(100_000) + " jane.doe@example.org";
        assert!(scan_text(&text).is_some(), "{unit}");
    }
}
