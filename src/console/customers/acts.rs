//! What is set for a customer. It is the same as over `/admin/customers/{id}/override`; who does it is who is logged in.

use super::super::Shared;
use super::super::gate::{Form, Visit};
use super::super::page::{Trouble, redirect};
use super::view::{Refused, page};
use super::{id, path};
use crate::admin::Fault;
use crate::admin::overrides::{self, CustomerOverride, Gift, GiftPeriod, OverrideDraft, OverrideWish};
use crate::domain::CustomerId;
use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::{Map, Value, json};

/// A number where one was typed, and else the text, of which the reader of the configuration says what is wrong.
pub(in crate::console) fn value(text: &str) -> Value {
    if let Ok(whole) = text.parse::<u64>() {
        return json!(whole);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

/// What is filled in: the field of the form, and the patch it makes.
fn filled(form: &Form) -> Vec<(&'static str, Map<String, Value>)> {
    let given = |name: &str| Some(form.get(name)).filter(|text| !text.is_empty());
    let mut all = Vec::new();
    let mut put = |field, patch: Value| {
        if let Value::Object(patch) = patch {
            all.push((field, patch));
        }
    };
    if let Some(plan) = given("plan") {
        put("plan", json!({ "plan": plan }));
    }
    for name in ["rpm", "tpm"] {
        if let Some(text) = given(name) {
            put(name, json!({ name: value(text) }));
        }
    }
    for (field, period) in [("spend_day", "day"), ("spend_month", "month")] {
        if let Some(text) = given(field) {
            put(field, json!({ "spend": { period: value(text) } }));
        }
    }
    match (given("rate"), given("burst")) {
        (Some(rate), None) => put("rate", json!({ "messages": rate })),
        (Some(rate), Some(burst)) => put("burst", json!({ "messages": { "rate": rate, "burst": value(burst) } })),
        _ => {}
    }
    all
}

pub(super) async fn set(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    if !form.get("burst").is_empty() && form.get("rate").is_empty() {
        let wrong = vec![("rate", "A burst needs its rate.".to_owned())];
        return page(&shared, &visit, &id, "", &Refused { typed: form, wrong }).await;
    }
    let (filled, lasts) = (filled(&form), form.get("for"));
    if filled.is_empty() && lasts.is_empty() {
        let wrong = vec![("plan", "Nothing is filled in.".to_owned())];
        return page(&shared, &visit, &id, "", &Refused { typed: form, wrong }).await;
    }
    let mut patch = Map::new();
    for (_, one) in &filled {
        join(&mut patch, one);
    }
    let set = patched(&shared, &visit, &id, patch, Some(lasts).filter(|lasts| !lasts.is_empty())).await;
    let wrong = match &set {
        Err(Fault::InvalidRequest(words)) if words.starts_with("`for`") => vec![("for", words.replace("`for`", "The time"))],
        Err(Fault::InvalidRequest(words)) => blame(&shared, &id, &filled, words).await,
        _ => Vec::new(),
    };
    if wrong.is_empty() {
        done(&id, set, "override")
    } else {
        page(&shared, &visit, &id, "", &Refused { typed: form, wrong }).await
    }
}

/// Which fields are wrong: those that would not do alone. If each would, the words stand at the first.
async fn blame(
    shared: &Shared,
    id: &CustomerId,
    filled: &[(&'static str, Map<String, Value>)],
    words: &str,
) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    for (field, patch) in filled {
        let draft = OverrideDraft { set: patch.clone() };
        if let Err(Fault::InvalidRequest(words)) = overrides::preview(&shared.gateway, id.as_str(), &draft).await {
            let rate = *field == "burst" && words.contains(".rate");
            wrong.push((if rate { "rate" } else { *field }, words));
        }
    }
    if wrong.is_empty() {
        wrong.push((filled.first().map_or("for", |(field, _)| *field), words.to_owned()));
    }
    wrong
}

/// Joins tables: two caps make one `spend`.
fn join(all: &mut Map<String, Value>, one: &Map<String, Value>) {
    for (key, value) in one {
        match (all.get_mut(key), value) {
            (Some(Value::Object(there)), Value::Object(more)) => there.extend(more.clone()),
            _ => drop(all.insert(key.clone(), value.clone())),
        }
    }
}

async fn patched(
    shared: &Shared,
    visit: &Visit,
    id: &CustomerId,
    set: Map<String, Value>,
    lasts: Option<&str>,
) -> Result<CustomerOverride, Fault> {
    let wish = OverrideWish { set, lasts: lasts.map(str::to_owned), version: None, by: visit.operator().to_owned() };
    overrides::set(&shared.gateway, id.as_str(), &wish, true).await
}

fn done(id: &CustomerId, acted: Result<CustomerOverride, Fault>, verb: &str) -> Result<Response, Trouble> {
    acted?;
    Ok(redirect(&format!("{}?done={verb}", path(id.as_str()))))
}

pub(super) async fn unset(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    let patch = Map::from_iter([(form.get("field").to_owned(), Value::Null)]);
    done(&id, patched(&shared, &visit, &id, patch, None).await, "unset")
}

pub(super) async fn suspend(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    let lasts = Some(form.get("suspend_for")).filter(|text| !text.is_empty());
    match overrides::suspend(&shared.gateway, id.as_str(), lasts, visit.operator()).await {
        Err(Fault::InvalidRequest(words)) => {
            let wrong = vec![("suspend_for", words.replace("`for`", "The time"))];
            page(&shared, &visit, &id, "", &Refused { typed: form, wrong }).await
        }
        acted => done(&id, acted, "suspend"),
    }
}

pub(super) async fn lift(State(shared): State<Shared>, visit: Visit, Path(path): Path<String>) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    done(&id, overrides::lift(&shared.gateway, id.as_str(), visit.operator()).await, "lift")
}

pub(super) async fn clear(State(shared): State<Shared>, visit: Visit, Path(path): Path<String>) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    done(&id, overrides::clear(&shared.gateway, id.as_str(), visit.operator()).await, "clear")
}

pub(super) async fn credit(
    State(shared): State<Shared>,
    visit: Visit,
    Path(path): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    let id = id(&shared, &path)?;
    let period = match form.get("period") {
        "week" => GiftPeriod::Week,
        "month" => GiftPeriod::Month,
        _ => GiftPeriod::Day,
    };
    // What is no number is no amount either.
    let dollars = form.get("dollars").parse().unwrap_or(0.0);
    let gift = Gift { period, dollars, by: visit.operator().to_owned() };
    match overrides::credit(&shared.gateway, id.as_str(), &gift).await {
        Err(Fault::InvalidRequest(words)) => {
            let wrong = vec![("dollars", words.replace("`dollars`", "The credit"))];
            page(&shared, &visit, &id, "", &Refused { typed: form, wrong }).await
        }
        acted => done(&id, acted, "credit"),
    }
}
