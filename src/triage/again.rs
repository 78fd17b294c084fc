//! A ticket's request, asked again by an agent: what is kept of it until then, and what came of it.
//!
//! The asking itself is `stack/resubmit`; here is only what a store holds. The request is kept with the hash of the gateway key it came
//! with, so that one whose key was taken away is not asked any more, and without any secret.

use super::desk::Desk;
use super::ticket::{Done, Ticket};
use super::work::Trouble;
use super::{TicketId, ticket};
use crate::domain::Timestamp;
use crate::repeats::job::Request;
use crate::repeats::kept::{join, split};
use crate::store::StoreError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Results that are remembered with a ticket; the latest.
const RESULTS: usize = 5;
/// The longest text of a result that is kept, bytes, and the longest answer of a ticket: it is shown in listings.
pub const LONGEST_TEXT: usize = 16 << 10;
/// How often a result is tried to be written, for it was paid for, and the pause after the first time, which doubles.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(100);

/// A request as it is kept with its ticket.
#[derive(Debug)]
pub struct Kept {
    /// The hash of the gateway key it came with.
    pub key: [u8; 32],
    /// The request, without any credential.
    pub request: Request,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
}

impl Kept {
    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        join(&Line { key: blake3::Hash::from_bytes(self.key).to_hex().to_string() }, &self.request.encode())
    }

    /// From what is stored.
    #[must_use]
    pub fn decode(value: &Bytes) -> Option<Self> {
        let (line, request) = split::<Line>(value)?;
        Some(Self { key: blake3::Hash::from_hex(line.key).ok()?.into(), request: Request::decode(&request)? })
    }
}

/// What came of asking a ticket's request again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resubmission {
    /// Who asked.
    pub by: Box<str>,
    /// When it began.
    pub at: Timestamp,
    /// When it was over.
    pub ended: Timestamp,
    /// Our id of the request it was.
    pub request: Box<str>,
    /// The status it would have been answered with.
    pub status: u16,
    /// Why it is no success: the code of a refusal, or another word of the same kind.
    pub code: Option<Box<str>>,
    /// The model that answered.
    pub model: Option<Box<str>>,
    /// What was given up for the answer, as the header `x-tollgate-degraded` says it.
    pub degraded: Option<Box<str>>,
    /// What it cost, nano-dollars.
    pub cost: u64,
    /// What the model said; only the latest result keeps it.
    pub text: Option<Box<str>>,
    /// Whether it said more.
    pub truncated: bool,
}

impl Resubmission {
    /// Takes what the model said, as much of it as is kept.
    #[must_use]
    pub fn saying(mut self, said: &str) -> Self {
        let end = (0..=LONGEST_TEXT.min(said.len())).rev().find(|end| said.is_char_boundary(*end)).unwrap_or(0);
        self.truncated = end < said.len();
        self.text = (!said.trim().is_empty()).then(|| said[..end].into());
        self
    }

    /// What can stand as a ticket's answer: all that a model said.
    fn answer(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| !self.truncated && (200..300).contains(&self.status))
    }
}

impl Desk {
    /// The request of a ticket that belongs to an agent for now, who wants to ask it again.
    ///
    /// # Errors
    /// When it is not kept, or the store does not answer.
    pub async fn request(&self, id: TicketId) -> Result<Kept, Trouble> {
        let bytes = self.inner.shelf.request(id).await?.ok_or(Trouble::NoRequest)?;
        let damaged = || StoreError::Failed("the request kept with a ticket is damaged".into());
        Kept::decode(&bytes).ok_or_else(|| damaged().into())
    }

    /// Notes on a ticket what came of asking its request again, whatever became of the ticket meanwhile. With `answers` a success is the
    /// ticket's answer, where the agent may still give one.
    ///
    /// # Errors
    /// When the ticket is gone, or the store did not take it after some tries.
    pub async fn resubmitted(&self, id: TicketId, result: &Resubmission, answers: bool) -> Result<Ticket, Trouble> {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.try_resubmitted(id, result, answers).await {
                Err(Trouble::Store(error)) => tracing::debug!(%error, ticket = %id, "a result could not be noted"),
                noted => return noted,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.try_resubmitted(id, result, answers).await
    }

    async fn try_resubmitted(&self, id: TicketId, result: &Resubmission, answers: bool) -> Result<Ticket, Trouble> {
        let agent = &*result.by;
        let noted = self
            .act(id, agent, |ticket, now| {
                let news = ticket.take(result.clone(), now);
                Ok(if news { Done::Changed("resubmitted") } else { Done::Same })
            })
            .await?;
        match result.answer().filter(|_| answers) {
            Some(text) => match self.answer(id, agent, text).await {
                // Somebody was quicker; what stands is theirs, and the result is noted.
                Err(Trouble::Conflict(_)) => Ok(noted),
                answered => answered,
            },
            None => Ok(noted),
        }
    }
}

impl Ticket {
    /// Remembers a result; false for one that is known already.
    fn take(&mut self, result: Resubmission, now: Timestamp) -> bool {
        if self.resubmitted.iter().any(|known| known.request == result.request) {
            return false;
        }
        for known in &mut self.resubmitted {
            known.text = None;
        }
        if self.resubmitted.len() >= RESULTS {
            self.resubmitted.remove(0);
        }
        let what = match &result.code {
            None => "resubmitted".to_owned(),
            Some(code) => format!("resubmitted: {}", ticket::word(code)),
        };
        self.note(now, Some(&result.by), &what);
        self.resubmitted.push(result);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Api;
    use http::{HeaderMap, HeaderName, HeaderValue, Method};

    fn result() -> Resubmission {
        Resubmission {
            by: "ann".into(),
            at: Timestamp(1),
            ended: Timestamp(2),
            request: "r".into(),
            status: 200,
            code: None,
            model: None,
            degraded: None,
            cost: 0,
            text: None,
            truncated: false,
        }
    }

    #[test]
    fn a_request_is_read_again_as_it_was_kept() {
        let request = Request {
            api: Api::Chat,
            method: Method::POST,
            uri: "/v1/chat/completions?x=1".parse().expect("a target"),
            headers: HeaderMap::from_iter([(HeaderName::from_static("x-a"), HeaderValue::from_static("1"))]),
            body: Bytes::from_static(b"{\n}\n"),
        };
        let kept = Kept::decode(&Kept { key: [9; 32], request }.encode()).expect("it reads");
        assert_eq!((kept.key, kept.request.api, &kept.request.body[..]), ([9; 32], Api::Chat, &b"{\n}\n"[..]));
        assert_eq!(kept.request.headers["x-a"], "1");
        assert!(Kept::decode(&Bytes::from_static(b"{}\n{}\n")).is_none());
    }

    #[test]
    fn only_a_whole_text_of_a_success_can_be_an_answer() {
        let long = "é".repeat(LONGEST_TEXT / 2 + 1);
        for (status, said, text, answer) in [
            (200, "Yes.", Some("Yes."), true),
            (500, "Yes.", Some("Yes."), false),
            (200, " \n", None, false),
            (200, &*long, Some(&long[..LONGEST_TEXT]), false),
        ] {
            let result = Resubmission { status, ..result() }.saying(said);
            assert_eq!((result.text.as_deref(), result.answer().is_some()), (text, answer), "{status} {said:.9}");
            assert_eq!(result.truncated, said.len() > LONGEST_TEXT);
        }
    }
}
