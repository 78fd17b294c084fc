//! What all rows share: what was asked for, the scratch directory, the two nginx.

use crate::Options;
use crate::host::generator::{self, Watched, Window};
use crate::host::nginx::{ANSWER, Nginx};
use crate::load::{Prompt, Spec};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Connections of a load that is to be as fast as it can.
pub const CONNECTIONS: usize = 32;
/// Customers of such a load.
pub const CUSTOMERS: u64 = 64;
/// Bytes of a prompt.
pub const PROMPT: usize = 3_000;
/// Times that each pairing is measured, one side after the other.
pub const ROUNDS: usize = 2;

/// What all rows share.
pub struct Bench {
    /// What was asked for.
    pub options: Options,
    /// Where everything is written.
    pub scratch: PathBuf,
    /// The upstream that answers at once.
    pub upstream: Nginx,
    /// The plain proxy before it.
    pub proxy: Nginx,
    /// What the first row found: answers a second with the embedded store.
    pub embedded: Option<f64>,
}

impl Bench {
    /// Starts the two nginx.
    pub fn start(options: Options, scratch: &Path) -> Result<Self, String> {
        let upstream = Nginx::upstream(scratch)?;
        let proxy = Nginx::proxy(scratch, upstream.address, false)?;
        Ok(Self { options, scratch: scratch.to_owned(), upstream, proxy, embedded: None })
    }

    /// Seconds of one window.
    pub fn seconds(&self) -> f64 {
        self.options.seconds as f64
    }

    /// A load that is as fast as it can, of answers that are all the same.
    pub fn spec(&self, targets: &[SocketAddr], prompt: Prompt) -> Spec {
        Spec {
            targets: targets.to_vec(),
            connections: CONNECTIONS,
            warm_up: 1.0,
            seconds: self.seconds(),
            rate: None,
            ramp: 0.0,
            key: crate::host::gateway::KEY.to_owned(),
            model: "gpt-4o-mini".to_owned(),
            customers: ("c".to_owned(), CUSTOMERS),
            prompt,
            stream: None,
            expect: 200,
            answer: Some(ANSWER.to_owned()),
            most: None,
        }
    }

    /// The processes of the plain proxy.
    pub fn plain(&self) -> Watched {
        vec![("upstream", vec![self.upstream.process.id()]), ("nginx", vec![self.proxy.process.id()])]
    }

    /// The upstream by itself.
    pub fn direct(&self) -> Watched {
        vec![("upstream", vec![self.upstream.process.id()])]
    }

    /// Runs several loads, one after the other, and all of them again: so that what changes on the machine meanwhile meets all alike.
    pub async fn interleaved(&self, loads: &[(&str, Spec, Watched)]) -> Result<Vec<Window>, String> {
        let mut windows = vec![Window::default(); loads.len()];
        for _ in 0..ROUNDS {
            for ((name, spec, watched), window) in loads.iter().zip(&mut windows) {
                let one = generator::run(spec, watched.clone()).await?;
                one.check(name)?;
                window.add(one);
            }
        }
        Ok(windows)
    }
}
