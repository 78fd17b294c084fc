//! Keys: made, shown once, given a new secret, revoked.

use crate::browser::{Page, World};

/// The status of a request with this key.
async fn opens(world: &World, key: &str, model: &str) -> u16 {
    let body = serde_json::json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let request = world.bed().client.post(world.bed().url("/v1/chat/completions")).bearer_auth(key);
    let request = request.header("content-type", "application/json").header("x-customer-id", "acme").body(body);
    let reply = request.send().await.expect("an answer");
    let status = reply.status().as_u16();
    drop(reply.bytes().await.expect("a whole body"));
    status
}

/// The secret on a page.
fn secret(page: &Page) -> String {
    let at = page.text.find(">tg-").unwrap_or_else(|| panic!("no secret: {}", page.text));
    page.text[at + 1..].split('<').next().expect("its end").to_owned()
}

#[tokio::test]
async fn a_key_is_made_shown_once_renewed_and_revoked() {
    let world = World::new().await;
    let mut ann = world.operator("ann <b>").await;
    let page = ann.get("/console/keys").await;
    assert!(page.has("<bdi>shop</bdi>") && page.has("configuration") && !page.has("/console/keys/shop/"), "{}", page.text);
    let fields =
        [("name", "web"), ("models", "m-big, emb"), ("customers", "ac*"), ("routes", ""), ("rpm", "50"), ("for", "90days")];
    let made = ann.send(&page, "/console/keys", &fields).await;
    assert_eq!((made.status, made.to.as_str()), (200, ""), "{}", made.text);
    assert_eq!(made.headers["cache-control"], "no-store");
    let first = secret(&made);
    assert_eq!(first.len(), 67, "{first}");
    assert_eq!(opens(&world, &first, "m-big").await, 200, "the next request");
    assert_eq!(opens(&world, &first, "m-small").await, 403, "not its model");

    let page = ann.get("/console/keys").await;
    assert!(!page.has(&first) && page.has(&first[..11]), "never again: {}", page.text);
    for text in [
        "made here by <bdi>ann &lt;b&gt;</bdi>",
        "m-big, emb",
        "<bdi>ac*</bdi>",
        "<bdi>50</bdi>",
        "<span>2027-04-15</span> 08:00:00",
    ] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    let renewed = ann.send(&page, "/console/keys/web/rotate", &[("overlap", "1h")]).await;
    let second = secret(&renewed);
    assert!(renewed.status == 200 && second != first && renewed.headers["cache-control"] == "no-store");
    assert_eq!((opens(&world, &first, "m-big").await, opens(&world, &second, "m-big").await), (200, 200));
    world.clock.pass(std::time::Duration::from_secs(3_601));
    assert_eq!((opens(&world, &first, "m-big").await, opens(&world, &second, "m-big").await), (401, 200));

    let ask = ann.get("/console/keys/web/revoke").await;
    assert!(ask.has("This cannot be taken back.") && !ask.has(&second), "{}", ask.text);
    assert_eq!(opens(&world, &second, "m-big").await, 200, "asking does nothing");
    let revoked = ann.send(&ask, "/console/keys/web/revoke", &[]).await;
    assert_eq!((revoked.status, revoked.to.as_str()), (303, "/console/keys?done=revoke"));
    assert_eq!(opens(&world, &second, "m-big").await, 401);
    let page = ann.get("/console/keys?done=revoke").await;
    assert!(page.has("revoked by ann &lt;b&gt;") && !page.has("/console/keys/web/"), "{}", page.text);
    world.bed().assert_books(&["acme"]).await;
}

#[tokio::test]
async fn a_key_that_cannot_be_made_so_is_not_and_what_was_typed_is_kept() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let page = ann.get("/console/keys").await;
    for (fields, status, wrong) in [
        (vec![("name", "no name <b>")], 400, "name"),
        (vec![("name", "")], 400, "name"),
        (vec![("name", "shop")], 409, "name"),
        (vec![("name", "a"), ("plans", "nope <b>")], 400, "plans"),
        (vec![("name", "a"), ("routes", "v1")], 400, "routes"),
        (vec![("name", "a"), ("rpm", "many <b>")], 400, "rpm"),
        (vec![("name", "a"), ("tpm", "-1")], 400, "tpm"),
        (vec![("name", "a"), ("for", "soon <b>")], 400, "for"),
    ] {
        let answer = ann.send(&page, "/console/keys", &fields).await;
        assert_eq!(answer.status, status, "{fields:?}");
        assert!(answer.has(&format!("id=\"{wrong}-error\"")) && !answer.has("<b>"), "{fields:?}: {}", answer.text);
        assert_eq!(answer.text.matches("-error\">").count(), 1, "{fields:?}: {}", answer.text);
        for (name, typed) in &fields {
            let kept = format!("name=\"{name}\" value=\"{}\"", typed.replace('<', "&lt;").replace('>', "&gt;"));
            assert!(answer.has(&kept), "{kept}: {}", answer.text);
        }
    }
    for path in ["/console/keys", "/console/keys/shop/rotate", "/console/keys/shop/revoke"] {
        assert_eq!(ann.post(path, &[("name", "a")]).await.status, 403, "{path}: without the proof");
    }
    assert_eq!(world.bed().gateway.directory.keys().await.expect("read").len(), 1);
    for path in ["/console/keys/nope/rotate", "/console/keys/nope/revoke"] {
        assert_eq!(ann.send(&page, path, &[]).await.status, 404, "{path}");
    }
    assert_eq!(ann.get("/console/keys/%3Cscript%3E/revoke").await.status, 404);
    let made = ann.send(&page, "/console/keys", &[("name", "web")]).await;
    assert_eq!(made.status, 200);
    let late = ann.send(&page, "/console/keys/web/rotate", &[("overlap", "long <b>")]).await;
    assert!(late.status == 400 && late.has("value=\"long &lt;b&gt;\"") && late.has("href=\"#overlap-web\""), "{}", late.text);
}
