//! The Messages API. Anthropic publishes no tokenizer for its current models: text is counted by the nearest encoding, times the family's factor.

use super::{
    json::Json,
    tally::{Cost, Tally},
};

impl Tally {
    /// `system`: a string or a list of blocks.
    pub(crate) fn system(&mut self, system: &Json<'_>) {
        if !system.is_void() {
            self.message();
            self.content(system);
        }
    }

    /// One element of `messages`.
    pub(crate) fn anthropic_message(&mut self, message: &Json<'_>) {
        self.message();
        let Json::Object(members) = message else { return self.anything(message) };
        for (key, value) in members {
            match (&**key, value) {
                ("role", Json::Text(role)) => self.text(role),
                _ => self.member(key, value),
            }
        }
    }

    /// `tools`: each counts as its JSON; built-in ones bring instructions of their own.
    pub(crate) fn anthropic_tools(&mut self, tools: &Json<'_>) {
        if tools.is_void() {
            return;
        }
        self.count.tools = true;
        let list = match tools {
            Json::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        for tool in list {
            self.rendered(tool);
            self.scaled(0, 16);
            self.fixed(Cost::exact(self.built_in(tool.str_of("type"))));
        }
    }

    /// What a built-in tool adds to its definition. Types end in the date of their version.
    fn built_in(&self, kind: &str) -> u64 {
        let known = [
            ("bash_", self.family.bash_tool),
            ("text_editor_", 700),
            ("computer_toolset_", 4_500),
            ("computer_", 735),
            ("browser_toolset", 6_600),
        ];
        known.into_iter().find(|(prefix, _)| kind.starts_with(prefix)).map_or(0, |(_, tokens)| tokens)
    }
}
