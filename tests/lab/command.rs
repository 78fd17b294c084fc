//! `tollgate lab` as a command: tables on standard output, a chart in a file, mistakes on standard error.

use crate::child::run;

#[test]
fn a_scenario_prints_its_table_and_draws_its_chart() {
    let directory = tempfile::tempdir().expect("a directory");
    let chart = directory.path().join("chart.svg").display().to_string();
    let (status, out, err) = run(&["lab", "config/scenarios/shared-versus-own-bucket.toml", "--svg", &chart], &[]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("Shared versus own bucket\n"), "{out}");
    assert!(out.contains("token bucket              one for all  18 of 250   31 of 40  5 of 10   54 "), "{out}");
    let svg = std::fs::read_to_string(&chart).expect("drawn");
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{}", &svg[..200]);
    let words = [
        "Shared versus own bucket", // title
        "one bucket for all",       // a column for each run
        "a bucket each",
        "tokens per minute", // axes and their units
        "questions per minute",
        "minutes",
        "level",
        "accepted by the provider", // legend
        "answered",
        "unanswered",
        "prefers-color-scheme: dark", // and of everything that is drawn in paper or ink there is a dark version
        "[stroke=\"#FFFFFF\"]{stroke:#0D1117}",
    ];
    for word in words {
        assert!(svg.contains(word), "{word}");
    }
    let (status, _, err) = run(&["lab", "config/scenarios/which-limit-binds.toml", "--svg", &chart], &[]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    let svg = std::fs::read_to_string(&chart).expect("drawn");
    assert!(svg.contains("percent of the limit") && svg.contains("tpm 1,000,000"), "a sweep has a chart of its own");
}

#[test]
fn mistakes_are_told_on_standard_error_and_exit_64() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let scenario = file("bad.toml", "titel = \"t\"\n[[runs]]\ngateway = \"none\"\n");
    let (status, out, err) = run(&["lab", &scenario], &[]);
    assert_eq!((status, out.as_str()), (Some(64), ""));
    assert!(err.contains(&format!("{scenario}:1: titel: is not a setting; did you mean `title`?")), "{err}");
    assert!(err.contains(&format!("{scenario}:2: runs[0]: `name` is missing")), "{err}");
    let (status, _, err) = run(&["lab", "/nowhere.toml"], &[]);
    assert!(status == Some(64) && err.contains("/nowhere.toml:1: the file cannot be read"), "{err}");
    let trace = file("trace.csv", "1,2,3\n1,2\n");
    let (status, _, err) = run(&["lab", "--trace", &trace, "--tpm", "1000"], &[]);
    assert!(status == Some(64) && err.contains("trace.csv: line 2: has not three columns"), "{err}");
    for wrong in [&["lab"][..], &["lab", "--trace", &trace], &["lab", &scenario, "--replay", &trace]] {
        let (status, out, err) = run(wrong, &[]);
        assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
    }
}
