//! The functions a request passes, one by one, so that a regression has an address.
//!
//! `cargo bench --bench micro` times them with criterion; a name behind it picks some. `benches/instructions.sh` counts their instructions
//! instead, where the clock of a busy machine says nothing: for that the same program is run as `micro count NAME TIMES`.

mod ledgers;
mod parts;
mod prompts;

use criterion::Criterion;
use std::io::Write;

/// Does it once.
pub type Doing = Box<dyn FnMut()>;

/// Something that is done once a request, set up and ready to be done again.
pub struct Work {
    /// Its name.
    pub name: &'static str,
    /// Sets it up. `None`, with a message, where something it needs is missing.
    pub set_up: fn() -> Option<Doing>,
}

fn all() -> impl Iterator<Item = Work> {
    parts::WORK.into_iter().chain(prompts::WORK).chain(ledgers::WORK)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "names"] => all().for_each(|work| say(work.name)),
        [_, "count", name, times] => count(name, times),
        _ => {
            let mut criterion = Criterion::default().configure_from_args();
            for work in all() {
                // Set up only when it is asked for: some start a server.
                let mut ready = None;
                let mut missing = false;
                criterion.bench_function(work.name, |bencher| {
                    if ready.is_none() && !missing {
                        ready = (work.set_up)();
                        missing = ready.is_none();
                    }
                    let mut nothing: Box<dyn FnMut()> = Box::new(|| ());
                    bencher.iter(ready.as_mut().unwrap_or(&mut nothing));
                });
            }
            criterion.final_summary();
        }
    }
}

/// Does one of them so many times, for whoever counts its instructions.
fn count(name: &str, times: &str) {
    let work = all().find(|work| work.name == name).expect("a name of `micro names`");
    let times: u64 = times.parse().expect("a number of times");
    let Some(mut once) = (work.set_up)() else { std::process::exit(2) };
    (0..times).for_each(|_| once());
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
