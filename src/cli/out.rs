//! Standard output and standard error of the commands; the server itself speaks through `tracing`.

use std::io::{self, Write};

/// Prints a line. A closed pipe is not an error: whoever read has seen enough.
pub fn line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Complains on standard error.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "tollgate: {text}");
}
