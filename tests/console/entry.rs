//! Who gets in, and from where forms are taken.

use crate::bed::CONFIG;
use crate::browser::{Browser, MORE, TOKEN, World, admin};
use std::time::Duration;

#[tokio::test]
async fn nobody_sees_a_page_without_logging_in_and_is_led_there() {
    let world = World::new().await;
    let mut browser = world.browser();
    for (path, to) in [
        ("/console", "/console/login?next=%2Fconsole"),
        ("/console/desk?queue=a%20b", "/console/login?next=%2Fconsole%2Fdesk%3Fqueue%3Da%2520b"),
        ("/console/nope", "/console/login?next=%2Fconsole%2Fnope"),
    ] {
        let page = browser.get(path).await;
        assert_eq!((page.status, page.to.as_str(), page.text.as_str()), (303, to, ""), "{path}");
    }
    assert_eq!(browser.get("/").await.to, "/console");
    assert_eq!(browser.get("/admin/triage").await.status, 401, "the API asks for its header as before");
    let page = browser.post("/console/desk/next", &[]).await;
    assert_eq!(page.status, 401);
}

#[tokio::test]
async fn the_token_and_a_name_let_somebody_in_to_where_they_wanted() {
    let world = World::new().await;
    let mut browser = world.browser();
    let login = browser.get("/console/login?next=/console/desk").await;
    assert_eq!(login.status, 200);
    assert!(login.has("type=\"password\""));
    for (name, token, words) in [
        ("ann", "wrong", "This is not the admin token."),
        ("ann", "", "This is not the admin token."),
        (" ", TOKEN, "Your name has to be 1 to 128 bytes"),
        ("a\u{202e}b", TOKEN, "Your name may not hold control characters."),
        (&"x".repeat(129), TOKEN, "Your name has to be 1 to 128 bytes"),
    ] {
        let page = browser.send(&login, "/console/login", &[("name", name), ("token", token), ("next", "/console/desk")]).await;
        assert_eq!(page.status, 403, "{name} {token}");
        assert!(page.has(words), "{name}: {}", page.text);
        assert_eq!(page.field("next"), "/console/desk", "where they wanted to go is kept");
        assert!(!page.has(TOKEN) && !page.has("value=\"wrong\""), "what was typed as a token is never shown");
        assert!(browser.get("/console").await.to.contains("login"), "and nobody is in");
    }
    let fields = [("name", "ann"), ("token", TOKEN), ("next", "/console/desk")];
    let entered = browser.send(&login, "/console/login", &fields).await;
    assert_eq!((entered.status, entered.to.as_str()), (303, "/console/desk"));
    assert!(entered.cookie.ends_with("; Path=/console; Max-Age=36000; HttpOnly; SameSite=Strict"), "{}", entered.cookie);
    assert!(!entered.cookie.contains(TOKEN));
    let page = browser.get("/console/desk").await;
    assert!(page.status == 200 && page.has("You are <strong>ann</strong>"), "{}", page.text);
    let other = browser.send(&page, "/console/login", &[("name", "bob"), ("token", TOKEN), ("next", "//evil.example")]).await;
    assert_eq!(other.to, "/console", "never to another site");

    let out = browser.send(&browser_page(&mut world.operator("ann").await).await, "/console/logout", &[]).await;
    assert_eq!(out.status, 403, "the form of another session ends none");
    let page = browser.get("/console").await;
    let out = browser.send(&page, "/console/logout", &[]).await;
    assert_eq!((out.status, out.to.as_str()), (303, "/console/login"));
    assert!(out.cookie.contains("Max-Age=0"), "{}", out.cookie);
    assert!(browser.get("/console").await.to.contains("login"));
}

async fn browser_page(browser: &mut Browser) -> crate::browser::Page {
    browser.get("/console").await
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_only() {
    let world = World::new().await;
    let mut browser = world.browser();
    let login = browser.get("/console/login").await;
    let fields = [("csrf", login.field("csrf")), ("name", "ann"), ("token", TOKEN)];
    let origin = browser.base.replace("http:", "https:");
    let request = browser.form("/console/login", &fields).header("origin", origin);
    let entered = browser.ask(request).await;
    assert_eq!(entered.status, 303);
    assert!(entered.cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{}", entered.cookie);
}

#[tokio::test]
async fn a_session_holds_on_every_gateway_and_ends_by_itself() {
    let world = World::of(2, &format!("{CONFIG}\n{MORE}")).await;
    let mut browser = world.operator("ann").await;
    let page = browser.get("/console").await;
    browser.base = admin(&world.beds[1]);
    assert_eq!(browser.get("/console").await.status, 200);
    let claimed = browser.send(&page, "/console/desk/next", &[]).await;
    assert_eq!((claimed.status, claimed.to.as_str()), (303, "/console/desk?done=none&queue="), "a form of the other gateway");
    world.clock.pass(Duration::from_secs(36_000 - 1));
    assert_eq!(browser.get("/console").await.status, 200);
    world.clock.pass(Duration::from_secs(1));
    assert!(browser.get("/console").await.to.contains("login"), "after ten hours");
    let late = browser.send(&page, "/console/desk/next", &[]).await;
    assert_eq!(late.status, 401);
    assert!(late.has("You are not logged in any more"));
}

#[tokio::test]
async fn forms_are_taken_from_our_own_pages_and_this_session_only() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let mut bob = world.operator("bob").await;
    let ticket = world.ticket("h", "Where is it?", "billing").await;
    let path = format!("/console/desk/{ticket}/claim");
    let (page, other) = (ann.get("/console/desk").await, bob.get("/console/desk").await);
    let (csrf, base) = (page.field("csrf").to_owned(), ann.base.clone());
    let (good, bad) = ([("csrf", csrf.as_str())], [("csrf", other.field("csrf"))]);
    let form = |fields: &[(&str, &str)]| ann.form(&path, fields);
    let cross = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let attempts = [
        ("no proof", form(&[]).header("origin", &base), 403),
        ("another session's", form(&bad).header("origin", &base), 403),
        ("a wrong one", form(&[("csrf", "x")]).header("origin", &base), 403),
        ("from elsewhere", form(&good).header(cross[0].0, cross[0].1), 403),
        ("from elsewhere, says the browser", form(&good).header("origin", &base).header(cross[1].0, cross[1].1), 403),
        ("from a page without an origin", form(&good).header("origin", "null"), 403),
        ("from who knows where", form(&good), 403),
        ("another port of this machine", form(&good).header("origin", "http://127.0.0.1:1"), 403),
        ("as text", form(&good).header("origin", &base).header("content-type", "text/plain"), 403),
        ("too large", form(&[("csrf", csrf.as_str()), ("text", &"x".repeat(200_000))]).header("origin", &base), 413),
    ];
    for (how, request, status) in attempts {
        let mut request = request.build().expect("a request");
        let cookie = ann.cookie.clone().expect("logged in");
        request.headers_mut().insert("cookie", cookie.parse().expect("text"));
        if how == "as text" {
            request.headers_mut().insert("content-type", "text/plain".parse().expect("text"));
        }
        let reply = world.bed().client.execute(request).await.expect("an answer");
        assert_eq!(reply.status(), status, "{how}");
        let found = world.bed().gateway.triage.ticket(ticket.parse().expect("an id")).await.expect("it is there");
        assert_eq!(found.ticket.holder(world.bed().gateway.triage.now()), None, "{how} does nothing");
    }
    let request = ann.form(&path, &good).header("sec-fetch-site", "same-origin");
    let done = ann.ask(request).await;
    assert_eq!((done.status, done.to), (303, format!("/console/desk/{ticket}?done=claim")), "and from our page it is done");
    assert_eq!(world.bed().provider.seen(), 0);
    world.bed().assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_link_on_another_site_leads_in_without_a_login() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let link = |path: &str, dest: &str| {
        let request = ann.client.get(format!("{}{path}", ann.base)).header("sec-fetch-site", "cross-site");
        request.header("sec-fetch-mode", "navigate").header("sec-fetch-dest", dest)
    };
    let (page, framed) = (link("/console/desk", "document"), link("/console/desk", "iframe"));
    let page = ann.ask(page).await;
    assert_eq!(page.status, 200);
    assert!(page.has("http-equiv=\"refresh\" content=\"0\"") && !page.has("Tickets"), "{}", page.text);
    assert_eq!(ann.ask(framed).await.status, 403, "but into no frame");
}

#[tokio::test]
async fn without_a_token_this_machine_gets_in_by_name_and_nobody_else() {
    let config = format!("{CONFIG}\n{MORE}").replace("token = { file = \"{token}\" }\n", "");
    let world = World::of(1, &config).await;
    let mut browser = world.browser();
    let login = browser.get("/console/login").await;
    assert!(!login.has("type=\"password\"") && login.has("asks for no token"));
    assert!(browser.get("/console").await.to.contains("login"));
    let entered = browser.send(&login, "/console/login", &[("name", "ann")]).await;
    assert_eq!(entered.status, 303);
    assert_eq!(browser.get("/console").await.status, 200);
    let request = browser.client.get(format!("{}/console", browser.base)).header("host", "evil.example");
    assert_eq!(browser.ask(request).await.status, 403, "a name that was made to lead here");
}

#[tokio::test]
async fn every_answer_forbids_scripts_frames_and_caches() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let page = ann.get("/console").await;
    let script = page.text.split("src=\"").nth(1).expect("a script").split('"').next().expect("its end").to_owned();
    let style = page.text.split("rel=\"stylesheet\" href=\"").nth(1).expect("a style").split('"').next().expect("its end");
    let style = style.to_owned();
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    for (path, status, kind, cache) in [
        ("/console", 200, "text/html; charset=utf-8", "no-store"),
        ("/console/login", 200, "text/html; charset=utf-8", "no-store"),
        ("/console/nope", 404, "text/html; charset=utf-8", "no-store"),
        ("/console/desk/next", 405, "text/html; charset=utf-8", "no-store"),
        (&script, 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        (&style, 200, "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
    ] {
        let page = ann.get(path).await;
        assert_eq!(page.status, status, "{path}");
        for (name, right) in [
            ("content-security-policy", policy),
            ("content-type", kind),
            ("cache-control", cache),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(page.headers.get(name).map(|value| value.to_str().expect("text")), Some(right), "{path} {name}");
        }
        assert!(!page.has("<script>") && !page.has(" style=") && !page.has("onclick"), "{path}: nothing inline");
    }
    assert_eq!(ann.get("/console/assets/000000000000-console.js").await.status, 404);
    let put = ann.client.put(format!("{}/console", ann.base)).header("origin", ann.base.clone());
    assert_eq!(ann.ask(put).await.status, 403, "no form, no change");
}
