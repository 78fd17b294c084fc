//! The fields: what was typed is kept as it is, and everything that is wrong with it is said at once, at its field.

/// The tier whose numbers are typed in: no plan is called so.
pub(super) const OWN: &str = "";
/// How requests come.
pub(super) const SHAPES: [(&str, &str); 2] = [("steady", "Steady"), ("burst", "In a burst, each minute")];

/// Requests of one run. So many take a second or two.
pub(super) const MOST_REQUESTS: u64 = 50_000;
/// Tokens of a request, each way: more than any model takes.
const MOST_TOKENS: u64 = 2_000_000;
/// Minutes of a run.
const MOST_MINUTES: u64 = 60;
/// Of a limit.
const MOST_LIMIT: u64 = 1_000_000_000;
/// Bytes of one field.
const LONGEST: usize = 128;

/// A field of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Tier,
    Messages,
    Burst,
    Rpm,
    Tpm,
    AccountRpm,
    AccountTpm,
    Rate,
    Shape,
    Input,
    Output,
    Minutes,
}

impl Field {
    const ALL: [Self; 12] = [
        Self::Tier,
        Self::Messages,
        Self::Burst,
        Self::Rpm,
        Self::Tpm,
        Self::AccountRpm,
        Self::AccountTpm,
        Self::Rate,
        Self::Shape,
        Self::Input,
        Self::Output,
        Self::Minutes,
    ];

    /// In the address of the page, and as the id of its control.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tier => "tier",
            Self::Messages => "messages",
            Self::Burst => "burst",
            Self::Rpm => "rpm",
            Self::Tpm => "tpm",
            Self::AccountRpm => "account_rpm",
            Self::AccountTpm => "account_tpm",
            Self::Rate => "rate",
            Self::Shape => "shape",
            Self::Input => "input",
            Self::Output => "output",
            Self::Minutes => "minutes",
        }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Tier => "Limits",
            Self::Messages => "Messages a minute",
            Self::Burst => "Messages at once",
            Self::Rpm => "Requests a minute (rpm)",
            Self::Tpm => "Tokens a minute (tpm)",
            Self::AccountRpm => "Account's requests a minute",
            Self::AccountTpm => "Account's tokens a minute",
            Self::Rate => "Requests sent a minute",
            Self::Shape => "How they come",
            Self::Input => "Tokens in, each request",
            Self::Output => "Tokens out, each answer",
            Self::Minutes => "Minutes",
        }
    }

    pub(super) const fn hint(self) -> Option<&'static str> {
        match self {
            Self::Burst => Some("How large the bucket is that the messages a minute refill."),
            Self::Output => Some("Also the output cap that is asked for."),
            Self::Minutes => Some("For how long requests come, up to 60."),
            _ => None,
        }
    }

    /// What stands in it before anything is typed.
    const fn default(self) -> &'static str {
        match self {
            Self::Tier => OWN,
            Self::Messages => "60",
            Self::Burst => "120",
            Self::Rpm => "120",
            Self::Tpm => "100000",
            Self::AccountRpm => "500",
            Self::AccountTpm => "400000",
            Self::Rate => "90",
            Self::Shape => "steady",
            Self::Input => "1500",
            Self::Output => "500",
            Self::Minutes => "10",
        }
    }

    const fn most(self) -> u64 {
        match self {
            Self::Rate => MOST_REQUESTS,
            Self::Input | Self::Output => MOST_TOKENS,
            Self::Minutes => MOST_MINUTES,
            _ => MOST_LIMIT,
        }
    }
}

/// What the address of the page says.
pub(super) struct Typed {
    fields: [Option<String>; Field::ALL.len()],
    preset: Option<String>,
}

impl Typed {
    pub(super) fn of(query: &str) -> Self {
        let mut typed = Self { fields: [const { None }; Field::ALL.len()], preset: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value: String = value.trim().chars().take(LONGEST).collect();
            if name == "preset" {
                typed.preset = Some(value);
            } else if let Some(field) = Field::ALL.into_iter().find(|field| field.name() == name) {
                typed.fields[field as usize] = Some(value);
            }
        }
        typed
    }

    /// The incident that was asked for.
    pub(super) fn preset(&self) -> Option<&str> {
        self.preset.as_deref()
    }

    /// Whether the form was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.fields.iter().any(Option::is_some)
    }

    /// What is to stand in a field: what was typed, also where that is nothing.
    pub(super) fn get(&self, field: Field) -> &str {
        self.fields[field as usize].as_deref().unwrap_or_else(|| field.default())
    }

    /// A whole number from 1 on; `None` = nothing typed.
    fn number(&self, field: Field) -> Result<Option<u64>, String> {
        let text = self.get(field);
        if text.is_empty() {
            return Ok(None);
        }
        // Thousands are written with blanks, commas and underscores.
        let digits: String = text.chars().filter(|c| !matches!(c, ' ' | ',' | '_')).collect();
        let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
        number.filter(|number| (1..=field.most()).contains(number)).map(Some).ok_or_else(|| {
            format!("{}: a whole number from 1 to {} is wanted.", field.label(), super::super::parts::grouped(field.most()))
        })
    }
}

/// What is to be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// A plan of the gateway, instead of own limits.
    pub(super) plan: Option<String>,
    /// Messages a minute, and at once.
    pub(super) messages: Option<(u64, u64)>,
    pub(super) rpm: Option<u64>,
    pub(super) tpm: Option<u64>,
    pub(super) account_rpm: Option<u64>,
    pub(super) account_tpm: Option<u64>,
    /// Requests a minute.
    pub(super) rate: u64,
    /// Whether a minute's requests come at its beginning.
    pub(super) burst: bool,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) minutes: u64,
}

/// What is to be played, or everything that is wrong with what was typed.
pub(super) fn check(typed: &Typed, plans: &[&str]) -> Result<Wanted, Vec<(Field, String)>> {
    let mut wrong = Vec::new();
    let tier = typed.get(Field::Tier);
    let plan = (tier != OWN).then(|| tier.to_owned());
    if plan.is_some() && !plans.contains(&tier) {
        wrong.push((Field::Tier, "There is no such plan.".to_owned()));
    }
    let mut number = |field: Field, needed: bool| match typed.number(field) {
        Ok(None) if needed => {
            wrong.push((field, format!("{}: a number is needed.", field.label())));
            None
        }
        Ok(number) => number,
        Err(words) => {
            wrong.push((field, words));
            None
        }
    };
    // The numbers of a tier that is not asked for are not looked at, whatever they are.
    let mut own = |field| if plan.is_none() { number(field, false) } else { None };
    let (messages, burst) = (own(Field::Messages), own(Field::Burst));
    let (rpm, tpm) = (own(Field::Rpm), own(Field::Tpm));
    let (account_rpm, account_tpm) = (number(Field::AccountRpm, false), number(Field::AccountTpm, false));
    let [rate, input, output, minutes] =
        [Field::Rate, Field::Input, Field::Output, Field::Minutes].map(|field| number(field, true).unwrap_or(1));
    if rate.saturating_mul(minutes) > MOST_REQUESTS {
        let words = format!(
            "{} requests a minute for {minutes} minutes are {}; the lab plays {} at most.",
            super::super::parts::grouped(rate),
            super::super::parts::grouped(rate.saturating_mul(minutes)),
            super::super::parts::grouped(MOST_REQUESTS),
        );
        wrong.push((Field::Rate, words));
    }
    let shape = typed.get(Field::Shape);
    if !SHAPES.iter().any(|(name, _)| *name == shape) {
        wrong.push((Field::Shape, "Requests come steadily or in a burst.".to_owned()));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let messages = messages.map(|rate| (rate, burst.unwrap_or(rate)));
    let burst = shape == "burst";
    Ok(Wanted { plan, messages, rpm, tpm, account_rpm, account_tpm, rate, burst, input, output, minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(query: &str) -> Result<Wanted, Vec<(Field, String)>> {
        check(&Typed::of(query), &["pro"])
    }

    #[test]
    fn what_stands_in_the_form_at_first_can_be_played() {
        let wanted = checked("tier=").expect("sound");
        assert_eq!((wanted.messages, wanted.rpm, wanted.tpm), (Some((60, 120)), Some(120), Some(100_000)));
        assert_eq!((wanted.rate, wanted.input, wanted.output, wanted.minutes, wanted.burst), (90, 1_500, 500, 10, false));
        assert!(!Typed::of("").is_sent() && !Typed::of("x=y&preset=z").is_sent() && Typed::of("rpm=").is_sent());
    }

    #[test]
    fn numbers_are_read_as_people_write_them_and_nothing_is_no_limit() {
        let wanted =
            checked("tpm=1+000+000&rpm=&messages=&account_tpm=400,000&account_rpm=&rate=1_000&shape=burst").expect("sound");
        assert_eq!((wanted.tpm, wanted.rpm, wanted.messages), (Some(1_000_000), None, None));
        assert_eq!((wanted.account_tpm, wanted.account_rpm, wanted.rate, wanted.burst), (Some(400_000), None, 1_000, true));
        let wanted = checked("tier=pro&messages=nonsense&rpm=-1").expect("the numbers of another tier are not looked at");
        assert_eq!((wanted.plan.as_deref(), wanted.messages, wanted.rpm), (Some("pro"), None, None));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_its_field() {
        for (query, fields) in [
            ("tier=nope", vec![Field::Tier]),
            ("rpm=0", vec![Field::Rpm]),
            ("rpm=1.5&tpm=many", vec![Field::Rpm, Field::Tpm]),
            ("tpm=99999999999999999999999", vec![Field::Tpm]),
            ("tpm=1000000001", vec![Field::Tpm]),
            ("rate=&input=&output=&minutes=", vec![Field::Rate, Field::Input, Field::Output, Field::Minutes]),
            ("rate=50001&minutes=1", vec![Field::Rate]),
            ("rate=5001&minutes=10", vec![Field::Rate]),
            ("rate=50000&minutes=1&input=2000001", vec![Field::Input]),
            ("minutes=61&rate=1", vec![Field::Minutes]),
            ("shape=round", vec![Field::Shape]),
            ("rate=%E0%A5%A7", vec![Field::Rate]),
        ] {
            let wrong = checked(query).expect_err(query);
            assert_eq!(wrong.iter().map(|(field, _)| *field).collect::<Vec<_>>(), fields, "{query}");
        }
        let wrong = checked("rate=5001&minutes=10").expect_err("too many");
        assert_eq!(wrong[0].1, "5,001 requests a minute for 10 minutes are 50,010; the lab plays 50,000 at most.");
        let long = Typed::of(&format!("rate={}", "9".repeat(10_000)));
        assert_eq!(long.get(Field::Rate).len(), LONGEST);
    }
}
