//! The lines that `tollgate demo` prints, for pasting into a second terminal that has nothing but bash and curl.

/// The customer of the first two lines. It needs no configuration.
pub const CUSTOMER: &str = "acme";

/// The customer, and plan, that runs out of messages: a burst of 3, then one a minute.
pub const MESSAGES: &str = "demo-messages";

/// The customer, and plan, that runs out of money: $0.001 a day.
pub const DOLLARS: &str = "demo-dollars";

/// The lines, for a gateway at `base` (such as `http://127.0.0.1:8080`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// One answer, with the headers that say what is left.
    pub answer: String,
    /// One answer as it is written.
    pub stream: String,
    /// Five calls of a customer with three messages: 200 three times, then 429 and when to come back.
    pub messages: String,
    /// Calls of a customer with a tenth of a cent, until the 402.
    pub dollars: String,
}

impl Lines {
    /// Writes the lines for the gateway at `base`, without a slash at the end.
    #[must_use]
    pub fn new(base: &str) -> Self {
        let call = |flags: &str, customer: &str, body: &str| {
            format!(
                "curl {flags} {base}/v1/chat/completions -H 'Authorization: Bearer demo' -H 'Content-Type: application/json' \
                 -H 'X-Customer-Id: {customer}' -d '{body}'"
            )
        };
        let body = |model: &str, question: &str, rest: &str| {
            format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"{question}"}}]{rest}}}"#)
        };
        let hello = body("gpt-4o-mini", "Where is my order?", "");
        let dear = body("gpt-4o", "Where is my order? [60 tokens]", "");
        let streamed = body("gpt-4o-mini", "Where is my order?", r#","stream":true"#);
        // curl's own `%header{}` would be neater and needs curl 7.83.
        let five = |call: String| {
            format!(r#"for i in 1 2 3 4 5; do {call} | grep -oiE '^HTTP/.*|^retry-after:.*|"message": ?"[^"]*"'; echo; done"#)
        };
        Self {
            answer: call("-sSi", CUSTOMER, &hello),
            stream: call("-sSN", CUSTOMER, &streamed),
            messages: five(call("-sSi", MESSAGES, &hello)),
            dollars: five(call("-sSi", DOLLARS, &dear)),
        }
    }

    /// All of them with a sentence each, as the demo prints them.
    #[must_use]
    pub fn print(&self) -> String {
        let Self { answer, stream, messages, dollars } = self;
        format!(
            "Paste these into a second terminal; the gateway needs this one.\n\n\
             # An answer; the headers say what this customer has left:\n{answer}\n\n\
             # A stream:\n{stream}\n\n\
             # A customer with three messages; the fourth call is told when to come back (429):\n{messages}\n\n\
             # A customer with $0.001 a day; when it is spent, the answer is 402:\n{dollars}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_one_line_with_a_json_body_for_one_customer() {
        let lines = Lines::new("http://127.0.0.1:8080");
        let table = [
            (&lines.answer, CUSTOMER, "gpt-4o-mini"),
            (&lines.stream, CUSTOMER, "gpt-4o-mini"),
            (&lines.messages, MESSAGES, "gpt-4o-mini"),
            (&lines.dollars, DOLLARS, "gpt-4o"),
        ];
        for (line, customer, model) in table {
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.contains(" http://127.0.0.1:8080/v1/chat/completions "), "{line}");
            assert!(line.contains(&format!("'X-Customer-Id: {customer}'")), "{line}");
            let body = line.split("-d '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["model"], model, "{line}");
            assert!(lines.print().contains(line.as_str()));
        }
    }
}
