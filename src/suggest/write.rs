//! A proposal as a table, and as a piece of the configuration.

use super::{Figure, Limit, PlanProposal, Proposal};
use std::io::{self, Write};

/// Nano-dollars as dollars, to the hundredth of a cent.
#[must_use]
pub fn dollars(nano: u64) -> String {
    let units = nano.div_ceil(100_000);
    let text = format!("{}.{:04}", units / 10_000, units % 10_000);
    let cut = text.strip_suffix("00").unwrap_or(&text);
    format!("${cut}")
}

fn amount(limit: Limit, value: u64) -> String {
    if limit.is_money() { dollars(value) } else { value.to_string() }
}

/// The table.
///
/// # Errors
/// When it cannot be written.
pub fn table(proposal: &Proposal, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Use from {} to {}, days of UTC", proposal.from, proposal.to)?;
    for plan in &proposal.plans {
        writeln!(
            out,
            "\nplan {}: {} customers, {} days, {} days of customers",
            plan.plan, plan.customers, plan.days, plan.customer_days
        )?;
        if let Some(why) = &plan.refused {
            writeln!(out, "  nothing is proposed: {why}")?;
        }
        if !plan.figures.is_empty() {
            writeln!(out, "  {:<12} {:>14} {:>14} {:>7}  would have refused", "limit", "proposed", "from", "of")?;
        }
        for figure in &plan.figures {
            row(figure, figure.limit.as_str(), out)?;
        }
        plan.remarks.iter().try_for_each(|remark| writeln!(out, "  note: {remark}"))?;
    }
    match &proposal.gateway_day {
        Some(figure) => {
            writeln!(out, "\nwhole gateway")?;
            row(figure, "spend.day", out)
        }
        None => writeln!(out, "\nwhole gateway: nothing is proposed, for lack of days with cost"),
    }
}

fn row(figure: &Figure, name: &str, out: &mut impl Write) -> io::Result<()> {
    let Figure { limit, value, basis, observations, how, refused } = figure;
    let refused = match refused {
        none if none.periods == 0 => "nothing".to_owned(),
        some if some.customers == 0 => format!("something on {} days", some.periods),
        some => {
            let measure = if limit.is_money() || *limit == Limit::Tpm { "about" } else { "at least" };
            format!(
                "{measure} {} requests of {} customers in {} periods: {}",
                some.requests,
                some.customers,
                some.periods,
                some.ids.join(" ")
            )
        }
    };
    let (value, basis) = (amount(*limit, *value), amount(*limit, *basis));
    writeln!(out, "  {name:<12} {value:>14} {basis:>14} {observations:>7}  {refused}")?;
    writeln!(out, "  {:<12} {how}", "")
}

/// The piece of configuration, which `tollgate check` takes.
///
/// # Errors
/// When it cannot be written.
pub fn toml(proposal: &Proposal, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# Proposed from the use of {} to {}. Each figure: what it was made from, and of how much.",
        proposal.from, proposal.to
    )?;
    for plan in &proposal.plans {
        plan_toml(plan, out)?;
    }
    if let Some(figure) = &proposal.gateway_day {
        writeln!(out, "\n[gateway]\nspend = {{ day = {} }}   # {}", number(figure), comment(figure))?;
    }
    Ok(())
}

fn plan_toml(plan: &PlanProposal, out: &mut impl Write) -> io::Result<()> {
    if let Some(why) = &plan.refused {
        return writeln!(out, "\n# Nothing for the plan {}: {why}", quoted(&plan.plan));
    }
    writeln!(out, "\n[plans.{}]", quoted(&plan.plan))?;
    let find = |limit| plan.figures.iter().find(|figure| figure.limit == limit);
    if let Some(figure) = find(Limit::Messages) {
        let n = figure.value;
        writeln!(out, "messages = {{ rate = \"{n}/m\", burst = {n} }}   # {}", comment(figure))?;
    }
    for limit in [Limit::Rpm, Limit::Tpm] {
        if let Some(figure) = find(limit) {
            writeln!(out, "{} = {}   # {}", limit.as_str(), figure.value, comment(figure))?;
        }
    }
    let caps: Vec<_> = [(Limit::SpendDay, "day"), (Limit::SpendMonth, "month")]
        .into_iter()
        .filter_map(|(limit, key)| find(limit).map(|figure| (key, figure)))
        .collect();
    if caps.is_empty() {
        return Ok(());
    }
    for (key, figure) in &caps {
        writeln!(out, "# {key}: {}", comment(figure))?;
    }
    let caps: Vec<_> = caps.iter().map(|(key, figure)| format!("{key} = {}", number(figure))).collect();
    writeln!(out, "spend = {{ {} }}", caps.join(", "))
}

fn comment(figure: &Figure) -> String {
    format!("{} (of {})", figure.how, figure.observations)
}

/// Dollars as the configuration writes them; caps are whole cents.
fn number(figure: &Figure) -> String {
    let cents = figure.value.div_ceil(10_000_000);
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// A key of TOML, quoted where it has to be.
fn quoted(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}
