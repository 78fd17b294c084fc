//! The table of a run, and whether it kept its rules.

use crate::asking::Asked;
use crate::gateway::{Look, value};
use crate::scene::{Expect, Scene};
use crate::truth::{Fate, Truth, marked};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Everything a run left behind.
pub struct Run {
    pub scene: Scene,
    pub asked: Vec<Asked>,
    pub truth: Truth,
    pub looks: Vec<Look>,
    /// Of a gateway.
    pub books: Option<Books>,
}

/// What the gateway's books say.
pub struct Books {
    /// Whether it ended well on SIGTERM and `tollgate audit` found nothing.
    pub clean: bool,
    /// Customer, spent, held; nano-dollars.
    pub balances: Vec<(String, u64, u64)>,
    pub metrics: String,
}

/// What a run is known by in another: who of a crowd was answered in full.
pub type Outcome = BTreeMap<(&'static str, u64), bool>;

/// A rule, whether it was kept, and what was found.
pub type Verdict = (String, bool, String);

impl Run {
    pub fn outcome(&self, crowd: &str) -> Outcome {
        let of = self.asked.iter().filter(|asked| self.scene.crowds[asked.crowd].name == crowd);
        of.map(|asked| ((self.scene.crowds[asked.crowd].name, asked.index), asked.answered())).collect()
    }

    fn count(&self, crowd: &str, fate: Fate) -> u64 {
        self.of(crowd).filter(|asked| self.truth.fate(&self.scene, asked).0 == fate).count() as u64
    }

    fn of<'a>(&'a self, crowd: &'a str) -> impl Iterator<Item = &'a Asked> {
        self.asked.iter().filter(move |asked| self.scene.crowds[asked.crowd].name == crowd)
    }

    /// The ceiling in tokens: what the gateway uses of the account, or the account itself.
    fn ceiling(&self) -> u64 {
        let limit = self.scene.account.tpm.unwrap_or(0);
        if self.books.is_some() { limit * 97 / 100 } else { limit }
    }

    fn changes(&self) -> Vec<(Duration, u64)> {
        let mut changes: Vec<(Duration, u64)> = Vec::new();
        for look in &self.looks {
            if look.level != changes.last().map_or(0, |(_, level)| *level) {
                changes.push((look.after, look.level));
            }
        }
        changes
    }

    /// The table.
    pub fn table(&self) -> String {
        let mut out = format!("\n## {} ({} s)\n\n{}\n\n", self.scene.name, self.scene.seconds, self.scene.about);
        out.push_str("| who | asked | full | short | cheaper | handed off | without an answer | calls | p50 / p99 wait before the provider, ms |\n");
        out.push_str("|---|---|---|---|---|---|---|---|---|\n");
        for crowd in &self.scene.crowds {
            let fates = Fate::ALL.map(|fate| self.count(crowd.name, fate).to_string()).join(" | ");
            let (asked, calls) = self.of(crowd.name).fold((0, 0), |sum, one| (sum.0 + 1, sum.1 + one.tries));
            let mut waits: Vec<u128> = self.of(crowd.name).filter_map(|asked| self.wait(asked)).collect();
            waits.sort_unstable();
            let at = |permille: usize| waits.get(waits.len() * permille / 1_000).map_or("-".to_owned(), ToString::to_string);
            let _ = writeln!(out, "| {} | {asked} | {fates} | {calls} | {} / {} |", crowd.name, at(500), at(990));
        }
        let share = |tokens: u64| (tokens * 1_000).checked_div(self.ceiling()).unwrap_or(0);
        let minutes = self.scene.seconds as f64 / 60.0;
        let _ = writeln!(
            out,
            "\nThe provider had {} calls ({:.0} a minute, {} in the fullest), refused {} with 429; its fullest minute had {} tokens, \
             {} permille of the ceiling, {} of them background's.",
            self.truth.all,
            self.truth.all as f64 / minutes,
            self.truth.peak_calls,
            self.truth.refused,
            self.truth.peak,
            share(self.truth.peak),
            self.truth.peak_background,
        );
        if self.books.is_some() {
            let changes: Vec<String> =
                self.changes().iter().map(|(after, level)| format!("{level} at {:.1} s", after.as_secs_f64())).collect();
            let most = self.looks.iter().map(|look| look.used).max().unwrap_or(0);
            let _ = writeln!(
                out,
                "Levels: {}; the gauge went up to {most} permille.",
                if changes.is_empty() { "0 all the time".to_owned() } else { changes.join(", ") }
            );
        }
        out
    }

    /// From the client's first try to the call that answered, milliseconds.
    fn wait(&self, asked: &Asked) -> Option<u128> {
        let (_, call) = self.truth.fate(&self.scene, asked);
        Some(call?.at.saturating_duration_since(asked.from).as_millis())
    }

    /// Judges it. `alone` is how the others fared without the merchant.
    pub fn judge(&self, alone: Option<&Outcome>) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        if let Some(books) = &self.books {
            self.in_general(books, &mut verdicts);
        }
        match self.scene.expect {
            // It takes its time until a full bucket is empty.
            Expect::Incident { .. } if self.scene.seconds < 120 => {}
            Expect::Incident { crowd, at_least } => {
                let all = self.of(crowd).count() as u64;
                let lost = self.count(crowd, Fate::Refused) * 1_000 / all.max(1);
                verdicts.push((
                    "the incident happens".to_owned(),
                    lost >= at_least,
                    format!("{lost} permille of {crowd} go without an answer, at least {at_least} should"),
                ));
            }
            Expect::Order => self.order(alone, &mut verdicts),
            Expect::Morning { beyond } => self.morning(beyond, &mut verdicts),
        }
        verdicts
    }

    fn in_general(&self, books: &Books, verdicts: &mut Vec<Verdict>) {
        let mut rule = |name: &str, kept: bool, found: String| verdicts.push((name.to_owned(), kept, found));
        let differing: Vec<&(String, u64, u64)> = books
            .balances
            .iter()
            .filter(|(customer, spent, held)| *spent != self.truth.costs.get(customer).copied().unwrap_or(0) || *held != 0)
            .collect();
        let unknown = self.truth.costs.keys().filter(|id| !books.balances.iter().any(|(customer, ..)| customer == *id)).count();
        rule(
            "the books of every customer are what the provider counted, to the nano-dollar",
            differing.is_empty() && unknown == 0,
            format!("{} of {} differ{}", differing.len() + unknown, books.balances.len(), such_as(differing.first())),
        );
        rule("SIGTERM ends it and the audit is clean", books.clean, String::new());
        rule(
            "provider 429s near zero (at most one in a thousand)",
            self.truth.refused * 1_000 <= self.truth.all,
            format!("{} of {}", self.truth.refused, self.truth.all),
        );
        let limit = self.scene.account.tpm.unwrap_or(u64::MAX);
        rule("no minute above the account's limit", self.truth.peak <= limit, format!("{} of {limit}", self.truth.peak));
        let lying = self.asked.iter().filter(|asked| asked.answered()).filter(|asked| {
            let (fate, call) = self.truth.fate(&self.scene, asked);
            !marked(fate, call, asked, &self.scene)
        });
        let lying: Vec<&Asked> = lying.collect();
        let answers = self.asked.iter().filter(|asked| asked.answered()).count();
        rule(
            "every degraded answer says so, and no other",
            lying.is_empty(),
            format!("{} of {answers} do not{}", lying.len(), such_as(lying.first())),
        );
        let (refused, well) = self.asked.iter().fold((0, 0), |sum, one| (sum.0 + one.refused, sum.1 + one.refused_well));
        rule("every refusal says when to come back", refused == well, format!("{well} of {refused}"));
    }

    fn order(&self, alone: Option<&Outcome>, verdicts: &mut Vec<Verdict>) {
        let mut rule = |name: &str, kept: bool, found: String| verdicts.push((name.to_owned(), kept, found));
        let lost = self.count("others", Fate::Refused);
        rule(
            "nobody else notices",
            lost == 0 && self.count("others", Fate::Full) == self.of("others").count() as u64,
            format!("{lost}"),
        );
        let merchant: Vec<&Asked> = self.of("merchant").collect();
        let (Some(first), Some(last)) = (merchant.iter().map(|one| one.from).min(), merchant.iter().map(|one| one.to).max())
        else {
            return;
        };
        let got = merchant.iter().filter(|one| one.answered()).count() as u64;
        let due = 120 + (last - first).as_secs();
        rule("the merchant gets 120 and one a second", got.abs_diff(due) <= 2, format!("{got}, due are {due}"));
        let longest = merchant.iter().map(|one| one.longest).max().unwrap_or_default();
        rule("no refusal asks it to wait more than a token takes", longest <= Duration::from_secs(1), format!("{longest:?}"));
        if let Some(alone) = alone {
            let own = self.outcome("others");
            let changed = own.iter().filter(|(which, answered)| alone.get(which) != Some(answered)).count();
            rule(
                "others fare as without the merchant, to the last request",
                changed == 0 && own.len() == alone.len(),
                format!("{changed} of {} changed", own.len()),
            );
        }
    }

    fn morning(&self, beyond: bool, verdicts: &mut Vec<Verdict>) {
        let mut rule = |name: &str, kept: bool, found: String| verdicts.push((name.to_owned(), kept, found));
        let live = ["general", "account", "everyday"];
        let lost: u64 = live.iter().map(|crowd| self.count(crowd, Fate::Refused)).sum();
        rule("every live question is answered or handed off", lost == 0, format!("{lost} are not"));
        let crossed = self.count("account", Fate::Cheaper);
        rule("no class gets a model it forbids", crossed == 0, format!("{crossed}"));
        let handed = self.count("general", Fate::HandedOff) + self.count("everyday", Fate::HandedOff);
        rule("a class that allows the cheaper model is not handed off", handed == 0, format!("{handed}"));
        let share = self.ceiling() * 15 / 100;
        let background = self.truth.peak_background;
        rule("background stays under its share", background <= share, format!("{background} of {share}"));
        let tickets = self.asked.iter().filter(|asked| asked.ticket).count() as u64;
        let metrics = self.books.as_ref().map_or("", |books| books.metrics.as_str());
        let kept =
            ["opened", "appended"].map(|event| value(metrics, &format!("tollgate_triage_events_total{{event=\"{event}\"")));
        let kept: u64 = kept.into_iter().flatten().sum();
        let dropped = value(metrics, "tollgate_triage_dropped_total").unwrap_or(0);
        rule(
            "each hand-off has its ticket",
            tickets == kept + dropped && dropped == 0,
            format!("{tickets}, kept {kept}, dropped {dropped}"),
        );
        self.levels(beyond, &mut rule);
        if beyond {
            let walked = (self.count("general", Fate::Cheaper), self.count("account", Fate::HandedOff));
            rule("the chain is walked", walked.0 > 0 && walked.1 > 0, format!("{} cheaper, {} handed off", walked.0, walked.1));
        }
    }

    fn levels(&self, beyond: bool, rule: &mut impl FnMut(&str, bool, String)) {
        let levels: Vec<u64> = self.changes().iter().map(|(_, level)| *level).collect();
        let top = levels.iter().max().copied().unwrap_or(0);
        let peak = levels.iter().position(|level| *level == top).unwrap_or(0);
        let once = levels.get(..peak).unwrap_or_default().is_sorted()
            && levels.get(peak..).unwrap_or_default().is_sorted_by(|a, b| a > b);
        rule("the level goes up once and comes down once", once, format!("{levels:?}"));
        let wanted = |used: u64| [700, 850, 950].iter().take_while(|threshold| used >= **threshold).count() as u64;
        let late = self.looks.iter().filter(|look| look.level < wanted(look.used)).count();
        rule(
            "up at once: at no look was the gauge above a level's threshold and the level not there",
            late == 0,
            format!("{late} looks"),
        );
        // A short run is over before the trailing minute, and the holds after it, are.
        if self.scene.seconds >= 240 {
            let down = levels.last() == Some(&0) && top >= if beyond { 3 } else { 2 };
            rule("and it is down again at the end", down, format!("{levels:?}"));
        }
    }
}

/// An example of what was found, where anything was.
fn such_as<T: std::fmt::Debug>(found: Option<T>) -> String {
    found.map(|found| format!(", such as {found:?}")).unwrap_or_default()
}
