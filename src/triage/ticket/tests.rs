//! What may happen to a ticket, and what may not.

use super::acts::{LISTED, REMEMBERED};
use super::*;
use crate::domain::{CustomerId, NanoUsd, RequestId};

const T0: Timestamp = Timestamp::from_secs(1_800_000_000);
const LEASE: Duration = Duration::from_secs(900);

fn at(secs: u64) -> Timestamp {
    T0.plus(secs * 1_000_000)
}

fn settings() -> policy::Triage {
    policy::Triage { keep: Duration::from_secs(7 * 86_400), lease: LEASE, ..policy::Triage::default() }
}

fn new() -> NewTicket {
    NewTicket {
        customer: CustomerId::from_trusted("t"),
        user: None,
        app: "app".into(),
        plan: "case".into(),
        class: None,
        priority: Priority::Live,
        conversation: None,
        cause: "overloaded",
        attempts: vec![Attempt { model: "m-big".into(), outcome: "rate_limited".into() }],
        cost: NanoUsd::new(7),
        model: "m-big".into(),
        request: RequestId::new(1),
        text: None,
        again: None,
    }
}

fn ticket() -> Ticket {
    Ticket::open("tt_00000000000000000000000000000001".parse().expect("an id"), &new(), &settings(), T0)
}

/// Something that is done to a ticket.
#[derive(Clone, Copy, Debug)]
enum Act {
    Claim(&'static str),
    Answer(&'static str, &'static str),
    Release(&'static str),
    Expire(&'static str),
    Append,
}
use Act::*;

fn act(ticket: &mut Ticket, act: Act, now: Timestamp) -> Outcome {
    match act {
        Claim(agent) => ticket.claim(agent, now, LEASE),
        Answer(agent, text) => ticket.answer(agent, text, now),
        Release(agent) => ticket.release(agent, now),
        Expire(agent) => ticket.expire(agent, now),
        Append => ticket.append(Asked { request: "tg_2".into(), ..Asked::of(&new(), now) }, now),
    }
}

#[test]
fn what_may_happen_depends_on_state_holder_and_time() {
    let held = |until| Err(Conflict::Held { agent: "ann".into(), until: at(until) });
    let ended = |standing, agent: Option<&str>| Err(Conflict::Ended { standing, agent: agent.map(Into::into) });
    let changed = |what| Ok(Done::Changed(what));
    let week = 7 * 86_400;
    for (before, now, last, right, standing) in [
        (&[][..], 1, Claim("ann"), changed("claimed"), Standing::Claimed),
        (&[], 1, Answer("ann", "a"), changed("answered"), Standing::Answered),
        (&[], 1, Release("ann"), Ok(Done::Same), Standing::Open),
        (&[], 1, Expire("ann"), changed("expired"), Standing::Expired),
        (&[], 1, Append, changed("appended"), Standing::Open),
        (&[], week, Claim("ann"), ended(Standing::Expired, None), Standing::Expired),
        (&[], week, Append, ended(Standing::Expired, None), Standing::Expired),
        (&[Claim("ann")], 1, Claim("ann"), changed("renewed"), Standing::Claimed),
        (&[Claim("ann")], 1, Claim("bob"), held(900), Standing::Claimed),
        (&[Claim("ann")], 1, Answer("bob", "b"), held(900), Standing::Claimed),
        (&[Claim("ann")], 1, Release("bob"), held(900), Standing::Claimed),
        (&[Claim("ann")], 1, Expire("bob"), held(900), Standing::Claimed),
        (&[Claim("ann")], 1, Append, changed("appended"), Standing::Claimed),
        (&[Claim("ann")], 899, Claim("bob"), held(900), Standing::Claimed),
        (&[Claim("ann")], 900, Claim("bob"), changed("claimed"), Standing::Claimed),
        (&[Claim("ann")], 900, Answer("ann", "late"), changed("answered"), Standing::Answered),
        (&[Claim("ann")], 1, Answer("ann", "a"), changed("answered"), Standing::Answered),
        (&[Claim("ann")], 1, Release("ann"), changed("released"), Standing::Open),
        (&[Claim("ann"), Release("ann")], 1, Claim("bob"), changed("claimed"), Standing::Claimed),
        (&[Claim("ann"), Answer("ann", "a")], 1, Answer("ann", "a"), Ok(Done::Same), Standing::Answered),
        (&[Answer("ann", "a")], 1, Answer("ann", "b"), ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Answer("ann", "a")], 1, Answer("bob", "a"), ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Answer("ann", "a")], 1, Claim("ann"), ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Answer("ann", "a")], 1, Release("ann"), ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Answer("ann", "a")], 1, Expire("bob"), ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Answer("ann", "a")], 1, Append, ended(Standing::Answered, Some("ann")), Standing::Answered),
        (&[Expire("ann")], 1, Expire("ann"), Ok(Done::Same), Standing::Expired),
        (&[Expire("ann")], 1, Expire("bob"), ended(Standing::Expired, Some("ann")), Standing::Expired),
        (&[Expire("ann")], 1, Answer("bob", "b"), ended(Standing::Expired, Some("ann")), Standing::Expired),
    ] {
        let mut ticket = ticket();
        for earlier in before {
            act(&mut ticket, *earlier, T0).expect("possible");
        }
        let unchanged = ticket.clone();
        assert_eq!(act(&mut ticket, last, at(now)), right, "{before:?} then {last:?} at {now}");
        assert_eq!(ticket.standing(at(now)), standing, "{before:?} then {last:?} at {now}");
        if !matches!(right, Ok(Done::Changed(_))) {
            assert_eq!(ticket, unchanged, "{before:?} then {last:?} at {now}");
        }
    }
}

#[test]
fn time_ends_leases_and_tickets_once() {
    let week = 7 * 86_400;
    for (claimed, now, right, standing) in [
        (None, week - 1, Done::Same, Standing::Open),
        (None, week, Done::Changed("expired"), Standing::Expired),
        (Some(0), 899, Done::Same, Standing::Claimed),
        (Some(0), 900, Done::Changed("lease_ended"), Standing::Open),
        // Whoever claims in time may finish, even after the ticket's own time.
        (Some(week - 1), week + 1, Done::Same, Standing::Claimed),
        (Some(week - 1), week + 899, Done::Changed("expired"), Standing::Expired),
    ] {
        let mut ticket = ticket();
        if let Some(secs) = claimed {
            ticket.claim("ann", at(secs), LEASE).expect("open");
        }
        assert_eq!(ticket.age(at(now)), right, "{claimed:?} {now}");
        assert_eq!(ticket.age(at(now)), Done::Same, "once");
        assert_eq!(ticket.standing(at(now)), standing, "{claimed:?} {now}");
    }
}

#[test]
fn the_queue_is_by_priority_then_age_then_what_is_claimed_and_what_has_ended() {
    let of = |priority, secs| Ticket::open(ticket().id, &NewTicket { priority, ..new() }, &settings(), at(secs)).rank();
    let (mut claimed, mut answered) = (ticket(), ticket());
    claimed.claim("ann", T0, LEASE).expect("open");
    answered.answer("ann", "a", T0).expect("open");
    let ranks = [
        of(Priority::Live, 0),
        of(Priority::Live, 9_999_999),
        of(Priority::Internal, 0),
        of(Priority::Background, 0),
        Band::Open.last(),
        Band::Claimed.first(),
        claimed.rank(),
        Band::Claimed.last(),
        Band::Ended.first(),
        answered.rank(),
        Band::Ended.last(),
    ];
    assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
    assert!(Band::Ended.last() < 1 << 53);
}

#[test]
fn what_is_kept_of_a_ticket_is_bounded_whatever_is_sent() {
    let long = "\u{202e}<script>".repeat(100_000);
    let hostile = NewTicket {
        class: Some(long.as_str().into()),
        model: long.as_str().into(),
        attempts: vec![Attempt { model: long.as_str().into(), outcome: long.as_str().into() }; 100],
        ..new()
    };
    let mut ticket = Ticket::open(ticket().id, &hostile, &settings(), T0);
    for n in 0..1_000 {
        let asked = Asked { request: format!("tg_{n}").into(), ..Asked::of(&hostile, at(n)) };
        ticket.append(asked, at(n)).expect("open");
        ticket.claim("ann", at(n), LEASE).expect("free");
        ticket.release("ann", at(n)).expect("held");
    }
    assert_eq!((ticket.requests.len(), ticket.more), (LISTED, 1_001 - LISTED as u64));
    assert_eq!(&*ticket.requests[0].request, RequestId::new(1).to_string(), "the first stays");
    assert_eq!(&*ticket.requests[LISTED - 1].request, "tg_999", "and the latest");
    assert_eq!(ticket.history.len(), REMEMBERED);
    let length = serde_json::to_vec(&ticket).expect("JSON").len();
    assert!(length < 150_000, "{length} bytes");
}

#[test]
fn the_same_request_is_appended_once() {
    let mut ticket = ticket();
    assert_eq!(act(&mut ticket, Append, T0), Ok(Done::Changed("appended")));
    assert_eq!(act(&mut ticket, Append, T0), Ok(Done::Same));
    assert_eq!(ticket.requests.len(), 2);
}

#[test]
fn an_ended_ticket_is_kept_for_the_app_to_find() {
    let (mut answered, settings) = (ticket(), settings());
    answered.answer("ann", "a", at(100)).expect("open");
    assert_eq!(answered.keep(&settings, at(100)), settings.keep);
    assert_eq!(answered.keep(&settings, at(160)), settings.keep - Duration::from_secs(60));
    assert_eq!(ticket().keep(&settings, at(100)), settings.keep - Duration::from_secs(100) + LEASE + AFTERWARDS);
}
