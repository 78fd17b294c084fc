//! The incidents: who asks what when, of which account, through which configuration.

use std::time::Duration;
use tollgate::demo::provider::{AccountLimits, Window};

/// The model of the questions on both mornings, and the cheaper one that may stand in.
pub const LARGE: &str = "gpt-4o";
/// The cheaper model, and that of the order bug.
pub const SMALL: &str = "gpt-4o-mini";

/// What a client does when it is refused.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    /// Nothing: its customer sees an error.
    Once,
    /// Asks again after the same pause whatever the refusal says.
    Stubborn { retries: u32, pause: Duration },
    /// Comes back when it is told to, otherwise after a while, until the run is over.
    Patient { pause: Duration },
}

/// Customers who ask alike.
#[derive(Clone, Debug)]
pub struct Crowd {
    pub name: &'static str,
    pub customers: usize,
    /// Questions a minute.
    pub rate: u64,
    /// From when to when, per mille of the run.
    pub span: (u64, u64),
    pub client: Client,
    pub model: &'static str,
    /// Words of a question, about as many tokens.
    pub words: usize,
    /// Tokens of an answer, from and to.
    pub output: (u64, u64),
    /// The output cap it asks for.
    pub cap: u64,
    pub class: Option<&'static str>,
    pub background: bool,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub about: &'static str,
    /// How long it takes unless told otherwise, seconds.
    pub seconds: u64,
    pub crowds: Vec<Crowd>,
    pub account: AccountLimits,
    pub first_byte: Duration,
    pub per_token: Duration,
    /// The gateway's configuration beyond what every run has; `None` = straight at the provider.
    pub config: Option<String>,
    /// The plan of customers that have no other.
    pub plan: &'static str,
    /// Internal errors of the provider, spread over the busy part.
    pub errors: u64,
    pub expect: Expect,
}

/// Which rules a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The incident itself: that many customers, per mille, of the first crowd that is not at fault go without.
    Incident { crowd: &'static str, at_least: u64 },
    /// The order bug through the gateway.
    Order,
    /// A morning through the gateway; whether the rush is more than the quota, so that the chain is walked.
    Morning { beyond: bool },
}

/// All of them, in the order in which they are played.
pub fn all(only: &[String], seconds: Option<u64>) -> Vec<Scene> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| name.starts_with(one.as_str()));
    let mut scenes: Vec<Scene> = vec![
        order("order-naive", true, false),
        order("order-tollgate", true, true),
        order("order-without-merchant", false, true),
        first_morning(),
    ];
    for (name, beyond) in [("ipo-tollgate", false), ("ipo-beyond", true)] {
        scenes.push(later(name, beyond, seconds.unwrap_or(300)));
    }
    scenes.retain(|scene| wanted(scene.name));
    for scene in &mut scenes {
        scene.seconds = seconds.unwrap_or(scene.seconds);
    }
    scenes
}

/// 6,000 messages in 150 s instead of ten minutes (all rates but the plan's are four times as high or, for the pause, a quarter).
fn order(name: &'static str, with_merchant: bool, gateway: bool) -> Scene {
    let crowd = |name, customers, rate, span, client| Crowd {
        name,
        customers,
        rate,
        span,
        client,
        model: SMALL,
        words: 230,
        output: (40, 60),
        cap: 100,
        class: None,
        background: false,
    };
    let stubborn = Client::Stubborn { retries: 1_000, pause: Duration::from_secs(15) };
    let mut crowds = vec![crowd("others", 10_000, 720, (0, 1_000), Client::Once)];
    if with_merchant {
        crowds.push(crowd("merchant", 1, 2_400, (0, 1_000), stubborn));
    }
    let config = "[pools.account]\nupstream = \"openai\"\nmodels = [\"gpt-4o-mini*\"]\nceiling = { rpm = 1_300, tpm = 2_000_000 }\n\
                  [customers.merchant-0]\nplan = \"business\"\n";
    Scene {
        name,
        about: "a merchant's integration sends 2,400 messages a minute and each again every 15 s; 720 others a minute ask once",
        seconds: 150,
        crowds,
        account: AccountLimits { rpm: Some(1_300), tpm: Some(2_000_000), counts_refused: true, ..AccountLimits::default() },
        first_byte: Duration::from_millis(100),
        per_token: Duration::ZERO,
        config: gateway.then(|| config.to_owned()),
        plan: "individual",
        errors: 0,
        expect: if gateway { Expect::Order } else { Expect::Incident { crowd: "others", at_least: 300 } },
    }
}

fn question(name: &'static str, rate: u64, class: &'static str) -> Crowd {
    Crowd {
        name,
        customers: 3_000,
        rate,
        span: (0, 1_000),
        client: Client::Once,
        model: LARGE,
        words: 2_150,
        output: (200, 400),
        cap: 2_500,
        class: Some(class),
        background: false,
    }
}

fn job(client: Client, span: (u64, u64)) -> Crowd {
    let shape =
        Crowd { words: 780, output: (20, 46), cap: 64, class: None, background: true, client, span, ..question("job", 120, "") };
    Crowd { customers: 1, ..shape }
}

/// The first: naive clients, an account that enforces its quota second by second.
fn first_morning() -> Scene {
    let naive = Client::Stubborn { retries: 3, pause: Duration::from_millis(110) };
    Scene {
        name: "ipo-naive",
        about: "150 questions a minute of 2,500 tokens and a labelling job of 100,000 tokens a minute, 500 RPM / 400,000 TPM",
        seconds: 300,
        crowds: vec![Crowd { client: naive, ..question("questions", 150, "general") }, job(naive, (0, 1_000))],
        account: AccountLimits {
            rpm: Some(500),
            tpm: Some(400_000),
            window: Window::Second,
            counts_refused: true,
            ..AccountLimits::default()
        },
        first_byte: Duration::from_millis(20),
        per_token: Duration::from_millis(5),
        config: None,
        plan: "individual",
        errors: 0,
        expect: Expect::Incident { crowd: "questions", at_least: 150 },
    }
}

/// The second: a tenth of it quiet, the rush up to its half, then quiet again. The hold of a level is as much shorter as the morning is.
fn later(name: &'static str, beyond: bool, seconds: u64) -> Scene {
    let (general, account) = if beyond { (110, 110) } else { (55, 55) };
    let rush = |crowd: Crowd| Crowd { span: (100, 500), ..crowd };
    let hold = (seconds / 10).max(1);
    let config = format!(
        "[concurrency]\nslots = 64\n[plans.desk]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\n\
         spend = {{ day = 1000.0 }}\nmax_output_tokens = 2_500\non_provider = [\"cheaper\", \"handoff\"]\n\
         [pools.large]\nupstream = \"openai\"\nmodels = [\"{LARGE}\"]\nceiling = {{ rpm = 500, tpm = 500_000 }}\nwindow = \"sliding\"\n\
         [models.\"{LARGE}\"]\nfallback = \"{SMALL}\"\nprice = {{ input = 2.50, output = 10.00 }}\n\
         [classes.general]\nfallback = true\n[classes.account]\nfallback = false\n[levels]\nhold = \"{hold}s\"\n"
    );
    Scene {
        name,
        about: if beyond {
            "280 questions a minute on the same quota: more than it holds even with short answers"
        } else {
            "170 questions a minute in the rush and a labelling job through Tollgate, 500 RPM / 500,000 TPM"
        },
        seconds,
        crowds: vec![
            rush(question("general", general, "general")),
            rush(question("account", account, "account")),
            question("everyday", 60, "general"),
            job(Client::Patient { pause: Duration::from_secs(10) }, (0, 300)),
        ],
        account: AccountLimits {
            rpm: Some(500),
            tpm: Some(500_000),
            window: Window::Minute,
            counts_refused: true,
            model: Some(LARGE),
            ..AccountLimits::default()
        },
        first_byte: Duration::from_millis(500),
        per_token: Duration::from_millis(5),
        config: Some(config),
        plan: "desk",
        errors: 4,
        expect: Expect::Morning { beyond },
    }
}
