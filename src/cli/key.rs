//! `tollgate key`: a new gateway key, shown once; the configuration holds its hash.

use super::out;
use crate::config::hash_key;
use std::process::ExitCode;

/// Makes and prints a key. Its 256 bits come from the operating system.
pub fn run(name: &str) -> ExitCode {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return super::fail("the name of a key is made of letters, digits, - and _", super::BAD_CONFIG);
    }
    let mut random = [0_u8; 32];
    if let Err(error) = read_random(&mut random) {
        return super::fail(&format!("the system gave no random bytes: {error}"), 1);
    }
    let key = format!("tg-{}", blake3::Hash::from_bytes(random).to_hex());
    let hash = blake3::Hash::from_bytes(hash_key(&key)).to_hex();
    out::line(&format!(
        "# The key of {name}, shown only now; the application sends it as its API key:\n#\n#     {key}\n#\n\
         # For the configuration, under [auth] mode = \"keys\":\n\n[keys.{name}]\nhash = \"blake3:{hash}\""
    ));
    ExitCode::SUCCESS
}

fn read_random(bytes: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}
