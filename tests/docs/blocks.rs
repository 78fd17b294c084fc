//! Every block of the documents is run, parsed or compared.

use super::child::{ROOT, Running, run};
use super::compose;
use super::markdown::{blocks, blocks_of};
use std::path::Path;
use std::process::Command;
use tollgate::config::{Env, Policy};

#[test]
fn every_block_is_of_a_language_that_some_test_checks() {
    // Python and Node run with their SDKs: tests/sdk/test_readme.py and readme.test.mjs. `text` is the picture.
    let known = ["sh", "console", "toml", "json", "python", "js", "text"];
    let blocks = blocks();
    for language in known {
        assert!(blocks.iter().any(|block| block.language == language), "there is a block of {language}");
    }
    for block in blocks {
        assert!(known.contains(&block.language.as_str()), "{}: nobody checks {:?}", block.at, block.language);
    }
}

/// Building for release, installing SDKs and starting containers is not for a test; that what these lines name exists, is.
#[test]
fn every_shell_line_names_what_exists() {
    let (_, help, _) = run(&["--help"], &[]);
    let command = |name: &str| help.lines().any(|line| line.trim_start().split(' ').next() == Some(name));
    let compose = compose::file();
    let mut seen = 0;
    for block in blocks_of("sh") {
        for line in block.text.lines().map(|line| line.split("  #").next().unwrap_or(line).trim()) {
            let words: Vec<&str> = line.split(' ').collect();
            let sound = match words.as_slice() {
                ["cargo", "run", "--release", "--", name] => command(name),
                ["cargo", "build", "--release"] => true,
                ["target/release/tollgate", name] => command(name),
                ["target/release/tollgate", "lab", rest @ ..] => {
                    let (_, help, _) = run(&["lab", "--help"], &[]);
                    // What the reader brings along or is written is not there; files of the repository are.
                    rest.iter().all(|word| match word.strip_prefix("--") {
                        Some(option) => help.contains(&format!("--{option} <")),
                        None => !word.starts_with("config/") || Path::new(ROOT).join(word).is_file(),
                    })
                }
                ["tests/run.sh"] => {
                    Command::new("bash").args(["-n", &format!("{ROOT}/tests/run.sh")]).status().unwrap().success()
                }
                ["docker", "compose", "up", "--build"] => compose["services"]["tollgate"]["build"].is_string(),
                ["export", rest @ ..] => {
                    let name = rest[0].split('=').next().unwrap();
                    compose["services"]["tollgate"]["environment"][name].is_string()
                }
                // Run as they stand by the test below.
                ["curl", rest @ ..] => {
                    rest.iter().any(|word| ["/v1/jobs/", "respond-async", "/admin/keys"].iter().any(|what| word.contains(what)))
                }
                _ => panic!("{}: no test knows what {line:?} needs", block.at),
            };
            assert!(sound, "{}: {line}", block.at);
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} lines");
}

#[test]
fn every_pasted_command_prints_what_the_document_says() {
    let demo = Running::demo(&[]);
    let mut commands = 0;
    // The ticket of the documents, and the one that the demo opened.
    let mut ticket: Option<(String, String)> = None;
    for block in blocks_of("console") {
        let text = ticket.iter().fold(block.text.clone(), |text, (documented, real)| text.replace(documented, real));
        let (command, documented) = text.split_once('\n').expect("a command and its output");
        let command = command.strip_prefix("$ ").expect("a command after \"$ \"").replace("http://127.0.0.1:8080", &demo.url);
        let command = command.replace("http://127.0.0.1:8081", &demo.admin);
        let output = Command::new("bash").args(["-o", "pipefail", "-c", &command]).output().expect("bash, curl and grep");
        assert!(output.status.success(), "{}: {}", block.at, String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).expect("UTF-8").replace('\r', "");
        let mut documented = documented.to_owned();
        if let (None, Some(theirs), Some(ours)) = (&ticket, ticket_in(&documented), ticket_in(&printed)) {
            documented = documented.replace(&theirs, &ours);
            ticket = Some((theirs, ours));
        }
        let (printed, documented): (Vec<_>, Vec<_>) = (printed.lines().collect(), documented.lines().collect());
        assert_eq!(printed.len(), documented.len(), "{}: {printed:#?}", block.at);
        for (printed, documented) in printed.iter().zip(&documented) {
            assert!(is_like(documented, printed), "{}\n documented {documented}\n printed    {printed}", block.at);
        }
        commands += 1;
    }
    assert!(commands >= 6, "{commands}");
    assert!(ticket.is_some(), "somebody was handed to a person");
    assert!(demo.terminate().0.success());
}

/// The lines about a job, one after the other, against a gateway in keys mode.
#[tokio::test]
async fn the_lines_about_a_job_take_it_in_show_it_and_forget_it() {
    let demo = Running::demo(&[]);
    let provider = demo.said(|line| line.strip_prefix("provider ").map(|url| url.split(' ').next().unwrap_or(url).to_owned()));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tollgate.toml").display().to_string();
    let text = format!(
        "[auth]\nmode = \"keys\"\n[keys.app]\nkey = {{ env = \"APP_KEY\" }}\n[upstreams.openai]\nbase_url = \"{provider}\"\n\
         api_key = {{ env = \"PROVIDER_KEY\" }}\n[plans.individual]\non_provider = []\n"
    );
    std::fs::write(&file, text).expect("written");
    let key = "0123456789abcdef0123456789abcdef";
    let gateway = Running::serve(&["--config", &file], &[("APP_KEY", key), ("PROVIDER_KEY", "sk-demo")]);

    let blocks = blocks_of("sh");
    let lines = blocks
        .iter()
        .flat_map(|block| block.text.lines())
        .filter(|line| line.starts_with("curl ") && (line.contains("$JOB") || line.contains("respond-async")));
    let lines: Vec<_> = lines.map(|line| line.replace("http://127.0.0.1:8080", &gateway.url)).collect();
    let run = |line: &str, job: &str| {
        let output = Command::new("bash").args(["-c", line]).env("APP_KEY", key).env("JOB", job).output().expect("bash and curl");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").to_ascii_lowercase()
    };
    let [take_in, status, result, delete] = lines.as_slice() else { panic!("four lines: {lines:#?}") };
    let taken = run(take_in, "");
    assert!(taken.starts_with("http/1.1 202 ") && taken.contains("preference-applied: respond-async"), "{taken}");
    let job = taken.split("location: /v1/jobs/").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("its address");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !run(status, job).contains("\"status\":\"done\"") {
        assert!(std::time::Instant::now() < deadline, "{}", run(status, job));
    }
    let answer = run(result, job);
    assert!(answer.starts_with("http/1.1 200 ") && answer.contains("\"chat.completion\""), "{answer}");
    assert!(run(delete, job).starts_with("http/1.1 204 "));
    assert!(run(status, job).contains("\"job_not_found\""));
}

/// The first id of a ticket in a text.
fn ticket_in(text: &str) -> Option<String> {
    text.match_indices("tt_").find_map(|(at, _)| {
        let id = text.get(at..at + 35)?;
        id[3..].bytes().all(|b| b.is_ascii_hexdigit()).then(|| id.to_owned())
    })
}

/// Whether a line reads as documented, where "…" stands for digits.
fn is_like(documented: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (index, part) in documented.split('…').enumerate() {
        if index > 0 {
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            if after.len() == rest.len() {
                return false;
            }
            rest = after;
        }
        let Some(after) = rest.strip_prefix(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// The lines about gateway keys, one after the other, against a gateway in keys mode.
#[test]
fn the_lines_about_keys_make_list_change_rotate_and_revoke_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tollgate.toml").display().to_string();
    let text =
        "[auth]\nmode = \"keys\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[upstreams.openai]\napi_key = { env = \"PROVIDER_KEY\" }\n";
    std::fs::write(&file, text).expect("written");
    let gateway = Running::serve(&["--config", &file], &[("PROVIDER_KEY", "sk-demo")]);
    let blocks = blocks_of("sh");
    let lines = blocks.iter().flat_map(|block| block.text.lines()).filter(|line| line.contains("/admin/keys"));
    let run = |line: &str| {
        let line = line.replace("http://127.0.0.1:8081", &gateway.admin);
        let output = Command::new("bash").args(["-c", &line]).output().expect("bash and curl");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let said: Vec<_> = lines.map(run).collect();
    let [made, list, changed, rotated, revoked] = said.as_slice() else { panic!("five lines: {said:#?}") };
    let (first, second) = (made["secret"].as_str().expect("a key"), rotated["secret"].as_str().expect("a key"));
    assert!(first.starts_with("tg-") && second.starts_with("tg-") && first != second);
    assert_eq!(list["keys"][0]["name"], "shop-2");
    assert_eq!(changed["set"], serde_json::json!({ "models": ["gpt-4o*"], "customers": ["shop_*"] }));
    assert_eq!(rotated["key"]["secrets"].as_array().map(Vec::len), Some(2));
    assert_eq!((&revoked["state"], &revoked["revoked_by"]), (&"revoked".into(), &"ada".into()));
}

#[test]
fn every_configuration_in_a_document_loads() {
    let env: Env = [
        ("OPENAI_API_KEY", "sk-0123456789abcdef"),
        ("CHAT_WEBHOOK_URL", "https://chat.example.com/services/T0/B0/0123456789abcdef"),
        ("BILLING_SECRET", "0123456789abcdef0123456789abcdef"),
    ]
    .into_iter()
    .collect();
    // The certificate that the documents speak of.
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(directory.path().join("tls.crt"), made.cert.pem()).expect("written");
    std::fs::write(directory.path().join("tls.key"), made.signing_key.serialize_pem()).expect("written");
    let certificates = format!("{}/", directory.path().display());
    let blocks = blocks_of("toml");
    assert!(blocks.len() >= 2);
    for block in blocks {
        let (_, warnings) = Policy::parse(&block.text.replace("/etc/tollgate/", &certificates), &block.at, &env)
            .unwrap_or_else(|problems| panic!("{}: {}", block.at, problems.iter().map(ToString::to_string).collect::<String>()));
        // Only what the block does not speak of may be warned about.
        let elsewhere = ["concurrency.slots", "handed off to people"];
        let about = |warning: &String| !warning.starts_with("built-in") && !elsewhere.iter().any(|what| warning.contains(what));
        let warnings: Vec<_> = warnings.iter().map(ToString::to_string).filter(about).collect();
        assert!(warnings.is_empty(), "{}: {warnings:#?}", block.at);
    }
}
