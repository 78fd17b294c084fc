//! Tool and function definitions.
//!
//! OpenAI shows functions to the model in its own notation. A published formula reproduces its cost exactly for flat parameter lists; for what the formula
//! does not know (nested objects, array items, unions, defaults) the larger of formula and compact JSON is taken, which is never far below the truth.

use super::{json::Json, tally::Tally};

/// Once, where there are functions.
const FUNCTIONS_END: u64 = 12;
/// Where a function has parameters, and for each of them.
const PARAMETERS: u64 = 3;
const PARAMETER: u64 = 3;
/// For each value of an `enum`, after 3 less for the list.
const ENUM_ITEM: u64 = 3;
const ENUM_LESS: u64 = 3;
/// Naming the function that must be called; forbidding all of them costs 1.
const NAMED_CHOICE: u64 = 7;

/// Bound for the notation around each tool, and around the list.
const TOOL_BOUND: u64 = 16;

impl Tally {
    /// `tools` of Chat Completions and Responses, and `functions`: all three hold functions, with or without a wrapper.
    pub(crate) fn openai_tools(&mut self, tools: &Json<'_>) {
        let list = match tools {
            Json::Array(list) => list.as_slice(),
            Json::Null => &[],
            one => std::slice::from_ref(one),
        };
        if list.is_empty() {
            return;
        }
        self.count.tools = true;
        self.scaled(FUNCTIONS_END, TOOL_BOUND);
        for tool in list {
            let json = tool.render();
            let as_json = || self.family.encoding.count(&json);
            let best = match self.formula(tool.get("function").unwrap_or(tool)) {
                Some(Formula { tokens, complete: true }) if is_function(tool) => tokens,
                Some(Formula { tokens, .. }) => tokens.max(as_json()),
                None => as_json(),
            };
            self.scaled(best, json.len() as u64 + TOOL_BOUND);
        }
    }

    /// `tool_choice`.
    pub(crate) fn tool_choice(&mut self, choice: &Json<'_>) {
        match choice {
            Json::Text(word) => self.scaled(u64::from(word == "none"), 16),
            Json::Object(_) => {
                self.count.forced = matches!(choice.str_of("type"), "any" | "tool");
                if self.count.forced {
                    return self.aside(choice); // Anthropic's prompt for it is added with the request
                }
                let inner = choice.get("function").or_else(|| choice.get("custom")).unwrap_or(choice);
                match inner.get("name").and_then(Json::as_str) {
                    Some(name) => {
                        self.text(name);
                        self.scaled(NAMED_CHOICE, 16);
                    }
                    None => self.rendered(choice),
                }
            }
            _ => {}
        }
    }

    /// The published formula for one function; None where there is no named function.
    fn formula(&self, function: &Json<'_>) -> Option<Formula> {
        let count = |text: String| self.family.encoding.count(&text);
        let name = function.get("name")?.as_str()?;
        let mut tokens = self.family.per_function + count(format!("{name}:{}", described(function)));
        let mut complete = only(function, &["name", "description", "parameters", "strict", "type"]);
        if let Some(parameters) = function.get("parameters").filter(|parameters| !parameters.is_void()) {
            complete &= only(parameters, &["type", "properties", "required", "additionalProperties", "$schema"])
                && !matches!(parameters.get("additionalProperties"), Some(Json::Object(_)));
            let properties = match parameters.get("properties") {
                Some(Json::Object(properties)) => properties.as_slice(),
                Some(_) => {
                    complete = false;
                    &[]
                }
                None => &[],
            };
            if !properties.is_empty() {
                tokens += PARAMETERS;
            }
            for (key, property) in properties {
                complete &= only(property, &["type", "description", "enum"])
                    && !matches!(property.str_of("type"), "" | "object" | "array");
                tokens += PARAMETER + count(format!("{key}:{}:{}", property.str_of("type"), described(property)));
                match property.get("enum") {
                    Some(Json::Array(values)) => {
                        let text = |value: &Json<'_>| value.as_str().map_or_else(|| value.render(), str::to_owned);
                        let items: u64 = values.iter().map(|value| ENUM_ITEM + count(text(value))).sum();
                        tokens += items.saturating_sub(ENUM_LESS);
                    }
                    Some(_) => complete = false,
                    None => {}
                }
            }
        }
        Some(Formula { tokens, complete })
    }
}

/// What the formula says of a function.
struct Formula {
    tokens: u64,
    /// Whether the formula knows everything in it.
    complete: bool,
}

/// The description without a final full stop, as the provider shows it.
fn described<'j>(json: &'j Json<'_>) -> &'j str {
    let description = json.str_of("description");
    description.strip_suffix('.').unwrap_or(description)
}

/// Whether an object has no other members than these, and none of them twice.
fn only(json: &Json<'_>, known: &[&str]) -> bool {
    match json {
        Json::Object(members) => {
            members.len() <= known.len()
                && members
                    .iter()
                    .enumerate()
                    .all(|(n, (key, _))| known.contains(&&**key) && members[..n].iter().all(|(earlier, _)| earlier != key))
        }
        _ => false,
    }
}

/// Whether the tool is a function in one of its two shapes, with nothing beside it.
fn is_function(tool: &Json<'_>) -> bool {
    matches!(tool.str_of("type"), "function" | "") && (tool.get("function").is_none() || only(tool, &["type", "function"]))
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::*;
    use crate::wire::Api;

    const WEATHER: &str = r#"[{"type":"function","function":{"name":"get_current_weather","description":"Get the current weather in a given location",
        "parameters":{"type":"object","properties":{
            "location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"},
            "unit":{"type":"string","description":"The unit of temperature to return","enum":["celsius","fahrenheit"]}},
        "required":["location"]}}}]"#;

    fn tools(model: &str, json: &str) -> (u64, u64) {
        let mut tally = Tally::new(Family::of(model, Api::Chat));
        tally.openai_tools(&Json::parse(json.as_bytes()).expect("valid JSON"));
        (tally.count.tokens, tally.count.upper)
    }

    /// The same function with one more member in its only property.
    fn with(extra: &str) -> String {
        format!(
            r#"[{{"type":"function","function":{{"name":"f","description":"d.","parameters":{{"type":"object","properties":{{"p":{{"type":"string"{extra}}}}}}}}}}}]"#
        )
    }

    #[test]
    fn flat_functions_cost_what_the_formula_says_in_each_shape() {
        // 101 and 105 with the sample's two messages, which are 16 + 13 + 3 with their framing.
        let flat = WEATHER.replace(r#"{"type":"function","function":{"#, r#"{"type":"function","#).replace("}}}]", "}}]");
        let functions = WEATHER.replace(r#"{"type":"function","function":{"#, "{").replace("}}}]", "}}]");
        for shape in [WEATHER, &flat, &functions] {
            assert_eq!(tools("gpt-4o", shape).0, tools("gpt-4o", WEATHER).0, "{shape}");
            assert_eq!(tools("gpt-4", shape).0, tools("gpt-4", WEATHER).0, "{shape}");
        }
        // init 7 + "f:d" 2 or 3 + properties 3 + property 3 + "p:string:" + end 12
        let encoding = Family::of("gpt-4o", Api::Chat).encoding;
        assert_eq!(tools("gpt-4o", &with("")).0, 7 + encoding.count("f:d") + 3 + 3 + encoding.count("p:string:") + 12);
    }

    #[test]
    fn what_the_formula_ignores_still_costs() {
        let long = "lorem ipsum dolor sit amet ".repeat(400);
        for extra in [
            format!(r#","default":"{long}""#),
            format!(r#","title":"{long}""#),
            format!(r#","items":{{"description":"{long}"}}"#),
            format!(r#","properties":{{"q":{{"description":"{long}"}}}}"#),
            format!(r#","anyOf":[{{"description":"{long}"}}]"#),
            format!(r#","enum":["{long}"]"#),
            format!(r#","description":"{long}""#),
            format!(r#","type":"{long}""#),
        ] {
            let (best, upper) = tools("gpt-4o", &with(&extra));
            assert!(best >= 1_900, "{best} for {extra:.20}");
            assert!(upper >= long.len() as u64);
        }
        let beside = format!(r#"[{{"type":"function","function":{{"name":"f"}},"more":"{long}"}}]"#);
        let custom = format!(r#"[{{"type":"custom","name":"f","format":{{"type":"grammar","definition":"{long}"}}}}]"#);
        let unnamed = format!(r#"[{{"type":"mcp","server_url":"{long}"}}]"#);
        for json in [beside, custom, unnamed] {
            assert!(tools("gpt-4o", &json).0 >= 1_900, "{json:.40}");
        }
    }

    #[test]
    fn no_tools_cost_nothing() {
        assert_eq!(tools("gpt-4o", "[]"), (0, 0));
        assert_eq!(tools("gpt-4o", "null"), (0, 0));
    }

    #[test]
    fn a_choice_costs_a_few_tokens() {
        for (json, tokens) in [
            (r#""auto""#, 0),
            (r#""none""#, 1),
            (r#""required""#, 0),
            ("null", 0),
            (r#"{"type":"function","function":{"name":"hello"}}"#, 8),
            (r#"{"type":"function","name":"hello"}"#, 8),
            (r#"{"name":"hello"}"#, 8),
            (r#"{"type":"tool","name":"hello"}"#, 0),
        ] {
            let mut tally = Tally::new(Family::of("gpt-4o", Api::Chat));
            tally.tool_choice(&Json::parse(json.as_bytes()).expect("valid JSON"));
            assert_eq!(tally.count.tokens, tokens, "{json}");
        }
    }
}
