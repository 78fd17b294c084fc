//! Replies a test dictates, down to the bytes and the moments they leave.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::wire::Usage;

/// Something that waits until a test lets it go on. Clones open together.
#[derive(Clone, Debug, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody pass, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    /// Waits for the gate to open.
    pub async fn passed(&self) {
        self.0.cancelled().await;
    }
}

/// One thing a reply does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes, as one HTTP chunk or (in a raw script) one write.
    Send {
        /// What to send.
        bytes: Bytes,
        /// Output tokens in it, for [`Seen::delivered`](super::Seen::delivered).
        tokens: u64,
    },
    /// Lets time pass.
    Wait(Duration),
    /// Waits for a test.
    Until(Gate),
    /// Sends nothing more and keeps the connection open until the client leaves.
    Silence,
    /// Ends the connection without ending the reply: FIN in HTTP/1.1, `RST_STREAM` in HTTP/2.
    Close,
    /// Ends the connection with a TCP RST.
    Reset,
}

impl Step {
    /// Sends bytes that hold no output.
    #[must_use]
    pub fn send(bytes: impl Into<Bytes>) -> Self {
        Self::Send { bytes: bytes.into(), tokens: 0 }
    }
}

/// A reply to play once.
///
/// ```
/// use tollgate::demo::provider::Script;
///
/// let refused = Script::json(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "7");
/// let cut = Script::sse().send("data: {\"choices\":[]}\n\n").reset();
/// let odd = Script::raw().send("HTTP/1.1 99 Odd\r\ncontent-length: 0\r\n\r\n");
/// # let _ = (refused, cut, odd);
/// ```
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) form: Form,
    pub(super) hold: Option<Gate>,
    pub(super) steps: Vec<Step>,
    pub(super) usage: Option<Usage>,
}

/// Whether HTTP is spoken for the script, or by it.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Http { status: StatusCode, headers: HeaderMap, whole: bool },
    Raw,
}

impl Script {
    /// A reply whose every byte, status line included, the script sends itself (HTTP/1.1 only). When the steps are
    /// through the connection is closed; end with [`Script::silence`] to keep it open.
    #[must_use]
    pub const fn raw() -> Self {
        Self { form: Form::Raw, hold: None, steps: Vec::new(), usage: None }
    }

    /// A chunked reply with this status and no headers yet.
    ///
    /// # Panics
    /// When `status` is not an HTTP status; send those with [`Script::raw`].
    #[must_use]
    pub fn http(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status from 100 to 999");
        Self { form: Form::Http { status, headers: HeaderMap::new(), whole: false }, hold: None, steps: Vec::new(), usage: None }
    }

    /// A whole JSON reply with a `content-length`.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let mut script = Self::http(status).header("content-type", "application/json").send(body);
        if let Form::Http { whole, .. } = &mut script.form {
            *whole = true;
        }
        script
    }

    /// A 200 event stream with no events yet.
    #[must_use]
    pub fn sse() -> Self {
        Self::http(200).header("content-type", "text/event-stream").header("cache-control", "no-cache")
    }

    /// Adds a header. Values may hold bytes above 127.
    ///
    /// # Panics
    /// When the name or the value cannot be a header, or the script is raw.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a header value");
        match &mut self.form {
            Form::Http { headers, .. } => headers.append(name, value),
            Form::Raw => panic!("a raw script sends its own headers"),
        };
        self
    }

    /// Adds any step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Sends bytes as one chunk.
    #[must_use]
    pub fn send(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::send(bytes))
    }

    /// Sends bytes one chunk a byte: how UTF-8 and events get split in the worst places.
    #[must_use]
    pub fn send_bytewise(mut self, bytes: impl Into<Bytes>) -> Self {
        let bytes: Bytes = bytes.into();
        self.steps.extend((0..bytes.len()).map(|at| Step::send(bytes.slice(at..=at))));
        self
    }

    /// Lets time pass.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.step(Step::Wait(time))
    }

    /// Waits for a test, after what was sent so far.
    #[must_use]
    pub fn until(self, gate: &Gate) -> Self {
        self.step(Step::Until(gate.clone()))
    }

    /// Holds back even the headers until `gate` opens.
    #[must_use]
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    /// Keeps the connection open and silent.
    #[must_use]
    pub fn silence(self) -> Self {
        self.step(Step::Silence)
    }

    /// Breaks the reply off.
    #[must_use]
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Breaks the reply off with a RST.
    #[must_use]
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// States the usage that the bytes report, for the log and the totals.
    #[must_use]
    pub fn used(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}
