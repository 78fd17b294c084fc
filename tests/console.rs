//! The console as a browser without scripts sees it: who gets in, which forms are taken, and what is done then.
//!
//! The same pages in a real browser, with and without scripts, are tested in `tests/console`.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "console/browser.rs"]
mod browser;
#[path = "console/customers.rs"]
mod customers;
#[path = "console/desk.rs"]
mod desk;
#[path = "console/entry.rs"]
mod entry;
#[path = "console/keys.rs"]
mod keys;
#[path = "console/lab.rs"]
mod lab;
#[path = "console/levels.rs"]
mod levels;
