//! The sentence of a refusal: something an app can show to the person in front of it.
//!
//! It says which limit, how much of it is used, how much was asked and when to come back. It never repeats a prompt, a key, a host or
//! more than a few dozen characters of anything the client sent, and so stays well under 1 KB.

use super::limit::is_open;
use super::rejection::{Forbidden, Rejection, Unauthenticated, UpstreamFault};
use super::shape::{is_crowded, is_oversize};
use super::text::{in_words, rfc3339, snippet};
use crate::domain::{NanoUsd, Period};
use crate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use crate::wire::Dialect;
use std::borrow::Cow;

/// How many characters of a model's name or a path an error repeats.
const SNIPPET: usize = 64;

/// The message of an error body.
pub(super) fn message(rejection: &Rejection) -> Cow<'_, str> {
    match rejection {
        Rejection::Limit(refusal) => of_limit(refusal).into(),
        Rejection::Suspended(_) => "This customer is suspended by its operator: nothing is served meanwhile.".into(),
        Rejection::OutputFloor { refusal, floor, affordable } => of_floor(refusal, *floor, *affordable).into(),
        Rejection::Concurrent { limit, in_flight } => {
            format!("Too many requests at once: {in_flight} of {limit} allowed are in flight. Try again when one has ended.")
                .into()
        }
        Rejection::Overloaded { retry_in } => overloaded(*retry_in).into(),
        Rejection::BackgroundPaused { retry_in } => {
            format!("Background work is paused while live work needs all of the capacity. Try again in {}.", in_words(*retry_in))
                .into()
        }
        Rejection::LimitsUnavailable => "Limits cannot be checked at the moment. Try again in a moment.".into(),
        Rejection::TooManyNewCustomers { limit, retry_in } => format!(
            "This application has named {limit} new customers within the hour, as many as it may; customers it named before are served. \
             Try again in {}. The application should send the same opaque X-Customer-Id for a customer every time; for more new ones raise \
             new_customers_per_hour, or configure the customer.",
            in_words(*retry_in)
        )
        .into(),
        Rejection::InvalidCustomerId(error) => format!("X-Customer-Id {error}.").into(),
        Rejection::ConflictingCustomerIds => "The request names two different customers; send one X-Customer-Id.".into(),
        Rejection::MissingCustomerId => {
            "The request does not say whose it is; send the customer's id in the header X-Customer-Id.".into()
        }
        Rejection::InvalidHeader { name, problem } => format!("{name} {problem}.").into(),
        Rejection::Unauthenticated(Unauthenticated::Missing) => {
            "The request has no key; send one as \"Authorization: Bearer KEY\" or in the header x-api-key.".into()
        }
        Rejection::Unauthenticated(Unauthenticated::Unknown) => "The key is not one of this gateway's.".into(),
        Rejection::Unauthenticated(Unauthenticated::Expired) => "The key's time is over; ask whoever runs the gateway for another.".into(),
        Rejection::Unauthenticated(Unauthenticated::Replaced) => {
            "The key was replaced by a newer one, and the time for both is over; send the newer one.".into()
        }
        Rejection::Unauthenticated(Unauthenticated::Revoked) => "The key was revoked.".into(),
        Rejection::Forbidden(what) => forbidden(*what).into(),
        Rejection::Body { message, .. } => Cow::Borrowed(message),
        Rejection::BodyTooLarge { max } => format!("The request body is too large: at most {max} bytes are allowed.").into(),
        Rejection::BodyTimeout => "The request body did not arrive in time.".into(),
        Rejection::UnsupportedEncoding => {
            "The Content-Encoding is not supported; send gzip, deflate, br, zstd or no encoding.".into()
        }
        Rejection::UnsupportedMediaType => "The Content-Type must be application/json.".into(),
        Rejection::NotFound { path } => format!("There is no route {}.", snippet(path, SNIPPET)).into(),
        Rejection::NoUpstream { dialect } => {
            let format = match dialect {
                Dialect::OpenAi => "OpenAI's",
                Dialect::Anthropic => "Anthropic's",
            };
            format!("No upstream that speaks {format} format is configured for this model, and requests are not translated.").into()
        }
        Rejection::MethodNotAllowed { allow } => format!("The route does not take this method; it takes {allow}.").into(),
        Rejection::TicketNotFound => "There is no such ticket of this customer, or not any more.".into(),
        Rejection::TriageUnavailable => "How the ticket stands cannot be read at the moment. Try again in a moment.".into(),
        Rejection::ModelNotPriced { model } => {
            format!("The model \"{}\" is unknown or has no price here, so it cannot be used.", snippet(model, SNIPPET)).into()
        }
        Rejection::ModelNotAllowed { model } => format!("This key may not use the model \"{}\".", snippet(model, SNIPPET)).into(),
        Rejection::ServiceTierNotPriced { tier } => {
            format!("The service tier \"{}\" has no price for this model; leave service_tier out.", snippet(tier, SNIPPET)).into()
        }
        Rejection::BackgroundNotSupported => {
            "Background mode is not supported, since its cost cannot be bounded; leave background out.".into()
        }
        Rejection::UnboundedFeature { param } => {
            format!("{} is not allowed here, since its cost cannot be bounded.", snippet(param, SNIPPET)).into()
        }
        Rejection::IdempotencyInProgress => {
            "The first request with this Idempotency-Key is still running. Try again in a moment.".into()
        }
        Rejection::IdempotencyKeyReused => {
            "This Idempotency-Key was used for a request with another route or body; use a new key for a new request.".into()
        }
        Rejection::ReplyNotKept { max } => format!(
            "The reply was longer than {max} bytes and was not kept, so it cannot be sent again. A new key makes a new call, which is charged."
        )
        .into(),
        Rejection::JobNotFound => "There is no such job; it may have been cancelled, or its time to be kept is over.".into(),
        Rejection::JobExpired => "The job found no room in its time and was given up.".into(),
        Rejection::TooManyJobs { limit } => {
            format!("Too many jobs: {limit} of {limit} allowed are waiting or running. Try again when one has ended.").into()
        }
        Rejection::Upstream(UpstreamFault::Connect) => "The model's provider cannot be reached.".into(),
        Rejection::Upstream(UpstreamFault::Timeout) => "The model's provider did not answer in time.".into(),
        Rejection::Upstream(UpstreamFault::Broken) => "The model's provider broke off its answer.".into(),
        Rejection::Internal => "The gateway failed on this request; the request id helps to find out why.".into(),
    }
}

const fn forbidden(what: Forbidden) -> &'static str {
    match what {
        Forbidden::Plan => "This key may not set this plan in X-Customer-Plan.",
        Forbidden::Customer => "This key may not act for this customer.",
        Forbidden::UnknownCustomer => "This customer is not known here.",
        Forbidden::Route => "This key may not call this route.",
        Forbidden::Network => "Calls from this network are not allowed.",
    }
}

fn overloaded(retry_in: u64) -> String {
    format!("The service is at its capacity at the moment. Try again in {}.", in_words(retry_in))
}

fn of_limit(refusal: &Refusal) -> String {
    if let Remedy::Wait(us) = refusal.remedy
        && is_crowded(refusal)
    {
        return overloaded(us);
    }
    let Refusal { scope, limit, measure, max, used, held, asked, remedy, resets_at } = refusal;
    let limit = name(*limit, *measure, is_open(*scope).then_some(*max));
    let limit = format!("{} {limit}", owner(*scope));
    let n = |amount: u64| amount_of(*measure, amount);
    let numbers = |text: String| if is_open(*scope) { text } else { String::new() };
    if is_oversize(refusal) {
        let compare = numbers(format!(" ({asked} > {max})"));
        return format!(
            "This request needs {} and exceeds {limit}{compare}, so it can never pass. Send a shorter one.",
            n(*asked)
        );
    }
    let (what, then) = match remedy {
        Remedy::Wait(us) => {
            let numbers = numbers(format!(": {used} used, {asked} asked"));
            (format!("{limit} is reached{numbers}"), format!(" Try again in {}.", in_words(*us)))
        }
        Remedy::InFlight(us) => {
            let numbers = numbers(format!(": {} used, {} held, up to {} asked", n(*used), n(*held), n(*asked)));
            (format!("requests in flight hold the rest of {limit}{numbers}"), format!(" Try again in {}.", in_words(*us)))
        }
        Remedy::NextPeriod(_) if *max == 0 => (format!("{limit} allows nothing"), String::new()),
        Remedy::NextPeriod(_) if asked > max => {
            let numbers = numbers(format!(": it may take up to {}", n(*asked)));
            (format!("this request alone exceeds {limit}{numbers}"), " Send a shorter one.".to_owned())
        }
        Remedy::NextPeriod(_) => {
            let numbers = numbers(format!(": {} used, up to {} asked", n(*used), n(*asked)));
            (format!("{limit} is reached{numbers}"), format!(" It resets at {}.", rfc3339(*resets_at)))
        }
        Remedy::Never => (format!("{limit} allows no requests"), String::new()),
    };
    format!("{}{}.{then}", what[..1].to_uppercase(), &what[1..])
}

fn of_floor(refusal: &Refusal, floor: u64, affordable: u64) -> String {
    let mut text = of_limit(&Refusal { asked: refusal.asked.min(refusal.max), ..refusal.clone() });
    if is_open(refusal.scope) && refusal.max > 0 {
        text.push_str(&format!(
            " What is left affords an answer of {}, and {floor} are the least of use.",
            counted(affordable, "token")
        ));
    }
    text
}

const fn owner(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "this user's",
        Scope::Customer => "this customer's",
        Scope::App => "this application's",
        Scope::Share => "this priority's",
        Scope::Pool => "the provider's",
        Scope::Gateway => "the gateway's",
    }
}

/// The limit as a noun, with its size where the client may know it.
fn name(limit: LimitName, measure: Measure, max: Option<u64>) -> String {
    let sized = |noun: &str, unit: &str| match max {
        Some(max) => format!("{noun} of {max} {unit}"),
        None => format!("{noun} of {unit}"),
    };
    match limit {
        LimitName::Messages => sized("limit", "messages at once"),
        LimitName::Rpm => sized("limit", "requests per minute"),
        LimitName::Tpm => sized("limit", "tokens per minute"),
        LimitName::InputTpm => sized("limit", "input tokens per minute"),
        LimitName::OutputTpm => sized("limit", "output tokens per minute"),
        LimitName::Rpd => sized("limit", "requests per day"),
        LimitName::Tpd => sized("limit", "tokens per day"),
        LimitName::Spend(period) => match max {
            Some(max) => format!("{} spending cap of {}", adjective(period), amount_of(measure, max)),
            None => format!("{} spending cap", adjective(period)),
        },
        LimitName::RequestQuota(period) => sized(&format!("{} quota", adjective(period)), "requests"),
        LimitName::TokenQuota(period) => sized(&format!("{} quota", adjective(period)), "tokens"),
    }
}

const fn adjective(period: Period) -> &'static str {
    match period {
        Period::Day => "daily",
        Period::Week => "weekly",
        Period::Month => "monthly",
    }
}

fn amount_of(measure: Measure, amount: u64) -> String {
    match measure {
        Measure::Money => NanoUsd::new(amount).to_string(),
        Measure::Message | Measure::Request => counted(amount, "request"),
        Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => counted(amount, "token"),
    }
}

fn counted(amount: u64, noun: &str) -> String {
    if amount == 1 { format!("1 {noun}") } else { format!("{amount} {noun}s") }
}
