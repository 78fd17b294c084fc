//! The test bed: a gateway in this process, in front of a stand-in provider, on either store, and the check that the books balance.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::config::{Env, Policy};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, CustomerId, NanoUsd, Timestamp};
use tollgate::history::Day;
use tollgate::limit::{Admission, Decision, LimitName, Scope, ScopeKey, Settlement};
use tollgate::server::Server;
use tollgate::stack::Gateway;
use tollgate::stack::pauses::{Pauses, RealPauses};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::{Asked, Balance, Known, Ledger, Look, Renewal, Seen, StoreError, Stores};
use tollgate::telemetry::SystemClock;

/// The prices and the customer of the cases: `m-big`, `m-small`, `emb`, `c-big`; customer `t` with RPM 60, TPM 10,000, $1 a day, 1,000 output tokens, 4 at
/// once. What fails is not tried again, so that a case sees one attempt. `{provider}` is replaced by the stand-in's URL. Everybody else has the plan `open`, which limits nothing.
pub const CONFIG: &str = r#"
[upstreams.openai]
base_url = "{provider}"
[upstreams.anthropic]
base_url = "{provider}"
dialect = "anthropic"
[retry]
max = 0
breaker = { failures = 0 }
[identity]
default_plan = "open"
[models.m-big]
price = { input = 2.50, cached_input = 1.25, output = 10.0 }
[models.m-small]
price = { input = 0.15, cached_input = 0.075, output = 0.60 }
[models.emb]
price = { input = 0.02, output = 0 }
[models.c-big]
price = { input = 3.0, cached_input = 0.30, cache_write = 3.75, cache_write_long = 6.0, output = 15.0 }
[plans.open]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 1000.0 }
on_spend = []
on_provider = []
[plans.case]
messages = "unlimited"
rpm = 60
tpm = 10_000
max_in_flight = 4
max_output_tokens = 1_000
spend = { day = 1.00 }
on_spend = []
on_provider = []
[customers.t]
plan = "case"
"#;

/// The `[retry]` of the cases: what fails is not tried again, and nobody is left alone for it.
const NO_RETRY: &str = "[retry]\nmax = 0\nbreaker = { failures = 0 }\n";

/// [`CONFIG`] with these lines behind it.
pub fn config_and(more: &str) -> String {
    one_retry(&format!("{CONFIG}\n{more}"))
}

/// A configuration in which a `[retry]` behind that of the cases takes its place.
fn one_retry(config: &str) -> String {
    if config.matches("[retry]").count() > 1 { config.replacen(NO_RETRY, "", 1) } else { config.to_owned() }
}

/// A running gateway with its provider.
pub struct Bed {
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// Where it listens to operators, if it does.
    pub admin: Option<SocketAddr>,
    /// The stand-in provider behind it.
    pub provider: Arc<Provider>,
    /// The gateway itself.
    pub gateway: Arc<Gateway>,
    /// The ledger, counting its calls.
    pub ledger: Arc<Counting>,
    /// A client without proxies, redirects or retries.
    pub client: reqwest::Client,
    /// Whether nobody else books in its ledger, so that its history says all of it.
    alone: bool,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Bed {
    /// A bed with the cases' configuration, an in-memory ledger and a plain provider.
    pub async fn new() -> Self {
        Self::with(CONFIG, ProviderOptions::default()).await
    }

    /// A bed with [`CONFIG`] and these lines behind it.
    pub async fn plus(more: &str) -> Self {
        Self::with(&config_and(more), ProviderOptions::default()).await
    }

    /// A bed with this configuration and a provider of these options.
    pub async fn with(config: &str, options: ProviderOptions) -> Self {
        let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
        let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
        Self { alone: true, ..Self::on(config, provider, ledger).await }
    }

    /// A bed on a given provider and ledger: two of them share both.
    pub async fn on(config: &str, provider: Arc<Provider>, ledger: Arc<dyn Ledger>) -> Self {
        Self::clocked(config, provider, ledger, Arc::new(SystemClock)).await
    }

    /// As [`Bed::on`], with the gateway's time from this clock.
    pub async fn clocked(config: &str, provider: Arc<Provider>, ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self::paced(config, provider, ledger, clock, Box::new(RealPauses)).await
    }

    /// As [`Bed::clocked`], with these waits between attempts.
    pub async fn paced(
        config: &str,
        provider: Arc<Provider>,
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        pauses: Box<dyn Pauses>,
    ) -> Self {
        let stores = Stores::in_memory_beside(ledger, clock.clone());
        Self::standing(config, provider, stores, clock, pauses).await
    }

    /// As [`Bed::clocked`], on given stores.
    pub async fn over(config: &str, provider: Arc<Provider>, stores: Stores, clock: Arc<dyn Clock>) -> Self {
        Self::standing(config, provider, stores, clock, Box::new(RealPauses)).await
    }

    async fn standing(
        config: &str,
        provider: Arc<Provider>,
        stores: Stores,
        clock: Arc<dyn Clock>,
        pauses: Box<dyn Pauses>,
    ) -> Self {
        let Stores { ledger, documents } = stores;
        // Two providers for TLS are compiled into the tests; nothing here uses TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = one_retry(config).replace("{provider}", &provider.base_url());
        let (mut policy, _) = Policy::parse(&config, "bed.toml", &Env::default())
            .unwrap_or_else(|problems| panic!("the bed's configuration: {problems:#?}"));
        policy.server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let ledger = Arc::new(Counting {
            inner: ledger,
            admits: AtomicUsize::new(0),
            decided: AtomicUsize::new(0),
            settles: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
        });
        let stores = Stores { ledger: ledger.clone(), documents };
        let gateway = Gateway::paced(policy, stores, clock, pauses).expect("a gateway");
        let server = Server::bind(gateway.clone()).await.expect("a loopback port");
        let address = server.address().expect("bound");
        let admin = server.admin_address().expect("bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(async move { drop(stopped.await) }));
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client without TLS settings");
        Self { address, admin, provider, gateway, ledger, client, alone: false, stop: Some(stop), serving: Some(serving) }
    }

    /// `http://127.0.0.1:PORT` and this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A POST of this JSON by this customer, ready to be changed and sent.
    pub fn post(&self, path: &str, customer: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.client
            .post(self.url(path))
            .header("authorization", "Bearer sk-test")
            .header("content-type", "application/json")
            .header("x-customer-id", customer)
            .body(body)
    }

    /// A chat of this customer with this model; `more` are further members, with a leading comma.
    pub fn chat(&self, customer: &str, model: &str, more: &str) -> reqwest::RequestBuilder {
        let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        self.post("/v1/chat/completions", customer, body)
    }

    /// Waits until nothing is in flight and everything is settled; fails the test when that takes longer than ten seconds.
    pub async fn quiet(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let load = self.gateway.slots.load();
            let outstanding = self.gateway.settler.status().outstanding;
            if load.customers == 0 && load.queued == 0 && outstanding == 0 && self.gateway.metrics.in_flight.get() == 0 {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "not quiet: {load:?}, {outstanding} unsettled");
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
    }

    /// How the budgets of a customer stand.
    pub async fn balances(&self, customer: &str) -> Vec<Balance> {
        let owner = CustomerId::from_trusted(customer).key().as_ref().into();
        self.ledger.read(&ScopeKey { scope: Scope::Customer, owner }).await.expect("the ledger answers")
    }

    /// What a customer has spent today, once everything is quiet. Fails when anything is still held.
    pub async fn spent(&self, customer: &str) -> NanoUsd {
        self.quiet().await;
        let balances = self.balances(customer).await;
        assert!(balances.iter().all(|balance| balance.held == 0), "nothing is held: {balances:?}");
        let day = balances.iter().find(|balance| matches!(balance.limit, LimitName::Spend(tollgate::domain::Period::Day)));
        day.map_or(NanoUsd::ZERO, Balance::spent_usd)
    }

    /// BOOKS: nothing held, nothing in flight, and what these customers spent together is the provider's usage at the served models'
    /// prices. Every reply is priced and rounded by itself, so the provider's log is summed request by request.
    pub async fn assert_books(&self, customers: &[&str]) {
        let mut spent = NanoUsd::ZERO;
        for customer in customers {
            let booked = self.spent(customer).await;
            if self.alone {
                assert_eq!(self.used(customer).await, booked, "the history of {customer} says what is booked");
            }
            spent = spent.saturating_add(booked);
        }
        assert_eq!(spent, self.provider_cost(), "spent by {customers:?} = the provider's usage at its price");
    }

    /// What a customer used today or yesterday (a test may run at midnight), by the history, with everything that this gateway gathered.
    pub async fn used(&self, customer: &str) -> NanoUsd {
        self.quiet().await;
        assert!(self.gateway.history.flush(Duration::from_secs(10)).await, "the store takes the history");
        let today = Day::of(self.gateway.clock.now());
        let days = self.gateway.history.customer_days(customer, today.back(1), today).await.expect("the store answers");
        days.iter().fold(NanoUsd::ZERO, |sum, (_, used)| sum.saturating_add(used.cost()))
    }

    /// The provider's own usage log at the configured prices.
    pub fn provider_cost(&self) -> NanoUsd {
        let policy = self.gateway.policy.load();
        let mut sum = NanoUsd::ZERO;
        for seen in self.provider.log() {
            if let (Some(usage), Some(price)) = (&seen.usage, policy.prices.get(&seen.model)) {
                sum = sum.saturating_add(price.cost(usage, None));
            }
        }
        sum
    }

    /// Requests the provider saw, by path.
    pub fn seen_paths(&self) -> BTreeMap<String, usize> {
        let mut paths = BTreeMap::new();
        for seen in self.provider.log() {
            *paths.entry(seen.path).or_default() += 1;
        }
        paths
    }

    /// Asks the gateway to stop and waits for it.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            serving.await.expect("the server ends in order");
        }
    }
}

/// A ledger that counts its calls.
pub struct Counting {
    inner: Arc<dyn Ledger>,
    /// Calls of `admit`.
    pub admits: AtomicUsize,
    /// Those that are answered.
    pub decided: AtomicUsize,
    /// Calls of `settle`.
    pub settles: AtomicUsize,
    /// Calls of `told`.
    pub told: AtomicUsize,
}

impl Counting {
    fn counted<'a, T: 'a>(&'a self, answer: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let answer = answer.await;
            self.decided.fetch_add(1, Ordering::SeqCst);
            answer
        })
    }
}

impl Ledger for Counting {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.admits.fetch_add(1, Ordering::SeqCst);
        self.counted(self.inner.admit(admission, now))
    }

    fn admit_known<'a>(
        &'a self,
        admission: &'a Admission,
        known: &'a Known,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Asked, StoreError>> {
        self.admits.fetch_add(1, Ordering::SeqCst);
        self.counted(self.inner.admit_known(admission, known, now))
    }

    fn tells(&self) -> bool {
        self.inner.tells()
    }

    fn tell<'a>(
        &'a self,
        customer: Option<&'a ScopeKey>,
        number: u64,
        keep: Option<Duration>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.tell(customer, number, keep)
    }

    fn told(&self) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        self.told.fetch_add(1, Ordering::SeqCst);
        self.inner.told()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.settles.fetch_add(1, Ordering::SeqCst);
        self.inner.settle(batch, now)
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.inner.replace(old, admission, now)
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.inner.read(scope)
    }

    fn look<'a>(&'a self, look: &'a Look, now: Option<Timestamp>) -> BoxFuture<'a, Result<Seen, StoreError>> {
        self.inner.look(look, now)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }

    fn renew<'a>(&'a self, batch: &'a [Renewal], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.renew(batch, now)
    }

    fn sweep(&self, now: Option<Timestamp>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.inner.sweep(now)
    }

    fn standing(&self) -> Option<tollgate::store::outage::Status> {
        self.inner.standing()
    }
}
