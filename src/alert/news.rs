//! One alert, and how it looks to those who read it.

use super::Kind;
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The longest text of an alert, characters. Chat tools cut what is longer.
const LONGEST: usize = 2_000;
/// The longest name of foreign making in it, characters.
const LONGEST_NAME: usize = 128;

/// One alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// Its id, also that of its webhook: receivers recognise repeats by it.
    pub id: String,
    /// What it is about.
    pub kind: Kind,
    /// When it was raised.
    pub at: Timestamp,
    /// Since when it has been so, where that is another time.
    pub since: Option<Timestamp>,
    /// Whom it concerns; nobody in particular for a store.
    pub about: Option<About>,
    /// What happened, since when, the numbers, and what to do: sentences for a person.
    pub text: String,
    /// The same for programs.
    pub facts: Map<String, Value>,
    /// Whether something is well again.
    #[serde(default)]
    pub good: bool,
}

/// Whom an alert concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `customer`, `user`, `app`, `gateway`, `pool`, `upstream` or `model`.
    pub what: String,
    /// Its name; of a user `customer/user`.
    pub name: String,
}

impl Alert {
    /// An alert that is raised now.
    #[must_use]
    pub fn new(kind: Kind, at: Timestamp, text: &str) -> Self {
        Self {
            id: format!("al_{:032x}", fastrand::u128(..)),
            kind,
            at,
            since: None,
            about: None,
            text: text.chars().take(LONGEST).collect(),
            facts: Map::new(),
            good: false,
        }
    }

    /// The same about somebody.
    #[must_use]
    pub fn about(mut self, what: &str, name: &str) -> Self {
        self.about = Some(About { what: what.to_owned(), name: name.to_owned() });
        self
    }

    /// The same with the time since when it has been so.
    #[must_use]
    pub const fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// The same with a fact.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// The same as good news.
    #[must_use]
    pub const fn good(mut self) -> Self {
        self.good = true;
        self
    }

    /// What the admin listener shows, and `data` of a webhook.
    #[must_use]
    pub fn view(&self) -> Value {
        json!({
            "id": self.id,
            "kind": self.kind,
            "at": rfc3339(self.at),
            "since": self.since.map(rfc3339),
            "about": self.about,
            "text": self.text,
            "facts": self.facts,
            "good": self.good,
        })
    }

    /// The body of its webhook: `text` for chat tools, the rest for programs.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({
            "text": escaped(&self.text),
            "type": format!("alert.{}", self.kind.as_str()),
            "timestamp": rfc3339(self.at),
            "data": self.view(),
        })
    }

    /// Writes it into the process log.
    pub fn log(&self) {
        let about = self.about.as_ref();
        let facts = Value::Object(self.facts.clone());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: "alert",
                    alert_id = self.id,
                    kind = self.kind.as_str(),
                    about = about.map(|about| about.what.as_str()),
                    subject = about.map(|about| about.name.as_str()),
                    since = self.since.map(rfc3339),
                    %facts,
                    "{}",
                    self.text
                )
            };
        }
        if self.good { line!(info) } else { line!(warn) }
    }
}

/// A text in which Slack and its like see no mention of everybody, no link and no markup of a customer's making.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A name that somebody else chose, fit for a line of text: no control characters, nothing that turns its direction, and not endless.
#[must_use]
pub(super) fn plain(name: &str) -> String {
    let odd =
        |c: &char| !c.is_control() && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    name.chars().filter(odd).take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_tool_sees_no_mentions_and_a_program_sees_everything() {
        let at = Timestamp::from_secs(1_800_000_000);
        let alert = Alert::new(Kind::SpendCap, at, "Customer <!channel>&co is at its cap.")
            .about("customer", "<!channel>&co")
            .since(Timestamp::from_secs(1_799_971_200))
            .fact("percent", 80);
        let body = alert.body();
        assert_eq!(body["text"], "Customer &lt;!channel&gt;&amp;co is at its cap.");
        assert_eq!((&body["type"], &body["timestamp"]), (&json!("alert.spend_cap"), &json!("2027-01-15T08:00:00Z")));
        let data = json!({
            "id": alert.id, "kind": "spend_cap", "at": "2027-01-15T08:00:00Z", "since": "2027-01-15T00:00:00Z",
            "about": { "what": "customer", "name": "<!channel>&co" },
            "text": "Customer <!channel>&co is at its cap.", "facts": { "percent": 80 }, "good": false,
        });
        assert_eq!(body["data"], data);
        let stored = serde_json::to_vec(&alert).expect("JSON");
        assert_eq!(serde_json::from_slice::<Alert>(&stored).expect("as written"), alert);
    }

    #[test]
    fn foreign_names_stay_in_their_line() {
        assert_eq!(plain("a\n\u{1b}[31mb\u{202e}c"), "a[31mbc");
        assert_eq!(plain(&"x".repeat(1_000)).len(), 128);
        assert_eq!(Alert::new(Kind::Test, Timestamp(0), &"x".repeat(9_000)).text.len(), 2_000);
    }
}
