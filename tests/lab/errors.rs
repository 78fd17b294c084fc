//! A scenario with mistakes: all of them at once, each with its line and what to do.

use tollgate::lab::Scenario;

#[test]
fn all_problems_of_a_scenario_are_told_with_their_lines() {
    let text = r#"about = "no title"
[clients.naive]
kind = "at_onc"
[crowds.a]
client = "nave"
customers = 0
rate = "fast"
input = -1
output = 5
[crowds.b]
count = 1
plan = "nobody"
model = "no-such-model"
input = 1
[configs.x.pools.mini]
upstream = "opena"
models = ["m"]
[providers.p]
rpm = 1
colour = "red"
[[runs]]
name = "r"
config = "y"
crowds = ["a", "c"]
[sweep]
plan = "pro"
"#;
    let problems = Scenario::parse(text, "s.toml").expect_err("mistakes");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let starts = [
        "s.toml:1: `title` is missing",
        "s.toml:3: clients.naive.kind: \"at_onc\" is unknown; did you mean `at_once`?",
        "s.toml:5: crowds.a.client: there is no client \"nave\"; did you mean `naive`?",
        "s.toml:6: crowds.a.customers: is 0",
        "s.toml:7: crowds.a.rate: \"fast\" is not a rate",
        "s.toml:8: crowds.a.input: -1 is negative",
        "s.toml:10: crowds.b: `output` is missing",
        "s.toml:16: configs.x.pools.mini.upstream: there is no upstream \"opena\"",
        "s.toml:20: providers.p.colour: is not a setting",
        "s.toml:21: runs[0]: `gateway` is missing",
        "s.toml:23: runs[0].config: there is no config \"y\"",
        "s.toml:24: runs[0].crowds[1]: there is no crowd \"c\"",
        "s.toml:25: sweep: `tokens` is missing",
        "s.toml:26: sweep.plan: there is no plan \"pro\"",
    ];
    for start in starts {
        assert!(problems.iter().any(|problem| problem.starts_with(start)), "{start}\n{problems:#?}");
    }
    // The missing rate is told once, as the unreadable one.
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
}

#[test]
fn a_crowd_is_checked_against_the_configuration_of_its_runs() {
    let text = "title = \"t\"\n[crowds.b]\ncount = 1\nplan = \"nobody\"\nmodel = \"no-such-model\"\ninput = 1\noutput = 1\n[[runs]]\nname = \"r\"\ngateway = \"none\"\n";
    let problems = Scenario::parse(text, "s.toml").expect_err("mistakes");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].starts_with("s.toml:4: crowds.b.plan: there is no plan \"nobody\""), "{problems:#?}");
    assert!(problems[1].starts_with("s.toml:5: crowds.b.model: \"no-such-model\" has no price"), "{problems:#?}");
}

#[test]
fn what_would_take_for_ever_is_refused() {
    for (what, reason) in [
        ("rate = \"1000000/s\"\n", "requests in run \"r\"; at most 2000000 can be played"),
        ("rate = \"0/s\"\n", "is 0, so nobody ever comes"),
        ("count = 3\nlasts = \"1s\"\n", "needs a rate"),
    ] {
        let text =
            format!("title = \"t\"\n[[runs]]\nname = \"r\"\ngateway = \"none\"\n[crowds.b]\ninput = 1\noutput = 1\n{what}");
        let problems = Scenario::parse(&text, "s.toml").expect_err(what);
        assert!(problems.len() == 1 && problems[0].to_string().contains(reason), "{problems:#?}");
    }
    let nothing = Scenario::parse("title = \"t\"\n", "s.toml").expect_err("nothing to do");
    assert!(nothing[0].to_string().contains("asks for nothing"), "{nothing:?}");
}
