//! A file that cannot be put in force changes nothing, and what is wrong with it is said.

use super::{Rig, with};
use crate::bed::CONFIG;
use std::sync::Arc;
use tollgate::reload::Outcome;

/// The value of a metric.
fn metric(rig: &Rig, name: &str) -> Option<u64> {
    let text = rig.bed.gateway.metrics.render();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_bad_file_is_in_force_and_everything_wrong_with_it_is_said() {
    let rig = Rig::start(false, &format!("{CONFIG}\n[admin]\nlisten = \"127.0.0.1:0\"\n")).await;
    let admin = "\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let in_force = rig.bed.gateway.policy.load_full();
    let since = rig.bed.gateway.reloads.standing().since;
    let mut refused = 0;
    for (config, problems) in [
        ("[plans.case\n".to_owned(), &["tollgate.toml:3: is not TOML here"][..]),
        // A good change beside two bad ones.
        (
            format!(
                "{}{admin}",
                with(&[("rpm = 60", "rpm = 6"), ("tpm = 10_000", "tpm = -1"), ("plan = \"case\"", "plan = \"csae\"")])
            ),
            &["plans.case.tpm: -1 is negative", "customers.t.plan: there is no plan \"csae\""],
        ),
        // D16.
        (format!("{}{admin}", with(&[("input = 2.50", "input = nan")])), &["models.m-big.price.input: "]),
        // A good change beside one that takes a restart.
        (
            format!("{}{admin}[store]\npath = \"elsewhere\"\n", with(&[("rpm = 60", "rpm = 6")])),
            &["store.path: the store cannot change while the gateway runs: not set -> \"elsewhere\""],
        ),
        (CONFIG.to_owned(), &["admin: is gone"]),
        (format!("{CONFIG}{admin}[concurrency]\nqueue = 100000\n"), &["concurrency: slots and queue come to 100032 requests"]),
    ] {
        let Outcome::Refused { problems: said } = rig.reload(&config).await else { panic!("{config}") };
        refused += 1;
        let said: Vec<_> = said.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), problems.len(), "{said:#?}");
        for problem in problems {
            assert!(said.iter().any(|said| said.contains(problem)), "{problem}: {said:#?}");
        }
        assert!(Arc::ptr_eq(&in_force, &rig.bed.gateway.policy.load_full()), "nothing was changed");
        assert_eq!(rig.status("t", "m-big").await, 200);
        let ready = rig.bed.client.get(rig.bed.url("/readyz")).send().await.expect("an answer");
        assert_eq!(ready.status(), 200, "it goes on as before");
        assert_eq!(metric(&rig, "tollgate_config_reloads_total{result=\"refused\"}"), Some(refused));
        assert_eq!(metric(&rig, "tollgate_config_refused"), Some(1));
        assert_eq!(metric(&rig, "tollgate_config_in_force_since_seconds"), Some(since.secs()));
    }

    assert_eq!(rig.reload(&format!("# a remark\n{CONFIG}{admin}")).await, Outcome::Unchanged);
    assert_eq!(metric(&rig, "tollgate_config_refused"), Some(0), "the file is what is in force");
    assert_eq!(rig.reload(&format!("{}{admin}", with(&[("rpm = 60", "rpm = 61")]))).await, Outcome::Applied { changes: 1 });
    assert_eq!(metric(&rig, "tollgate_config_reloads_total{result=\"applied\"}"), Some(1));
    let standing = rig.bed.gateway.reloads.standing();
    assert_eq!(standing.last, Some((standing.since, Outcome::Applied { changes: 1 })));
    rig.bed.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_token_of_the_operators_holds_for_their_next_request() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    let admin = format!("{CONFIG}\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = {{ file = {:?} }}\n", token.path());
    let (old, new) = ("0123456789abcdef-old", "0123456789abcdef-new");
    std::fs::write(token.path(), old).expect("written");
    let rig = Rig::start(false, &admin).await;
    let url = format!("http://{}/admin/levels", rig.bed.admin.expect("it listens"));
    let asked = async |token| rig.bed.client.get(&url).bearer_auth(token).send().await.expect("an answer").status().as_u16();
    assert_eq!((asked(old).await, asked(new).await), (200, 401));
    std::fs::write(token.path(), new).expect("written");
    // The same text with another secret behind it.
    assert_eq!(rig.reload(&admin).await, Outcome::Applied { changes: 1 });
    assert_eq!((asked(old).await, asked(new).await), (401, 200));
}
