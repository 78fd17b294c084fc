//! Just enough Markdown: fenced blocks, tables, links, code in backticks.

use super::child::ROOT;
use std::fs;
use std::path::PathBuf;

/// The documents whose blocks, tables and links are checked.
pub fn documents() -> Vec<(String, String)> {
    let mut paths = vec![PathBuf::from("README.md")];
    let docs = fs::read_dir(format!("{ROOT}/docs")).expect("docs/").map(|entry| entry.expect("an entry").path());
    paths.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(PathBuf::from(ROOT).join(&path)).expect("readable");
        (path.strip_prefix(ROOT).unwrap_or(&path).display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

/// One document.
pub fn document(name: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{name}")).expect(name)
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The file and line of its first line.
    pub at: String,
    /// The word after the fence.
    pub language: String,
    /// What stands in it.
    pub text: String,
}

/// All blocks of all documents.
pub fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (name, text) in documents() {
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(language) if !inside => {
                    let (at, language) = (format!("{name}:{}", number + 2), language.to_owned());
                    blocks.push(Block { at, language, text: String::new() });
                    inside = true;
                }
                Some(_) => inside = false,
                None if inside => {
                    let block = blocks.last_mut().expect("pushed above");
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None => {}
            }
        }
        assert!(!inside, "{name}: a block does not end");
    }
    blocks
}

/// The blocks of one language.
pub fn blocks_of(language: &str) -> Vec<Block> {
    blocks().into_iter().filter(|block| block.language == language).collect()
}

/// The cells of every table row below `heading` and above the next one; header rows and rules included.
pub fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
    assert!(lines.next().is_some(), "there is a heading {heading:?}");
    let section = lines.take_while(|line| !line.starts_with('#'));
    let table = section.filter(|line| line.starts_with('|'));
    table.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands in backticks.
pub fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
