//! Fallbacks: they end, stay in the model's dialect, have a price, and are cheaper, or somebody is told that they are not.

use super::Compiler;
use crate::config::choice::AuthMode;
use crate::config::file::{self, File};
use crate::config::policy::{Fallback, Pool, Unpriced};
use crate::config::prices;
use crate::config::read::{At, Known as _};
use crate::config::value::matches;
use crate::pricing::PriceTable;
use std::sync::Arc;

/// The longest system prompt of a fallback, bytes. It is sent with every request that falls back.
const MAX_SYSTEM: usize = 64 << 10;

/// What the checks look things up in.
pub struct Around<'a> {
    /// The whole file.
    pub file: &'a File,
    /// The pools, compiled.
    pub pools: &'a [Arc<Pool>],
    /// All prices.
    pub prices: &'a PriceTable,
    /// What happens to models without one.
    pub unpriced: Unpriced,
    /// Whose credential goes to the provider.
    pub mode: AuthMode,
}

/// The fallback of a model, checked.
pub fn fallback(c: &mut Compiler<'_>, around: &Around<'_>, model: &str, written: &file::Fallback) -> Option<Arc<Fallback>> {
    let at = written.0.model.as_ref()?;
    check_path(c, around.file, model, at);
    check_served(c, around, model, written, at);
    check_price(c, around, model, at);
    let allowed = around.file.classes.iter().flat_map(|classes| &classes.0).any(|(_, class)| class.fallback == Some(true));
    if !allowed {
        let advice = "write [classes.NAME] fallback = true, and send X-Request-Class: NAME with requests of that kind";
        c.findings.warn(written.0.place(), "never answers: no class allows a fallback", advice);
    }
    let system = written.0.system.as_ref();
    if let Some(system) = system.filter(|system| system.value.len() > MAX_SYSTEM) {
        let reason = format!("is {} bytes long", system.value.len());
        c.findings.problem(&system.place, reason, format!("write at most {MAX_SYSTEM}"));
    }
    Some(Arc::new(Fallback {
        model: at.value.as_str().into(),
        system: system.map(|system| system.value.as_str().into()),
        other_provider: written.0.other_provider.as_ref().is_some_and(|at| at.value),
    }))
}

/// A request falls back once.
fn check_path(c: &mut Compiler<'_>, file: &File, model: &str, at: &At<String>) {
    let next = |name: &str| {
        let fallback = file.models.as_ref()?.get(name)?.fallback.as_ref()?;
        fallback.0.model.as_ref().map(|at| at.value.as_str())
    };
    let target = at.value.as_str();
    if target == model {
        c.findings.problem(&at.place, "is the model itself", "name another, cheaper model, or leave it out");
        return;
    }
    if let Some(further) = next(target) {
        let mut path = vec![model, target, further];
        while let Some(after) = next(path[path.len() - 1]).filter(|_| !path[..path.len() - 1].contains(&path[path.len() - 1])) {
            path.push(after);
        }
        let loops = path[..path.len() - 1].contains(&path[path.len() - 1]);
        let reason = format!("{} ({})", if loops { "falls back in a circle" } else { "is a chain" }, path.join(" -> "));
        c.findings.problem(&at.place, reason, "a request falls back once; name a model without a fallback of its own");
    }
}

/// Nothing is translated, and nothing goes to another provider unless that was meant. Models in no pool go to the upstream of their
/// route's dialect, which only a request knows.
fn check_served(c: &mut Compiler<'_>, around: &Around<'_>, model: &str, written: &file::Fallback, at: &At<String>) {
    let upstream = |name: &str| {
        let pool = around.pools.iter().find(|pool| pool.models.iter().any(|pattern| matches(pattern, name)))?;
        Some(&pool.upstream)
    };
    let may_leave = written.0.other_provider.as_ref().filter(|at| at.value);
    if let (Some(own), Some(other)) = (upstream(model), upstream(at.value.as_str())) {
        if own.dialect != other.dialect {
            let advice = "name a model of the same dialect";
            c.findings.problem(&at.place, "is served in another dialect, and nothing is translated", advice);
        } else if own.name != other.name && may_leave.is_none() {
            let reason = format!("is served by another upstream ({:?}), so it never answers", other.name);
            c.findings.warn(
                &at.place,
                reason,
                "write other_provider = true if requests marked free of personal data may go there",
            );
        }
    }
    if let Some(at) = may_leave.filter(|_| around.mode == AuthMode::Passthrough) {
        let reason = "has no effect in passthrough mode: a caller's key is never shown to another upstream";
        c.findings.warn(&at.place, reason, "use gateway keys, with api_key in both upstreams");
    }
}

fn check_price(c: &mut Compiler<'_>, around: &Around<'_>, model: &str, at: &At<String>) {
    if around.unpriced == Unpriced::Refuse && !prices::is_priced(around.prices, &at.value) {
        let reason = format!("the fallback {:?} has no price, so it would be refused", at.value);
        let advice = format!("write [models.{:?}] price = {{ input = .., output = .. }}", at.value);
        c.findings.problem(&at.place, reason, advice);
    }
    let (Some(own), Some(other)) = (around.prices.get(model), around.prices.get(&at.value)) else { return };
    let (own, other) = (own.rates(), other.rates());
    let dearer = [("input", own.input, other.input), ("output", own.output, other.output)];
    let dearer: Vec<&str> = dearer.iter().filter(|(_, own, other)| other > own).map(|(what, ..)| *what).collect();
    if !dearer.is_empty() {
        let reason = format!("is dearer than {model:?} ({}), so it saves nothing when dollars run out", dearer.join(" and "));
        c.findings.warn(&at.place, reason, "name a cheaper model");
    }
}
