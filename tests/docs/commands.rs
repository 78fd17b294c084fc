//! The commands are those of the README, and say what a newcomer needs.

use super::child::{ROOT, run};
use super::markdown::{code, document, rows};
use std::collections::BTreeSet;
use std::fs;
use tollgate::config::policy::Auth;
use tollgate::config::{Env, Policy, hash_key};

/// The long options in a text, without those that every command has.
fn flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let flags = words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned);
    flags.filter(|flag| !["--help", "--version"].contains(&flag.as_str())).collect()
}

#[test]
fn the_readme_lists_exactly_the_commands_and_options_there_are() {
    let (status, help, _) = run(&["--help"], &[]);
    assert_eq!(status, Some(0));
    let listed = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let commands: BTreeSet<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    let rows = rows(&document("README.md"), "Run it");
    let mut documented = BTreeSet::from(["help".to_owned()]);
    for row in rows.iter().filter(|row| row[0].starts_with("`tollgate ")) {
        let usage = code(&row[0]).remove(0);
        let command = usage.split(' ').nth(1).expect("a command").to_owned();
        let (status, help, _) = run(&[&command, "--help"], &[]);
        assert_eq!(status, Some(0), "{command}");
        let options: String =
            help.lines().filter(|line| line.trim_start().starts_with('-')).map(|line| format!("{line}\n")).collect();
        assert_eq!(flags(&row.join(" ")), flags(&options), "the options of {command}");
        for argument in usage.split(' ').filter(|word| word.bytes().all(|b| b.is_ascii_uppercase())) {
            assert!(help.contains(&format!("<{argument}>")), "{usage}: {help}");
        }
        documented.insert(command);
    }
    assert_eq!(documented, commands);
}

#[test]
fn every_file_in_config_checks_out_with_its_environment() {
    let variables = [("OPENAI_API_KEY", "sk-0123456789abcdef"), ("APP_KEY", "0123456789abcdef0123456789abcdef")];
    let mut files = 0;
    for entry in fs::read_dir(format!("{ROOT}/config")).expect("config/") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue; // scenarios of the lab: tests/lab.rs plays every one
        }
        let path = path.display().to_string();
        let (status, out, err) = run(&["check", "--config", &path], &variables);
        assert_eq!(status, Some(0), "{path}: {out}{err}");
        let last = out.lines().last().unwrap_or_default();
        assert!(last.starts_with("OK, ") && last.ends_with(&path), "{last}");
        files += 1;
    }
    assert_eq!(files, 3);
    let (status, out, _) = run(&["check"], &[]);
    assert_eq!(status, Some(0));
    assert!(out.trim_end().ends_with(": the shipped configuration, since no --config was given"), "{out}");
    assert_eq!(run(&["check"], &[("TOLLGATE_CONFIG", "config/plans-saas.toml")]).0, Some(0));
}

#[test]
fn check_prints_all_problems_of_a_bad_file_and_exits_64() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "[server]\nlisen = \"x\"\n[plans.free]\nrpm = -1\nspend = { day = \"much\" }\n[identity]\ndefault_plan = \"fre\"\n\
                [store]\nkind = \"redis\"\nurls = [\"redis://a:1\", \"redis://b:1\"]\ncluster = false\n";
    fs::write(file.path(), text).expect("written");
    let path = file.path().display().to_string();
    let (status, out, err) = run(&["check", "--config", &path], &[]);
    assert_eq!((status, err.as_str()), (Some(64), ""));
    let problems: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    let starts = [
        "2: server.lisen: is not a setting; did you mean `listen`?",
        "4: plans.free.rpm: -1 is negative",
        "5: plans.free.spend.day: ",
        "7: identity.default_plan: ",
        "10: store.urls: names 2 servers, and `cluster` is false; name one server, or nodes of one cluster, or the sentinels in `sentinel`",
    ];
    assert_eq!(problems.len(), starts.len(), "{out}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(&format!("{path}:{start}")), "{problem}\n{start}");
    }
    assert!(out.contains("5 problems; the gateway would not start"), "{out}");
}

#[test]
fn a_new_key_is_printed_as_configuration_that_loads_and_opens() {
    let (status, out, err) = run(&["key", "shop"], &[]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let key = out.split_whitespace().find(|word| word.starts_with("tg-")).expect("the key");
    assert_eq!(key.len(), 67, "256 bits");
    // The whole output is a file's ending: what is not configuration is a comment.
    let text = format!("[auth]\nmode = \"keys\"\n{out}");
    let env: Env = [("OPENAI_API_KEY", "sk-1")].into_iter().collect();
    let (policy, _) = Policy::parse(&text, "key.toml", &env).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
    let Auth::Keys { apps } = &policy.auth else { panic!("keys mode") };
    assert_eq!(apps.get(&hash_key(key)).map(|app| &*app.name), Some("shop"));
    let configuration: Vec<_> = out.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(!configuration.concat().contains(key), "the configuration has only the hash");
    assert_ne!(run(&["key", "shop"], &[]).1, out, "each key is another");

    for name in ["", "a b", "a.b", "ключ"] {
        let (status, out, err) = run(&["key", name], &[]);
        assert_eq!((status, out.as_str()), (Some(64), ""), "{name}");
        assert!(err.contains("the name of a key is made of letters, digits, - and _"), "{err}");
    }
}
