use super::*;
use crate::history::Day;
use proptest::prelude::*;

const DOLLAR: u64 = 1_000_000_000;

fn day(customer: &str, day: u32, cost: u64, requests: u64, peaks: [u64; 3]) -> CustomerDay {
    let [peak_messages, peak_requests, peak_tokens] = peaks;
    let plans = [("pro".to_owned(), requests)].into();
    let used = Use { requests, cost_nano_usd: cost, plans, peak_messages, peak_requests, peak_tokens, ..Use::default() };
    CustomerDay { customer: customer.into(), day: Day(20_000 + day), used }
}

/// 100 customers on ten days; customer n spends n cents a day with 10 requests. One runaway: c99 spends $50 on day 3.
fn recorded() -> Vec<CustomerDay> {
    let mut days = Vec::new();
    for date in 0..10 {
        for n in 0..100_u64 {
            days.push(day(&format!("c{n}"), date, n * CENT, 10, [4, 3, 1_000]));
        }
    }
    let runaway = days.iter_mut().find(|day| day.customer == "c99" && day.day == Day(20_003)).expect("it is there");
    runaway.used.cost_nano_usd = 50 * DOLLAR;
    runaway.used.requests = 1_000;
    runaway.used.peak_requests = 500;
    days
}

fn figure(plan: &PlanProposal, limit: Limit) -> &Figure {
    plan.figures.iter().find(|figure| figure.limit == limit).unwrap_or_else(|| panic!("{limit:?}: {plan:?}"))
}

#[test]
fn the_figures_are_those_worked_out_by_hand() {
    let wish = Wish { prices: [(String::new(), 20 * DOLLAR)].into(), margin: 600, ..Wish::default() };
    let proposal = propose(&recorded(), &wish).expect("there is data");
    assert_eq!((proposal.from, proposal.to, proposal.plans.len()), (Day(20_000), Day(20_009), 1));
    let plan = &proposal.plans[0];
    assert_eq!((plan.customers, plan.customer_days, plan.days, &plan.refused), (100, 1_000, 10, &None));
    // Of 1,000 values the 999th: the runaway is the 1,000th, and c99's other nine days come before it.
    let spend = figure(plan, Limit::SpendDay);
    assert_eq!((spend.basis, spend.value, spend.observations), (99 * CENT, 297 * CENT, 1_000));
    // $47.03 of $50 is beyond: 940.6 of 1,000 requests.
    let refused = Refused { customers: 1, periods: 1, requests: 941, ids: vec!["c99".into()] };
    assert_eq!(spend.refused, refused);
    // $20 less 60 %: $8. In their month c99 spends 9 x $0.99 + $50, c80 and up at least $8.00: c81 $8.10 is over, c80 is not.
    let month = figure(plan, Limit::SpendMonth);
    assert_eq!((month.basis, month.value, month.observations), (20 * DOLLAR, 8 * DOLLAR, 100));
    assert_eq!((month.refused.customers, month.refused.periods, &*month.refused.ids[0]), (19, 19, "c99"));
    // 3 x 1.5, rounded up; the runaway's 500 in a minute exceed it by 495.
    let rpm = figure(plan, Limit::Rpm);
    assert_eq!((rpm.basis, rpm.value, rpm.refused.requests, rpm.refused.periods), (3, 5, 495, 1));
    assert_eq!((figure(plan, Limit::Messages).value, figure(plan, Limit::Tpm).value), (6, 1_500));
    // The average day: ten days of $49.50, one with $49.01 more, by ten.
    let gateway = proposal.gateway_day.as_ref().expect("ten days");
    assert_eq!(gateway.basis, (10 * 4_950 + 4_901) * CENT / 10);
    assert_eq!((gateway.value, gateway.observations, gateway.refused.periods), (16_321 * CENT, 10, 0));
    // $544.01 by 100 customers in ten days is $16.3203 in thirty: 18.3 % of $20 are left.
    assert!(
        plan.remarks.iter().any(|remark| remark.contains("$16.3203") && remark.contains("leaves 18.3 %")),
        "{:?}",
        plan.remarks
    );
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let few_days: Vec<_> = recorded().into_iter().filter(|day| day.day < Day(20_006)).collect();
    let few_customers: Vec<_> = recorded().into_iter().filter(|day| day.customer == "c7").collect();
    for days in [few_days, few_customers] {
        let proposal = propose(&days, &Wish::default()).expect("some data");
        assert!(proposal.plans[0].figures.is_empty(), "{proposal:?}");
        assert!(proposal.plans[0].refused.as_ref().is_some_and(|why| why.contains("too little")), "{proposal:?}");
    }
    assert_eq!(propose(&[], &Wish::default()), None);
}

#[test]
fn nothing_spent_and_no_price_mean_no_cap() {
    let mut days = recorded();
    days.iter_mut().for_each(|day| day.used.cost_nano_usd = 0);
    let proposal = propose(&days, &Wish::default()).expect("some data");
    let limits: Vec<_> = proposal.plans[0].figures.iter().map(|figure| figure.limit).collect();
    assert_eq!((limits, proposal.gateway_day), (vec![Limit::Messages, Limit::Rpm, Limit::Tpm], None));
}

#[test]
fn plans_are_apart_and_a_price_may_be_one_plans() {
    let mut days = recorded();
    for day in days.iter_mut().filter(|day| day.customer.ends_with('3')) {
        day.used.plans = [("free".to_owned(), 9), ("pro".to_owned(), 1)].into();
    }
    let wish = Wish { prices: [("free".to_owned(), DOLLAR)].into(), ..Wish::default() };
    let proposal = propose(&days, &wish).expect("some data");
    let names: Vec<_> = proposal.plans.iter().map(|plan| (&*plan.plan, plan.customers, plan.figures.len())).collect();
    assert_eq!(names, [("free", 10, 5), ("pro", 90, 4)]);
    assert_eq!(figure(&proposal.plans[0], Limit::SpendMonth).value, DOLLAR / 2);
}

/// What is printed as TOML is a configuration, and holds the same figures.
#[test]
fn the_toml_is_a_configuration_with_the_same_figures() {
    let mut days = recorded();
    for day in days.iter_mut().filter(|day| day.customer.ends_with('3')) {
        day.used.plans = [("gold \"2\"".to_owned(), 1)].into();
    }
    let wish = Wish { prices: [(String::new(), 20 * DOLLAR)].into(), ..Wish::default() };
    let proposal = propose(&days, &wish).expect("some data");
    let mut text = Vec::new();
    crate::suggest::write::toml(&proposal, &mut text).expect("memory");
    let text = String::from_utf8(text).expect("text");
    let (policy, _) = crate::config::Policy::parse(&text, "proposed.toml", &crate::config::Env::default())
        .unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
    for plan in &proposal.plans {
        let ready = &policy.plans[&*plan.plan];
        let caps: Vec<_> = ready.limits.spend.iter().map(|(_, cap)| cap.get()).collect();
        assert_eq!(caps, [figure(plan, Limit::SpendDay).value, figure(plan, Limit::SpendMonth).value], "{text}");
        assert_eq!((ready.limits.rates.len(), ready.limits.messages.is_some()), (2, true), "{text}");
    }
    assert_eq!(policy.gateway.spend[0].1.get(), proposal.gateway_day.expect("ten days").value);
}

proptest! {
    /// A daily cap never refuses more than one customer-day in a thousand (rounded up), and never one at or under it.
    #[test]
    fn a_cap_refuses_at_most_one_day_in_a_thousand(costs in prop::collection::vec(0_u64..1_000 * DOLLAR, 100..1_500)) {
        let days: Vec<_> = costs.iter().enumerate().map(|(n, cost)| day(&format!("c{}", n / 10), n as u32 % 10, *cost, 5, [1, 1, 1])).collect();
        let wish = Wish { factor: 1_000, ..Wish::default() };
        let proposal = propose(&days, &wish).expect("some data");
        if let Some(figure) = proposal.plans[0].figures.iter().find(|figure| figure.limit == Limit::SpendDay) {
            prop_assert!(figure.refused.periods <= costs.len().div_ceil(1_000));
            prop_assert_eq!(figure.refused.periods, costs.iter().filter(|cost| **cost > figure.value).count());
            prop_assert!(figure.value >= figure.basis && figure.value - figure.basis < CENT);
        }
    }
}
