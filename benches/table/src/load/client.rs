//! One connection: asks, reads, checks, asks again.

use super::Spec;
use super::pace::Pace;
use super::prompt::Prompts;
use super::reply::Reader;
use super::tally::Tally;
use crate::pieces;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Failures in a row after which a connection gives up.
const GIVES_UP: u32 = 10;

/// A connection and what it will ask.
pub struct Client {
    number: usize,
    spec: Rc<Spec>,
    tally: Rc<Tally>,
    pace: Option<Rc<Pace>>,
    prompts: Prompts,
    request: String,
    body: String,
}

impl Client {
    pub fn new(number: usize, spec: Rc<Spec>, tally: Rc<Tally>, pace: Option<Rc<Pace>>) -> Self {
        let run = pieces::now().as_nanos() as u64;
        let prompts = Prompts::new(spec.prompt, number, run);
        Self { number, spec, tally, pace, prompts, request: String::new(), body: String::new() }
    }

    pub async fn run(mut self) {
        let target = self.spec.targets[self.number % self.spec.targets.len()];
        let (mut socket, mut reader, mut failures) = (None, Reader::default(), 0);
        loop {
            let from = match &self.pace {
                Some(pace) => match pace.next().await {
                    Some(due) => due,
                    None => return,
                },
                None => Instant::now(),
            };
            let Some(request) = self.tally.another() else { return };
            self.write(request);
            let from = if self.pace.is_some() { from } else { Instant::now() };
            match self.exchange(target, &mut socket, &mut reader).await {
                Ok(status) => {
                    failures = 0;
                    let right = status == self.spec.expect && self.is_right(&reader.body);
                    self.tally.answered(status, right, from.elapsed(), &reader.body);
                }
                Err(why) => {
                    socket = None;
                    self.tally.broke(why);
                    failures += 1;
                    if failures == GIVES_UP {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    fn is_right(&self, body: &[u8]) -> bool {
        match (&self.spec.answer, self.spec.stream) {
            (Some(answer), _) => answer.as_bytes() == body,
            // What is left of a stream is its end.
            (None, Some(_)) => body.ends_with(pieces::END),
            (None, None) => true,
        }
    }

    async fn exchange(
        &mut self,
        target: std::net::SocketAddr,
        socket: &mut Option<TcpStream>,
        reader: &mut Reader,
    ) -> Result<u16, String> {
        let socket = match socket {
            Some(socket) => socket,
            None => {
                let fresh = TcpStream::connect(target).await.map_err(|error| format!("{target}: {error}"))?;
                fresh.set_nodelay(true).map_err(|error| error.to_string())?;
                socket.insert(fresh)
            }
        };
        socket.write_all(self.request.as_bytes()).await.map_err(|error| error.to_string())?;
        let Some(due) = self.spec.stream else {
            return reader.read(socket, |_, _| {}).await;
        };
        let (mut before, mut come) = (None, 0);
        let status = reader.read(socket, |status, body| {
            if status != 200 {
                return;
            }
            let (now, at) = (Instant::now(), pieces::now());
            let used = pieces::each(body, |written| {
                self.tally.piece(at.saturating_sub(written), before.map_or(Duration::ZERO, |before| now - before));
                before = Some(now);
                come += 1;
            });
            body.drain(..used);
        });
        let status = status.await?;
        if status == 200 && come != due {
            return Err(format!("a stream had {come} pieces of {due}"));
        }
        Ok(status)
    }

    /// Writes a request, of the next customer in turn whatever the connection, so that each asks once before any asks twice.
    fn write(&mut self, request: u64) {
        let (prefix, customers) = &self.spec.customers;
        let customer = request % customers;
        self.body.clear();
        let stream = self.spec.stream.is_some();
        let _ = write!(
            self.body,
            r#"{{"model":"{}","stream":{stream},"max_tokens":256,"messages":[{{"role":"system","content":"You are the assistant of a shop. Answer shortly."}},{{"role":"user","content":""#,
            self.spec.model
        );
        self.prompts.write(&mut self.body);
        self.body.push_str(r#""}]}"#);
        self.request.clear();
        let _ = write!(
            self.request,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             accept: application/json\r\nuser-agent: bench\r\nx-customer-id: {prefix}{customer}\r\ncontent-length: {}\r\n\r\n",
            self.spec.key,
            self.body.len()
        );
        self.request.push_str(&self.body);
    }
}
