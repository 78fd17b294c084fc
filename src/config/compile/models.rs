//! Models: their fallbacks, floors and lengths, and a word about those without a price.

use super::Compiler;
use super::fallbacks::{Around, fallback};
use crate::config::policy::{Model, Unpriced};
use crate::config::prices;
use crate::config::read::At;
use foldhash::HashMap;
use std::sync::Arc;

/// Compiles `[models.*]` and checks what refers to them.
pub fn models(c: &mut Compiler<'_>, around: &Around<'_>) -> HashMap<Arc<str>, Model> {
    let Around { file, prices: table, unpriced, .. } = *around;
    let mut models = HashMap::default();
    for (name, model) in file.models.iter().flat_map(|models| &models.0) {
        if name.value.contains('*') {
            c.findings.problem(
                &name.place,
                "a model's table takes its exact name, without `*`",
                "write a pool for a pattern of models",
            );
        }
        if unpriced == Unpriced::Refuse && !prices::is_priced(table, &name.value) && model.price.is_none() {
            warn_unpriced(c, name, &name.value);
        }
        models.insert(
            name.value.as_str().into(),
            Model {
                fallback: model.fallback.as_ref().and_then(|written| fallback(c, around, &name.value, written)),
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
