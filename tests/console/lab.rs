//! The lab and the settings without a script.

use crate::bed::CONFIG;
use crate::browser::{MORE, TOKEN, World};

/// The cells of the table row that begins with this head, without markup.
fn row(text: &str, head: &str) -> Vec<String> {
    let bare = |piece: &str| {
        let mut out = String::new();
        let mut inside = false;
        for c in piece.chars() {
            match c {
                '<' => inside = true,
                '>' => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out.replace("&gt;", ">")
    };
    let rows = text.split("<tr").skip(1).map(|row| row.split("</tr>").next().unwrap_or_default());
    let cells = |row: &str| row.split("</t").map(|cell| bare(&format!("</t{cell}"))).collect::<Vec<_>>();
    let found = rows.map(cells).find(|cells| cells[0] == head).unwrap_or_else(|| panic!("no row {head}: {text}"));
    found[..found.len() - 1].to_vec()
}

const TYPED: &str =
    "tier=&messages=&burst=&rpm=&tpm=&account_rpm=&account_tpm=&rate=120&shape=steady&input=100&output=100&minutes=5";

fn typed(changes: &[(&str, &str)]) -> String {
    let pairs = TYPED.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').expect("a pair");
        let value = changes.iter().find(|(changed, _)| *changed == name).map_or(value, |(_, value)| value);
        format!("{name}={value}")
    });
    format!("/console/lab?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[tokio::test]
async fn the_lab_says_which_limit_binds_and_how_much_is_served() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    // 120 a minute for five minutes are 600, half a second apart. What a bucket of n that gains r a minute lets through of them: n + 5 r,
    // as far as the last arrives before the gain of the last half second.
    for (changes, verdict) in [
        (vec![], "600 of 600 served, 0 degraded, 0 refused. Nothing binds: every request fits."),
        (
            vec![("messages", "60"), ("burst", "10")],
            "309 of 600 served, 0 degraded, 291 refused. What binds: customer messages, which stopped 291 first.",
        ),
        (vec![("rpm", "60")], "359 of 600 served, 0 degraded, 241 refused. What binds: customer rpm, which stopped 241 first."),
        // 200 tokens each: 12,000 a minute are sixty requests.
        (
            vec![("tpm", "12000")],
            "359 of 600 served, 0 degraded, 241 refused. What binds: customer tpm, which stopped 241 first.",
        ),
        // A minute's requests at once: sixty of each 120, as the bucket is full again after a minute.
        (
            vec![("rpm", "60"), ("shape", "burst")],
            "300 of 600 served, 0 degraded, 300 refused. What binds: customer rpm, which stopped 300 first.",
        ),
    ] {
        let page = ann.get(&typed(&changes)).await;
        assert_eq!(page.status, 200, "{changes:?}");
        let said = page.text.split("role=\"status\">").nth(1).and_then(|rest| rest.split("</p>").next()).expect("a verdict");
        assert_eq!(said, verdict, "{changes:?}");
    }
    // The account binds those whose own tier would let them through.
    let page = ann.get(&typed(&[("rpm", "1000"), ("account_rpm", "60"), ("account_tpm", "1000000")])).await;
    assert!(page.has("What binds: pool rpm, which stopped "), "{}", page.text);
    assert_eq!(row(&page.text, "pool account")[1..4], ["rpm", "60", "0"]);
    world.bed().quiet().await;
}

#[tokio::test]
async fn the_lab_draws_both_buckets_and_puts_them_in_a_table() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let changes = [("messages", "60"), ("burst", "10"), ("account_rpm", "500"), ("account_tpm", "100000")];
    let page = ann.get(&typed(&changes)).await;
    let svg = page.text.split("<svg").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a drawing");
    for words in ["the customer&apos;s own buckets", "the account&apos;s buckets", "messages, full at 10", "rpm, full at 500"] {
        assert!(svg.contains(words) || svg.contains(&words.replace("&apos;", "'")), "{words}: {svg}");
    }
    assert!(svg.starts_with(" role=\"img\" aria-labelledby=\"buckets-title buckets-desc\""), "it has a name: {svg}");
    assert!(svg.contains("customer messages: 0 of 10 at the least; pool account rpm: "), "what is seen, in words: {svg}");
    assert!(!svg.contains("<style") && !svg.contains("style="), "nothing that the content policy refuses");
    assert_eq!(row(&page.text, "customer")[1..4], ["messages", "10", "0"]);
    assert_eq!(row(&page.text, "answered")[1..], ["309", "52 %"]);
    assert_eq!(row(&page.text, "refused")[1..], ["291", "49 %"]);
    assert_eq!(row(&page.text, "stopped first by customer messages")[1..], ["291", "49 %"]);
    world.bed().quiet().await;
}

#[tokio::test]
async fn the_lab_takes_a_plan_of_the_gateway_and_counts_what_is_degraded() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    // Plan `case`: 60 requests and 10,000 tokens a minute, $1 a day. Of 200 tokens each, fifty a minute.
    let page = ann.get(&typed(&[("tier", "case"), ("messages", "nonsense")])).await;
    assert!(page.has("Result: plan case") && page.has("What binds: customer tpm, "), "{}", page.text);
    assert_eq!(row(&page.text, "200")[1..], ["50", "83.3 %", "9,980", "99.8 %", "tpm"], "other sizes, and this one");
    // Plan `handed` may spend a millionth of a dollar; then a person takes over.
    let page = ann.get(&typed(&[("tier", "handed"), ("rate", "10"), ("minutes", "1")])).await;
    assert!(
        page.has("0 of 10 served, 10 degraded, 0 refused. What binds: customer spend_day, which stopped 10 first."),
        "{}",
        page.text
    );
    assert_eq!(row(&page.text, "handed off")[1..], ["10", "100 %"]);
    world.bed().quiet().await;
}

#[tokio::test]
async fn wrong_input_of_the_lab_is_said_at_its_field_and_kept() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let page =
        ann.get(&typed(&[("rpm", "%3Cscript%3E"), ("input", ""), ("rate", "30000"), ("minutes", "2"), ("tier", "")])).await;
    assert_eq!(page.status, 400);
    for words in [
        "Requests a minute (rpm): a whole number from 1 to 1,000,000,000 is wanted.",
        "Tokens in, each request: a number is needed.",
        "30,000 requests a minute for 2 minutes are 60,000; the lab plays 50,000 at most.",
    ] {
        assert_eq!(page.text.matches(words).count(), 2, "in the list and at the field: {words}");
    }
    assert_eq!((page.field("rpm"), page.field("rate"), page.field("input")), ("&lt;script&gt;", "30000", ""));
    assert!(page.has("href=\"#rpm\"") && page.has("aria-describedby=\"rpm-error\"") && !page.has("<script>"), "{}", page.text);
    assert!(!page.has("<svg"), "nothing was played");
    assert_eq!(ann.get(&typed(&[("tier", "nope")])).await.status, 400);
    assert_eq!(ann.get("/console/lab?preset=nope").await.status, 404);
    let fresh = ann.get("/console/lab").await;
    assert_eq!((fresh.status, fresh.field("messages"), fresh.field("minutes")), (200, "60", "10"));
    assert!(!fresh.has("<svg") && !fresh.has("Not done"), "nothing is played before it is asked for");
}

#[tokio::test]
async fn incidents_are_links_that_show_their_table_and_picture() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let page = ann.get("/console/lab").await;
    for name in
        ["order-bug", "ipo-morning", "twenty-at-once", "queue-that-cannot-move", "shared-versus-own-bucket", "which-limit-binds"]
    {
        assert!(page.has(&format!("href=\"/console/lab?preset={name}\"")), "{name}");
    }
    let page = ann.get("/console/lab?preset=twenty-at-once").await;
    assert_eq!(page.status, 200);
    assert_eq!(
        row(&page.text, "cust_42 spent today")[2..],
        ["$4.90 -> $5.00 of $5.00", "$4.90 -> $5.00 of $5.00"],
        "{}",
        page.text
    );
    assert!(
        page.has("<svg role=\"img\" aria-labelledby=\"incident-title incident-desc\"") && page.has("Over time, for each of: ")
    );
    let again = ann.get("/console/lab?preset=twenty-at-once").await;
    assert_eq!(again.text, page.text, "the same, and played once");
    let page = ann.get("/console/lab?preset=shared-versus-own-bucket").await;
    assert!(
        page.has("customer messages: 0 of 5 at the least") && page.has("The same requests, by other algorithms"),
        "{}",
        page.text
    );
    let page = ann.get("/console/lab?preset=which-limit-binds").await;
    assert_eq!(row(&page.text, "2,000")[1..], ["500", "50 %", "999,800", ">99.9 %", "tpm"]);
    assert!(page.has("How full each limit is, over the size of requests."), "{}", page.text);
}

#[tokio::test]
async fn settings_say_what_is_in_force_and_from_where_and_no_secret() {
    let more = r#"
[alerts.webhooks.chat]
url = "https://hooks.example/services/T000/secret-of-the-chat"
[triage.webhook]
url = "https://tickets.example/in?key=secret-of-the-tickets"
"#;
    let world = World::of(1, &format!("{CONFIG}\n{MORE}\n{more}")).await;
    let mut ann = world.operator("ann").await;
    let page = ann.get("/console/settings").await;
    assert_eq!(page.status, 200, "{}", page.text);
    for secret in [TOKEN, "secret-of-the-chat", "secret-of-the-tickets", "sk-test", "hooks.example"] {
        assert!(!page.has(secret), "{secret}: {}", page.text);
    }
    assert_eq!(row(&page.text, "alerts.webhooks.chat.url")[1], "(not shown)");
    assert_eq!(row(&page.text, "plans.case.tpm")[1], "10_000".replace('_', ""));
    assert!(row(&page.text, "plans.case.tpm")[2].starts_with("file "), "its line: {:?}", row(&page.text, "plans.case.tpm"));
    assert_eq!(row(&page.text, "auth.mode")[1], "keys");
    assert_eq!(row(&page.text, "concurrency.slots")[1..], ["32", "default"], "not written, so the default");
    assert!(page.has("none since the start") && page.has("In force since"), "{}", page.text);
}
