//! Models: fallbacks that end, lead somewhere cheaper to reach and have a price.

use super::Compiler;
use crate::config::file::File;
use crate::config::policy::{Fallback, Model, Pool, Unpriced};
use crate::config::prices;
use crate::config::read::At;
use crate::config::value::matches;
use crate::pricing::PriceTable;
use std::collections::HashMap;
use std::sync::Arc;

/// Compiles `[models.*]` and checks what refers to them.
pub fn models(
    c: &mut Compiler<'_>,
    file: &File,
    pools: &[Arc<Pool>],
    table: &PriceTable,
    unpriced: Unpriced,
) -> HashMap<Arc<str>, Model> {
    let mut models = HashMap::new();
    for (name, model) in file.models.iter().flat_map(|models| &models.0) {
        if name.value.contains('*') {
            c.findings.problem(
                &name.place,
                "a model's table takes its exact name, without `*`",
                "write a pool for a pattern of models",
            );
        }
        if let Some(fallback) = &model.fallback {
            check_fallback(c, file, pools, &name.value, fallback);
            if unpriced == Unpriced::Refuse && !prices::is_priced(table, &fallback.value) {
                let reason = format!("the fallback {:?} has no price, so it would be refused", fallback.value);
                c.findings.problem(
                    &fallback.place,
                    reason,
                    format!("write [models.{:?}] price = {{ input = .., output = .. }}", fallback.value),
                );
            }
        }
        if unpriced == Unpriced::Refuse && !prices::is_priced(table, &name.value) && model.price.is_none() {
            warn_unpriced(c, name, &name.value);
        }
        models.insert(
            name.value.as_str().into(),
            Model {
                fallback: model
                    .fallback
                    .as_ref()
                    .map(|at| Arc::new(Fallback { model: at.value.as_str().into(), system: None, other_provider: false })),
                output_floor: model.output_floor,
                max_output_tokens: model.max_output_tokens,
            },
        );
    }
    if unpriced == Unpriced::Refuse {
        for pattern in
            file.pools.iter().flat_map(|pools| &pools.0).flat_map(|(_, pool)| pool.models.iter()).flat_map(|at| &at.value)
        {
            if !pattern.0.ends_with('*') && !prices::is_priced(table, &pattern.0) {
                warn_unpriced(c, pattern, &pattern.0);
            }
        }
    }
    models
}

fn warn_unpriced<T>(c: &mut Compiler<'_>, at: &At<T>, model: &str) {
    c.findings.warn(
        &at.place,
        format!("the model {model:?} has no price, so its requests are refused (model_not_priced)"),
        "write its price, name a price file, or set pricing.unpriced = \"free\"",
    );
}

/// A request falls back once, and to a model that an upstream of the same dialect serves.
fn check_fallback(c: &mut Compiler<'_>, file: &File, pools: &[Arc<Pool>], model: &str, fallback: &At<String>) {
    let next = |name: &str| file.models.as_ref()?.get(name)?.fallback.as_ref().map(|at| at.value.as_str());
    let target = fallback.value.as_str();
    if target == model {
        c.findings.problem(&fallback.place, "is the model itself", "name another, cheaper model, or leave it out");
        return;
    }
    if let Some(further) = next(target) {
        let mut path = vec![model, target, further];
        while let Some(after) = next(path[path.len() - 1]).filter(|_| !path[..path.len() - 1].contains(&path[path.len() - 1])) {
            path.push(after);
        }
        let loops = path[..path.len() - 1].contains(&path[path.len() - 1]);
        let reason = format!("{} ({})", if loops { "falls back in a circle" } else { "is a chain" }, path.join(" -> "));
        c.findings.problem(&fallback.place, reason, "a request falls back once; name a model without a fallback of its own");
    }
    let dialect =
        |name: &str| pools.iter().find(|pool| pool.models.iter().any(|p| matches(p, name))).map(|pool| pool.upstream.dialect);
    if let (Some(own), Some(other)) = (dialect(model), dialect(target))
        && own != other
    {
        c.findings.problem(
            &fallback.place,
            "is served in another dialect, and nothing is translated",
            "name a model of the same dialect",
        );
    }
}
