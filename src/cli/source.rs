//! Where a command gets the history from: a running gateway's admin listener, or the configured store itself.
//!
//! The embedded store belongs to the gateway's process while one runs; Redis can be read beside any number of gateways.

use super::{BAD_CONFIG, HistorySource};
use crate::config::policy::StoreKind;
use crate::config::{Env, Policy};
use crate::history::{Day, History, ModelUse, Use};
use crate::reconcile::Ours;
use crate::store::documents::Documents;
use crate::store::documents::embedded::EmbeddedDocuments;
use crate::store::redis::RedisDocuments;
use crate::suggest::CustomerDay;
use crate::telemetry::SystemClock;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// How long the gateway may take to answer once.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of an answer that is not ours is repeated, characters.
const REPEATED: usize = 200;

/// Why there is no history, and the exit code for it.
pub type NoHistory = (String, u8);

/// See the module.
pub enum Source {
    /// A gateway's admin listener.
    Gateway {
        /// Its address.
        base: reqwest::Url,
        /// Its token.
        token: Option<String>,
        /// Who asks.
        client: reqwest::Client,
    },
    /// The store.
    Store(Arc<History>),
}

#[derive(Deserialize)]
struct Page {
    customers: Vec<Named>,
    after: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    customer: String,
    #[serde(flatten)]
    used: Use,
}

#[derive(Deserialize)]
struct Models {
    models: Vec<Ours>,
}

impl Source {
    /// Opens what the arguments say. Must be called inside a runtime.
    pub fn open(args: &HistorySource) -> Result<Self, NoHistory> {
        if args.store {
            return store(args).map(Self::Store);
        }
        let base = reqwest::Url::parse(&args.url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let base = base.ok_or_else(|| (format!("{:?} is not a URL; write http://127.0.0.1:8081", args.url), BAD_CONFIG))?;
        let client = args.trust.client(PATIENCE).map_err(|message| (message, BAD_CONFIG))?;
        Ok(Self::Gateway { base, token: args.token.clone(), client })
    }

    /// All customers' days.
    pub async fn customers(&self, first: Day, last: Day) -> Result<Vec<CustomerDay>, NoHistory> {
        let mut all = Vec::new();
        for day in first.through(last, crate::history::MOST_DAYS) {
            let mut after: Option<String> = None;
            loop {
                let (found, next) = match self {
                    Self::Store(history) => history.all_customers(day, after.as_deref()).await.map_err(|e| (e.to_string(), 1))?,
                    Self::Gateway { .. } => {
                        let mut query = vec![("day", day.to_string())];
                        query.extend(after.map(|after| ("after", after)));
                        let page: Page = self.get("scan", &query).await?;
                        (page.customers.into_iter().map(|named| (named.customer, named.used)).collect(), page.after)
                    }
                };
                all.extend(found.into_iter().map(|(customer, used)| CustomerDay { customer, day, used }));
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(all)
    }

    /// What each model did.
    pub async fn models(&self, first: Day, last: Day) -> Result<Vec<Ours>, NoHistory> {
        if let Self::Gateway { .. } = self {
            let query = [("from", first.to_string()), ("to", last.to_string())];
            return self.get::<Models>("models", &query).await.map(|answer| answer.models);
        }
        let Self::Store(history) = self else { unreachable!("the other case returned") };
        let mut all = Vec::new();
        for day in first.through(last, crate::history::MOST_DAYS) {
            let found: Vec<ModelUse> = history.models(day).await.map_err(|error| (error.to_string(), 1))?;
            all.extend(found.into_iter().map(|used| Ours { day, used }));
        }
        Ok(all)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, String)]) -> Result<T, NoHistory> {
        let Self::Gateway { base, token, client } = self else { unreachable!("only of a gateway") };
        let mut address = base.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(["admin", "history", path]);
        }
        address.query_pairs_mut().extend_pairs(query);
        let mut request = client.get(address);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = async {
            let reply = request.send().await?;
            Ok::<_, reqwest::Error>((reply.status(), reply.text().await?))
        };
        match answer.await {
            Ok((StatusCode::OK, text)) => {
                serde_json::from_str(&text).map_err(|_| (format!("no admin listener answers at {base}"), 1))
            }
            Ok((status, text)) => Err((complaint(status, &text), 1)),
            Err(_) => Err((
                format!(
                    "no answer from {base}; is the gateway running, and its [admin] listening there? (--store reads the store)"
                ),
                1,
            )),
        }
    }
}

/// The listener's own sentence, where it is one.
fn complaint(status: StatusCode, text: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let message = parsed.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str());
    let message = message.unwrap_or(text).chars().filter(|c| !c.is_control()).take(REPEATED).collect::<String>();
    format!("{status}: {message}")
}

fn store(args: &HistorySource) -> Result<Arc<History>, NoHistory> {
    let (policy, _) = Policy::load(args.config.config.as_deref(), &Env::of_process()).map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        (problems.join("\n"), BAD_CONFIG)
    })?;
    let clock = Arc::new(SystemClock);
    let failed = |error: crate::store::StoreError| (error.to_string(), 1);
    let documents: Arc<dyn Documents> = match &policy.store {
        StoreKind::Embedded { path, .. } => {
            let path = path.join("documents");
            if !path.is_dir() {
                return Err((format!("there is no store in {}", path.display()), 1));
            }
            Arc::new(EmbeddedDocuments::open(path, clock.clone()).map_err(failed)?)
        }
        StoreKind::Redis { servers, deadline, .. } => {
            let _ = rustls::crypto::ring::default_provider().install_default();
            Arc::new(RedisDocuments::open(servers, *deadline).map_err(failed)?)
        }
    };
    Ok(History::start(documents, policy.history, clock, Arc::default()))
}
