//! `tollgate key`: a new gateway key, shown once; the configuration holds its hash.

use super::out;
use crate::directory::keys::{MadeKey, is_name};
use std::process::ExitCode;

/// Makes and prints a key. Its 256 bits come from the operating system.
pub fn run(name: &str) -> ExitCode {
    if !is_name(name) {
        return super::fail("the name of a key is made of letters, digits, - and _, 64 at most", super::BAD_CONFIG);
    }
    let MadeKey { secret: key, hash, .. } = match MadeKey::make() {
        Ok(made) => made,
        Err(error) => return super::fail(&format!("the system gave no random bytes: {error}"), 1),
    };
    let hash = hash.to_hex();
    out::line(&format!(
        "# The key of {name}, shown only now; the application sends it as its API key:\n#\n#     {key}\n#\n\
         # For the configuration, under [auth] mode = \"keys\":\n\n[keys.{name}]\nhash = \"blake3:{hash}\""
    ));
    ExitCode::SUCCESS
}
