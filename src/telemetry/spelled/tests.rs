use super::*;
use crate::domain::{NanoUsd, Priority, Timestamp};
use crate::records::Entry;
use crate::telemetry::record::{Ended, Stood};

fn ended(facts: Facts) -> Ended {
    let (id, api, took) = (RequestId::at(Timestamp::from_secs(1_800_000_000), 7), Api::Chat, Duration::from_micros(1_234_567));
    let members = members(id, api, took, &facts);
    let at = Timestamp(1_800_000_000_000_042);
    Ended { id, api, at, keep: Duration::from_secs(1), took, facts, members }
}

fn read(ended: &Ended) -> Entry {
    let json = format!("{{\"time\":\"{}\",{}}}", instant(ended.at), ended.members);
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// What the JSON of a request that has ended is to read as.
fn entry_of(ended: &Ended) -> Entry {
    let Ended { id, api, at, keep: _, took, facts, members: _ } = ended;
    let usage = facts.usage.as_ref();
    Entry {
        request_id: id.to_string(),
        provider_request_id: facts.provider_request_id.as_deref().map(cut),
        time: instant(*at),
        api: api.as_str().to_owned(),
        app: facts.app.as_deref().map(cut),
        customer: facts.customer.as_ref().map(CustomerId::as_str).map(cut),
        user: facts.user.as_ref().map(UserId::as_str).map(cut),
        plan: facts.plan.as_ref().map(|plan| cut(&plan.name)),
        priority: facts.priority.as_str().to_owned(),
        class: facts.class.as_deref().map(cut),
        model: facts.model.as_deref().map(cut),
        served_model: facts.served_model.as_deref().map(cut),
        fallback_model: facts.fallback_model.as_deref().map(cut),
        pool_level: facts.pool_level,
        degraded: words(&facts.degraded, Degraded::kind),
        degraded_cause: words(&facts.degraded, Degraded::cause),
        ticket: facts.ticket.as_deref().map(cut),
        stream: facts.stream,
        status: facts.status,
        cause: facts.cause.map(str::to_owned),
        refused_scope: facts.refused_by.map(|(scope, _)| scope.to_owned()),
        shadow_refused: facts.shadow_refused.map(|(scope, limit)| format!("{scope}.{limit}")),
        refused_limit: facts.refused_by.map(|(_, limit)| limit.to_owned()),
        refused_max: facts.refused_at.map(|stood| stood.max),
        refused_used: facts.refused_at.map(|stood| stood.used),
        refused_held: facts.refused_at.map(|stood| stood.held),
        refused_asked: facts.refused_at.map(|stood| stood.asked),
        attempts: facts.attempts,
        estimated_input_tokens: facts.estimated_input,
        output_cap: facts.output_cap,
        input_tokens: usage.map(Usage::input),
        cached_tokens: usage.map(|usage| usage.cache_read),
        output_tokens: usage.map(Usage::total_output),
        usage_estimated: facts.usage_estimated,
        cost_nano_usd: facts.cost.get(),
        decided_at_us: facts.decided.map(Timestamp::micros),
        admitted_us: facts.admitted.map(micros),
        waited_us: micros(facts.waited),
        first_byte_us: facts.first_byte.map(micros),
        duration_us: micros(*took),
        ending: facts.ending.as_str().to_owned(),
        repeat: facts.repeat.map(str::to_owned),
        job: facts.job.as_deref().map(cut),
        resubmitted_by: facts.resubmitted_by.as_deref().map(cut),
    }
}

fn cut(text: &str) -> String {
    super::cut(text).to_owned()
}

#[test]
fn a_record_reads_back_as_what_is_known() {
    let nasty = "a \"quoted\" \\ line\nwith\tcontrol \u{1} and Zürich \u{1f600}";
    let usage = Usage { uncached_input: 5, cache_read: 6, output: 7, ..Usage::default() };
    let full = Facts {
        app: Some("shop".into()),
        customer: Some(CustomerId::from_trusted(nasty)),
        user: Some(UserId::parse(b"u", false).expect("an id")),
        priority: Priority::Background,
        class: Some(nasty.into()),
        model: Some("m".into()),
        fallback_model: Some("f".into()),
        served_model: Some("s".repeat(LONGEST - 1) + "\u{1f600}"),
        stream: true,
        estimated_input: 1,
        output_cap: u64::MAX,
        usage: Some(usage),
        usage_estimated: true,
        cost: NanoUsd::new(3),
        degraded: vec![Degraded::Short, Degraded::Cheaper(crate::degrade::chain::Cause::Spend)],
        pool_level: Some(2),
        ticket: Some("t".into()),
        cause: Some("c"),
        refused_by: Some(("customer", "rpm")),
        refused_at: Some(Stood { max: 1, used: 2, held: 3, asked: 4 }),
        shadow_refused: Some(("app", "tpm")),
        status: 429,
        provider_request_id: Some(nasty.into()),
        attempts: 4,
        decided: Some(Timestamp(1_764_000_000_000_004)),
        admitted: Some(Duration::from_micros(5)),
        waited: Duration::from_micros(6),
        first_byte: Some(Duration::from_micros(7)),
        ending: Ending::UpstreamBroke,
        repeat: Some("replayed"),
        job: Some("j".into()),
        resubmitted_by: Some("agent".into()),
        ..Facts::default()
    };
    for facts in [Facts::default(), full] {
        let ended = ended(facts);
        let entry = read(&ended);
        assert_eq!(entry, entry_of(&ended));
        assert_eq!(entry.time, "2027-01-15T08:00:00.000042Z");
    }
}
