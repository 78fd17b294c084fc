//! Calls whose client left go on for the books, but not any number of them.

use crate::bodies::{HI, IN, USAGE_COST};
use crate::pace::paced;
use crate::rig::{complete, until};
use crate::statuses::{JSON, answer};
use tollgate::demo::provider::{End, Gate, Script, Seen};

#[tokio::test]
async fn so_many_of_one_customer_go_on_and_the_rest_is_cancelled() {
    let (rig, _waits) = paced("", "", "[concurrency]\norphans_per_customer = 2").await;
    let gate = Gate::new();
    for round in 1..=4_usize {
        // Two whose headers are still to come, two that break off in the middle of a body too large to be held back.
        let big = format!("{}{}", " ".repeat(20 * 1024), JSON);
        rig.bed.provider.script(if round % 2 == 1 {
            answer().hold(&gate)
        } else {
            Script::http(200).header("content-type", "application/json").send(big[..17 * 1024].to_owned()).until(&gate).send(JSON)
        });
        let request = rig.chat("").send();
        let call = tokio::spawn(async move {
            let reply = request.await.expect("an answer");
            reply.bytes().await
        });
        rig.provider_saw("the call", |seen| seen.len() == round && !seen[round - 1].body.is_empty()).await;
        if round % 2 == 0 {
            rig.provider_saw("its reply", |seen| seen[round - 1].status == 200).await;
        }
        call.abort();
        until("the slot", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
        let orphans = rig.bed.gateway.orphans.count();
        assert_eq!(orphans, round.min(2), "after {round}");
    }
    rig.provider_saw("two calls cancelled", |seen| seen.iter().filter(|seen| seen.client_left()).count() == 2).await;
    gate.open();
    let mut costs: Vec<_> = rig.outcomes(4).await;
    costs.sort_by_key(|outcome| outcome.cost);
    let cut = complete(HI, HI * IN).estimated().ending("client_gone");
    let heard_out = complete(109, USAGE_COST).ending("client_gone");
    assert_eq!(costs, [cut.clone(), cut, heard_out.clone(), heard_out], "the prompt, or what the provider states");
    let ends: Vec<_> = rig.bed.provider.log().iter().map(|seen| seen.end).collect();
    assert_eq!(ends, [End::Complete, End::Complete, End::ClientLeft, End::ClientLeft]);
    assert_eq!(rig.bed.gateway.orphans.count(), 0);
}

#[tokio::test]
async fn so_many_in_all_go_on() {
    let (rig, _waits) = paced("", "", "[concurrency]\norphans = 3").await;
    let gate = Gate::new();
    for number in 1..=5 {
        rig.bed.provider.script(answer().hold(&gate));
        let call = tokio::spawn(rig.bed.chat(&format!("c{number}"), "m-big", "").send());
        rig.provider_saw("the call", |seen| seen.len() == number && !seen[number - 1].body.is_empty()).await;
        call.abort();
        until("the slot", || (rig.bed.gateway.slots.load().customers == 0).then_some(())).await;
    }
    rig.provider_saw("two calls cancelled", |seen| seen.iter().filter(|seen| Seen::client_left(seen)).count() == 2).await;
    gate.open();
    rig.bed.quiet().await;
    let mut spent = Vec::new();
    for number in 1..=5 {
        spent.push(rig.bed.spent(&format!("c{number}")).await.get());
    }
    assert_eq!(spent, [USAGE_COST, USAGE_COST, USAGE_COST, HI * IN, HI * IN]);
}
