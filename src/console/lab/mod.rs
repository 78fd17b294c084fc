//! `/console/lab`: what would happen, for a tier and traffic that are typed in, and for the incidents that Tollgate was made for.
//!
//! ```text
//! form     the fields: read, checked, kept as typed
//! trial    from the fields to a scenario, and what it came to
//! presets  the scenarios of config/scenarios
//! shown    tables, sentences and drawings
//! turn     one run at a time, each for so long at most
//! ```
//!
//! Everything is decided by [`crate::lab`], under a virtual clock and apart from the limits of the running gateway: nothing that is tried
//! here is claimed of anybody.

mod form;
mod presets;
mod shown;
mod trial;
mod turn;

use super::Shared;
use super::gate::Visit;
use super::page::{Page, Section, address};
use super::parts::{choice, error_list, line};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use form::{Field, OWN, Typed};
use http::StatusCode;
use maud::{Markup, html};
use presets::Preset;
use trial::Trial;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/console/lab", get(show))
}

/// What came of it: the status of the page, and what stands on it.
type Came = (StatusCode, Markup);

async fn show(State(shared): State<Shared>, visit: Visit, request: Request) -> Response {
    let policy = shared.gateway.policy.load_full();
    let mut plans: Vec<&str> = policy.plans.keys().map(|name| &**name).collect();
    plans.sort_unstable();
    let typed = Typed::of(request.uri().query().unwrap_or_default());
    let mut wrong = Vec::new();
    let (status, came) = if let Some(name) = typed.preset() {
        preset(name).await
    } else if typed.is_sent() {
        match form::check(&typed, &plans) {
            Ok(wanted) => {
                let plan = wanted.plan.as_ref().and_then(|name| policy.plans.get(&**name).cloned());
                let trial = Trial { wanted, plan };
                turn::take(move || trial.play()).await
            }
            Err(found) => {
                wrong = found;
                (StatusCode::BAD_REQUEST, html! {})
            }
        }
    } else {
        (StatusCode::OK, html! {})
    };
    let page = Page { title: "Lab", section: Section::Lab, visit: &visit, refresh: 0 };
    let listed: Vec<(&str, &str)> = wrong.iter().map(|(field, words)| (field.name(), words.as_str())).collect();
    page.answer(
        status,
        &html! {
            (error_list(&listed))
            p { "What a customer would meet, played under a virtual clock. Nothing is sent to a provider, and nobody's limits are touched." }
            (came)
            h2 { "Try a tier" }
            (fields(&typed, &plans, &wrong))
            h2 { "Incidents" }
            p { "Each is played without Tollgate and with it, or side by side with what else might be done." }
            ul.presets {
                @for preset in &presets::ALL {
                    li { a.button href=(address("/console/lab", &[("preset", preset.name)])) { (preset.title()) } " " (preset.about()) }
                }
            }
        },
    )
}

async fn preset(name: &str) -> Came {
    match presets::ALL.iter().find(|preset| preset.name == name) {
        Some(preset) => match preset.known() {
            Some(shown) => (StatusCode::OK, shown),
            None => turn::take(|| Preset::played(preset)).await,
        },
        None => (StatusCode::NOT_FOUND, html! { p.alert role="alert" { "There is no such incident." } }),
    }
}

fn fields(typed: &Typed, plans: &[&str], wrong: &[(Field, String)]) -> Markup {
    let text = |field: Field| {
        let error = wrong.iter().find(|(at, _)| *at == field).map(|(_, words)| words.as_str());
        line(field.name(), field.label(), typed.get(field), field.hint(), error)
    };
    let mut tiers = vec![(OWN, "The numbers below")];
    tiers.extend(plans.iter().map(|plan| (*plan, *plan)));
    html! {
        form.lab method="get" action="/console/lab" {
            fieldset {
                legend { "Tier" }
                (choice(Field::Tier.name(), Field::Tier.label(), &tiers, typed.get(Field::Tier)))
                @if let Some((_, words)) = wrong.iter().find(|(at, _)| *at == Field::Tier) { p.error { (words) } }
                p.hint { "A plan of this gateway, as it stands, or the numbers here. What is left empty is not limited." }
                @for field in [Field::Messages, Field::Burst, Field::Rpm, Field::Tpm] { (text(field)) }
            }
            fieldset {
                legend { "Account at the provider" }
                p.hint { "The gateway fills 97 % of it. Tokens in and out count. What is left empty is not limited." }
                @for field in [Field::AccountRpm, Field::AccountTpm] { (text(field)) }
            }
            fieldset {
                legend { "Traffic of one customer" }
                (text(Field::Rate))
                (choice(Field::Shape.name(), Field::Shape.label(), &form::SHAPES, typed.get(Field::Shape)))
                @for field in [Field::Input, Field::Output, Field::Minutes] { (text(field)) }
            }
            button.main type="submit" { "Play it" }
        }
    }
}
