//! What is wrong with a configuration, and where: collected, never stopped at the first.

use super::settings::FileRead;
use std::fmt;
use std::io::Read as _;
use std::sync::Arc;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A line of the configuration file.
    File {
        /// The file, as it was named.
        name: Arc<str>,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(Arc<str>),
    /// Shipped with the program.
    Shipped,
    /// Said at run time, and kept in the store.
    Stored,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}:{line}"),
            // The name of a variable may hold anything, also line ends.
            Self::Variable(name) => write!(f, "environment variable {}", name.escape_debug()),
            Self::Shipped => f.write_str("built-in"),
            Self::Stored => f.write_str("store"),
        }
    }
}

/// A setting: its key path, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub source: Source,
    /// The key path, such as `plans.individual.rpm`; empty for the file itself.
    pub key: Arc<str>,
}

impl Place {
    /// The file as a whole, or the built-in configuration.
    #[must_use]
    pub fn root(source: Source) -> Self {
        Self { source, key: "".into() }
    }

    /// A key inside this table. A name that is not a bare key is quoted, as it is in the file.
    #[must_use]
    pub fn child(&self, key: &str, source: Source) -> Self {
        let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        let key = if bare { key.to_owned() } else { format!("{key:?}") };
        Self { source, key: if self.key.is_empty() { key.into() } else { format!("{}.{key}", self.key).into() } }
    }

    /// An item of this list.
    #[must_use]
    pub fn item(&self, index: usize, source: Source) -> Self {
        Self { source, key: format!("{}[{index}]", self.key).into() }
    }
}

/// One thing that was found in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// What is the matter. Never holds a secret.
    pub reason: String,
    /// What to do about it.
    pub advice: String,
}

/// A finding with which the gateway does not start.
pub type Problem = Finding;

/// A finding with which it does.
pub type Warning = Finding;

impl fmt::Display for Finding {
    /// One line: `file:line: key: reason; advice`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place.source)?;
        if !self.place.key.is_empty() {
            write!(f, "{}: ", self.place.key)?;
        }
        write!(f, "{}", self.reason)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// Collects findings while a configuration is read and compiled.
#[derive(Debug, Default)]
pub struct Findings {
    /// What prevents the start.
    pub problems: Vec<Problem>,
    /// What does not.
    pub warnings: Vec<Warning>,
    /// The files that were read on the way.
    pub files: Vec<FileRead>,
}

impl Findings {
    /// Notes something that prevents the start.
    pub fn problem(&mut self, place: &Place, reason: impl Into<String>, advice: impl Into<String>) {
        self.problems.push(Finding { place: place.clone(), reason: reason.into(), advice: advice.into() });
    }

    /// Notes something an operator should know.
    pub fn warn(&mut self, place: &Place, reason: impl Into<String>, advice: impl Into<String>) {
        self.warnings.push(Finding { place: place.clone(), reason: reason.into(), advice: advice.into() });
    }

    /// Notes that a table lacks a key, unless the key is there and was already found unreadable.
    pub fn missing(&mut self, table: &Place, key: &str, advice: impl Into<String>) {
        let place = table.child(key, table.source.clone());
        if !self.unreadable(&place.key) {
            self.problem(table, format!("`{key}` is missing"), advice);
        }
    }

    /// Whether a problem with this key or something below it is already noted.
    #[must_use]
    pub fn unreadable(&self, key: &str) -> bool {
        let below = |at: &str| at.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        self.problems.iter().any(|problem| below(&problem.place.key))
    }

    /// Reads a file that the setting at `place` names, at most `most` bytes of it, and remembers that.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_file(&mut self, place: &Place, path: &str, most: u64) -> std::io::Result<Vec<u8>> {
        let read = || {
            let mut bytes = Vec::new();
            std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let read: std::io::Result<Vec<u8>> = read();
        let hash = read.as_ref().ok().map(|bytes| *blake3::hash(bytes).as_bytes());
        self.files.push(FileRead { key: place.key.clone(), path: path.into(), most, hash });
        read
    }

    /// In the order of the file, variables after it.
    pub fn sort(&mut self) {
        for list in [&mut self.problems, &mut self.warnings] {
            list.sort_by(|a, b| a.place.source.cmp(&b.place.source));
        }
    }
}

/// The known word nearest to `word`, if any is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = word.chars().count() / 3 + 1;
    let scored = known.into_iter().map(|k| (distance(&word.to_lowercase(), k), k)).filter(|(d, _)| *d <= allowed);
    scored.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// "did you mean" when something is near, otherwise the whole list.
#[must_use]
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let all: Vec<_> = known.into_iter().collect();
            if all.is_empty() { "there is none".to_owned() } else { format!("there is {}", all.join(", ")) }
        }
    }
}

/// Edits (insert, delete, replace) that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_nonsense_finds_the_list() {
        for (word, right) in
            [("lisen", Some("listen")), ("max_bdy", Some("max_body")), ("Listen", Some("listen")), ("colour", None)]
        {
            assert_eq!(nearest(word, ["listen", "max_body"]), right, "{word}");
        }
        assert_eq!(suggestion("colour", ["listen", "max_body"]), "there is listen, max_body");
    }

    #[test]
    fn a_finding_is_one_line_with_place_reason_and_advice() {
        let file = Place::root(Source::File { name: "a.toml".into(), line: 3 });
        let place = file.child("models", file.source.clone()).child("gpt-4.1", Source::File { name: "a.toml".into(), line: 7 });
        let mut findings = Findings::default();
        findings.problem(&place, "is odd", "make it even");
        assert_eq!(findings.problems[0].to_string(), "a.toml:7: models.\"gpt-4.1\": is odd; make it even");
    }
}
