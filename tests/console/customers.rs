//! Customers: found, seen, and what is set for one, in force with the next request.

use crate::browser::World;
use std::time::Duration;
use tollgate::store::documents::Expected;

/// What an application may call somebody.
const EVIL: &str = "<script>alert('1')</script>\"/?#%";
const EVIL_PATH: &str = "/console/customers/%3Cscript%3Ealert%28%271%27%29%3C%2Fscript%3E%22%2F%3F%23%25";

async fn asks(world: &World, customer: &str) -> u16 {
    let reply = world.bed().chat(customer, "m-big", "").send().await.expect("an answer");
    let status = reply.status().as_u16();
    drop(reply.bytes().await.expect("a whole body"));
    status
}

/// Waits until a customer is noted as seen, which happens behind the answer.
async fn seen(world: &World, customer: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while world.bed().gateway.records.seen(customer).await.expect("read").is_none() {
        assert!(tokio::time::Instant::now() < deadline, "{customer} is never noted");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// Waits until the books are closed and the history is written.
async fn told(world: &World, customers: &[&str]) {
    for bed in &world.beds {
        bed.assert_books(customers).await;
        assert!(bed.gateway.history.flush(Duration::from_secs(10)).await, "the history is written");
    }
}

/// Until what is kept of the requests so far can be read.
async fn written(world: &World) {
    for bed in &world.beds {
        bed.quiet().await;
        assert!(bed.gateway.records.drain(Duration::from_secs(10)).await, "records are written");
    }
}

#[tokio::test]
async fn customers_are_found_by_prefix_by_spend_and_by_id() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    assert!(ann.get("/console/customers").await.has("No such customer asked for anything today."));
    for (customer, times) in [("acme", 1), ("zoo", 3), ("acorn", 2)] {
        for _ in 0..times {
            assert_eq!(asks(&world, customer).await, 200);
        }
    }
    told(&world, &["acme", "zoo", "acorn"]).await;
    for customer in ["acme", "zoo", "acorn"] {
        seen(&world, customer).await;
    }
    let order = |page: &crate::browser::Page| {
        let mut found: Vec<(usize, &str)> = ["acme", "zoo", "acorn", "h", "t"]
            .into_iter()
            .filter_map(|id| Some((page.text.find(&format!("href=\"/console/customers/{id}\""))?, id)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    for (query, right) in [
        ("", vec!["zoo", "acorn", "acme"]),
        ("?prefix=ac", vec!["acorn", "acme"]),
        ("?prefix=ac&skip=1", vec!["acme"]),
        ("?prefix=zoo&sort=nonsense&skip=x", vec!["zoo"]),
        ("?prefix=nobody", vec![]),
        ("?sort=id&prefix=ac", vec!["acme", "acorn"]),
        ("?sort=id", vec!["acme", "acorn", "h", "t", "zoo"]),
        ("?sort=id&after=acorn", vec!["h", "t", "zoo"]),
    ] {
        let page = ann.get(&format!("/console/customers{query}")).await;
        assert_eq!((page.status, order(&page)), (200, right), "{query}");
    }
    let page = ann.get(&format!("/console/customers?prefix={}", "%22%3E%3Cb%3E")).await;
    assert!(page.has("value=\"&quot;&gt;&lt;b&gt;\"") && !page.has("<b>"), "{}", page.text);
    let page = ann.get(&format!("/console/customers?prefix={}", "x".repeat(513))).await;
    assert!(page.status == 400 && page.has("at most 512 bytes"), "{}", page.text);
}

#[tokio::test]
async fn further_customers_are_on_further_pages() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let fields = serde_json::Map::from_iter([("rpm".to_owned(), serde_json::json!(5))]);
    for n in 0..51 {
        let set = &world.bed().gateway.directory;
        let id = format!("p-{n:02}");
        set.set_override("ann", &id, &fields, None, tollgate::store::documents::Expected::Anything).await.expect("set");
    }
    let page = ann.get("/console/customers?sort=id&prefix=p-").await;
    assert!(page.has("href=\"/console/customers?prefix=p-&amp;sort=id&amp;after=p-49\""), "{}", page.text);
    assert!(page.has("/p-49\"") && !page.has("/p-50\""));
    let page = ann.get("/console/customers?prefix=p-&sort=id&after=p-49").await;
    assert!(page.has("/p-50\"") && !page.has("/p-49\"") && !page.has("Further customers"), "{}", page.text);
}

#[tokio::test]
async fn a_customers_page_says_why_it_is_refused_and_shows_its_id_as_text() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    assert_eq!(asks(&world, EVIL).await, 200);
    told(&world, &[EVIL]).await;
    let list = ann.get("/console/customers").await;
    assert!(list.has(&format!("href=\"{EVIL_PATH}\"")) && !list.has("<script>alert"), "{}", list.text);
    let page = ann.get(EVIL_PATH).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.has("<h1>Customer &lt;script&gt;alert('1')&lt;/script&gt;&quot;/?#%</h1>") && !page.has("<script>alert"));
    for text in [
        "<bdi>open</bdi> (the default plan)",
        "No limit would refuse the smallest request now; the fullest, ",
        "a larger request may not fit it.",
        "spend_day",
        "$1000.00",
        "Money by day",
        "Requests by day",
    ] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    // Six billionths short of nothing: the plan hands off, and there is a note of it.
    world.ticket("h", "Where?", "").await;
    told(&world, &[EVIL, "h"]).await;
    written(&world).await;
    let page = ann.get("/console/customers/h").await;
    for text in ["<bdi>handed</bdi> (from the configuration)", "handed off (200)", "handoff"] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    let page = ann.get("/console/customers/new-one").await;
    assert!(page.status == 200 && page.has("Nobody of this id was seen"), "{}", page.text);
    let page = ann.get("/console/customers/two%20words%00").await;
    assert_eq!(page.status, 400, "{}", page.text);
}

#[tokio::test]
async fn the_list_by_spend_shows_the_plan_of_now_and_who_is_suspended() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    assert_eq!(asks(&world, "acme").await, 200);
    assert_eq!(asks(&world, "zoo").await, 200);
    told(&world, &["acme", "zoo"]).await;
    let page = ann.get("/console/customers/acme").await;
    ann.send(&page, "/console/customers/acme/override", &[("plan", "case")]).await;
    ann.send(&page, "/console/customers/acme/suspend", &[("suspend_for", "")]).await;
    let list = ann.get("/console/customers").await;
    let row = |id: &str| {
        let row = list.text.split("<tr").find(|row| row.contains(&format!("/console/customers/{id}\""))).expect("listed");
        (row.contains("<bdi>case</bdi>"), row.contains("<bdi>open</bdi>"), row.contains("<strong>suspended</strong>"))
    };
    assert_eq!(row("acme"), (true, false, true), "{}", list.text);
    assert_eq!(row("zoo"), (false, true, false), "{}", list.text);
    assert!(list.has("Degraded or handed off"), "{}", list.text);
}

#[tokio::test]
async fn what_is_set_is_in_force_with_the_next_request() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    for customer in ["acme", EVIL] {
        let path = if customer == EVIL { EVIL_PATH } else { "/console/customers/acme" };
        assert_eq!(asks(&world, customer).await, 200);
        let page = ann.get(path).await;
        let suspended = ann.send(&page, &format!("{path}/suspend"), &[("suspend_for", "")]).await;
        assert_eq!((suspended.status, suspended.to), (303, format!("{path}?done=suspend")), "{}", suspended.text);
        assert_eq!(asks(&world, customer).await, 402, "the next request");
        written(&world).await;
        let page = ann.get(&format!("{path}?done=suspend")).await;
        for text in
            ["Suspended: from the next", "<strong>Refused now</strong> by spend_day", "customer.spend_day", "Lift the suspension"]
        {
            assert!(page.has(text), "{text}: {}", page.text);
        }
        let lifted = ann.send(&page, &format!("{path}/lift"), &[]).await;
        assert_eq!(lifted.to, format!("{path}?done=lift"));
        assert_eq!(asks(&world, customer).await, 200);

        let fields = [("plan", "case"), ("rpm", "1"), ("spend_day", "2.5"), ("rate", "20/d"), ("burst", "7"), ("for", "12h")];
        let set = ann.send(&page, &format!("{path}/override"), &fields).await;
        assert_eq!((set.status, set.to), (303, format!("{path}?done=override")), "{}", set.text);
        let page = ann.get(&format!("{path}?done=override")).await;
        for text in ["(set at run time)", "$2.50", "<span>2027-01-15</span> 20:00:00", "Take back rpm", "&quot;burst&quot;:7"] {
            assert!(page.has(text), "{text}: {}", page.text);
        }
        let unset = ann.send(&page, &format!("{path}/unset"), &[("field", "plan")]).await;
        assert_eq!(unset.to, format!("{path}?done=unset"));
        assert!(ann.get(path).await.has("(the default plan)"));
        let given = ann.send(&page, &format!("{path}/credit"), &[("dollars", "1.25"), ("period", "day")]).await;
        assert_eq!(given.to, format!("{path}?done=credit"));
        let page = ann.get(path).await;
        assert!(page.has("$1.25") && page.has("$3.75"), "the credit is on top: {}", page.text);
        let cleared = ann.send(&page, &format!("{path}/clear"), &[]).await;
        assert_eq!(cleared.to, format!("{path}?done=clear"));
        assert!(ann.get(path).await.has("Nothing: the plan holds as it is."));
    }
    told(&world, &["acme", EVIL]).await;
}

/// A suspension beside limits that end, a credit on top of it, and what is left when it is lifted.
#[tokio::test]
async fn a_suspension_changes_nothing_else_and_no_credit_ends_it() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let path = "/console/customers/acme";
    let page = ann.get(path).await;
    let fields = [("rpm", "77"), ("spend_day", "100"), ("for", "12h")];
    ann.send(&page, &format!("{path}/override"), &fields).await;
    let ended = "Ends <time datetime=\"2027-01-15T20:00:00Z\"";
    for lasts in ["", "1h"] {
        let page = ann.get(path).await;
        assert!(page.has(ended), "{}", page.text);
        ann.send(&page, &format!("{path}/suspend"), &[("suspend_for", lasts)]).await;
        let given = ann.send(&page, &format!("{path}/credit"), &[("dollars", "5"), ("period", "day")]).await;
        assert_eq!(asks(&world, "acme").await, 402);
        let page = ann.get(&given.to).await;
        for text in
            ["it does not lift the suspension", "Lift the suspension", ended, "Take back rpm", "<strong>Suspended</strong>"]
        {
            assert!(page.has(text), "{lasts:?} {text}: {}", page.text);
        }
        assert_eq!(page.has("2027-01-15T09:00:00Z"), lasts == "1h", "its own end: {}", page.text);
        assert!(ann.get("/console/customers?sort=id").await.has("<strong>suspended</strong>"));
        let lifted = ann.send(&page, &format!("{path}/lift"), &[]).await;
        let page = ann.get(&lifted.to).await;
        assert!(page.has("What was refused lately stands below") || lasts.is_empty(), "{}", page.text);
        assert!(page.has(ended) && page.has("Take back spend") && !page.has("Lift the suspension"), "{}", page.text);
        assert_eq!(asks(&world, "acme").await, 200);
        assert!(!ann.get(&format!("{path}?done=suspend")).await.has("Suspended: from"), "it is not said once it is not so");
        written(&world).await;
    }
    let directory = &world.bed().gateway.directory;
    let gold = serde_json::Map::from_iter([("rpm".to_owned(), 60.into())]);
    directory.set_plan("ann", "gold", &gold, Expected::Nothing).await.expect("set");
    directory.assign_plan("ann", "acme", "gold").await.expect("assigned");
    directory.clear_plan("ann", "gold", Expected::Anything).await.expect("cleared");
    let page = ann.get(path).await;
    assert!(page.has("A plan is gone") && page.has("<bdi>gold</bdi>") && page.has("Take back rpm"), "{}", page.text);
    told(&world, &["acme"]).await;
}

#[tokio::test]
async fn what_is_wrong_is_said_at_its_field_and_what_was_typed_is_kept() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let path = "/console/customers/acme";
    let page = ann.get(path).await;
    for (act, fields, wrong) in [
        ("override", vec![("plan", "no <b> plan"), ("rpm", "5")], "plan"),
        ("override", vec![("rpm", "5"), ("tpm", "-3 <b>")], "tpm"),
        ("override", vec![("spend_day", "lots <b>")], "spend_day"),
        ("override", vec![("spend_month", "-1")], "spend_month"),
        ("override", vec![("rate", "x <b>")], "rate"),
        ("override", vec![("burst", "5")], "rate"),
        ("override", vec![("rate", "20/d"), ("burst", "many <b>")], "burst"),
        ("override", vec![("rpm", "5"), ("for", "soon <b>")], "for"),
        ("override", vec![], "plan"),
        ("suspend", vec![("suspend_for", "a while <b>")], "suspend_for"),
        ("credit", vec![("dollars", "some <b>"), ("period", "day")], "dollars"),
        ("credit", vec![("dollars", "-1"), ("period", "week")], "dollars"),
    ] {
        let answer = ann.send(&page, &format!("{path}/{act}"), &fields).await;
        assert_eq!(answer.status, 400, "{fields:?}");
        assert!(answer.has(&format!("id=\"{wrong}-error\"")), "{fields:?}: {}", answer.text);
        assert_eq!(answer.text.matches("-error\">").count(), 1, "{fields:?}: one field is wrong: {}", answer.text);
        assert!(!answer.has("<b>"), "{fields:?}");
        for (name, typed) in fields.iter().filter(|(name, _)| *name != "period") {
            assert_eq!(answer.field(name), typed.replace('<', "&lt;").replace('>', "&gt;"), "{name} is kept");
        }
    }
    for act in ["override", "unset", "suspend", "lift", "clear", "credit"] {
        let answer = ann.post(&format!("{path}/{act}"), &[("dollars", "1"), ("rpm", "1"), ("field", "rpm")]).await;
        assert_eq!(answer.status, 403, "{act}: without the proof");
    }
    assert!(ann.get(path).await.has("Nothing: the plan holds as it is."));
    assert_eq!(asks(&world, "acme").await, 200);
    told(&world, &["acme"]).await;
}
