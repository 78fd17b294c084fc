//! What an answer says about itself: which model gave it, and what was given up for it. Never silent.

use super::names::{DEGRADED, LEVEL, MODEL};
use crate::degrade::Degraded;
use http::{HeaderMap, HeaderValue};

/// Says on an answer which model gave it, at which level, and what was given up for it. What stood there under those names is replaced.
pub fn mark_answer(headers: &mut HeaderMap, model: &str, level: Option<u8>, degraded: &[Degraded]) {
    // Names of models hold no control characters, but may hold letters that are no ASCII; as bytes those pass.
    if let Ok(model) = HeaderValue::from_bytes(model.as_bytes()) {
        headers.insert(MODEL, model);
    }
    if let Some(level) = level {
        headers.insert(LEVEL, HeaderValue::from(u64::from(level)));
    }
    let items: Vec<String> = degraded.iter().map(|degraded| degraded.item()).collect();
    if !items.is_empty()
        && let Ok(value) = HeaderValue::try_from(items.join(", "))
    {
        headers.insert(DEGRADED, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::degrade::chain::Cause;

    #[test]
    fn an_answer_says_what_was_given_up_as_a_list_of_items() {
        let mut headers = HeaderMap::new();
        mark_answer(&mut headers, "gpt-4o", None, &[]);
        assert_eq!(headers, HeaderMap::from_iter([(MODEL, HeaderValue::from_static("gpt-4o"))]));
        mark_answer(&mut headers, "mödel", Some(2), &[Degraded::Short, Degraded::Cheaper(Cause::Spend)]);
        assert_eq!(headers[MODEL].as_bytes(), "mödel".as_bytes());
        assert_eq!(headers[LEVEL], "2");
        assert_eq!(headers[DEGRADED], "short;cause=level, cheaper;cause=spend");
    }
}
