//! Exports with a line of column names: comma or tab between them.

use super::super::money::decimal;
use super::{Export, Provider, Sums, Theirs, Unreadable, day_of, model_of, other_currency};
use csv::StringRecord;

/// How much of an unknown heading is repeated, characters.
const REPEATED: usize = 120;

/// The columns of a sheet.
struct Columns(StringRecord);

impl Columns {
    fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.0.iter().any(|column| column == *name))
    }
}

/// One line.
struct Line<'a> {
    columns: &'a Columns,
    record: &'a StringRecord,
    number: u64,
}

impl Line<'_> {
    fn place(&self) -> String {
        format!("line {}", self.number)
    }

    /// A cell; `None` where the column is missing or the cell is empty.
    fn cell(&self, name: &str) -> Option<&str> {
        let at = self.columns.0.iter().position(|column| column == name)?;
        self.record.get(at).map(str::trim).filter(|cell| !cell.is_empty())
    }

    fn text(&self, name: &str) -> String {
        self.cell(name).unwrap_or_default().to_owned()
    }

    fn wrong(&self, name: &str, what: &str) -> Unreadable {
        let reason = format!("{name} is {:?}, which is no {what}", self.cell(name).unwrap_or_default());
        Unreadable::Damaged { place: self.place(), reason }
    }

    fn day(&self, names: &[&str]) -> Result<crate::history::Day, Unreadable> {
        let name = names.iter().find(|name| self.cell(name).is_some()).copied().unwrap_or(names[0]);
        self.cell(name).and_then(day_of).ok_or_else(|| self.wrong(name, "day"))
    }

    /// A count; absent where there is no such column, zero where the cell is empty.
    fn count(&self, name: &str) -> Result<Option<u64>, Unreadable> {
        if !self.columns.has(&[name]) {
            return Ok(None);
        }
        let Some(cell) = self.cell(name) else { return Ok(Some(0)) };
        // Some spreadsheets write counts as decimals.
        decimal(cell, 0).map(Some).ok_or_else(|| self.wrong(name, "count"))
    }

    /// Dollars in nano-dollars; `None` where there are none, or a credit.
    fn dollars(&self, name: &str) -> Result<Option<u64>, Unreadable> {
        match self.cell(name) {
            None => Ok(None),
            Some(credit) if credit.starts_with('-') => Ok(None),
            Some(cell) => decimal(cell, 9).map(Some).ok_or_else(|| self.wrong(name, "amount of dollars")),
        }
    }
}

type Row = fn(&Line<'_>) -> Result<Option<Theirs>, Unreadable>;

/// The known sheets: the columns that tell them, and how a line of them is read.
const KNOWN: [(Provider, &[&str], Row); 5] = [
    (Provider::OpenAi, &["num_model_requests", "input_tokens", "output_tokens"], openai_usage),
    (Provider::OpenAi, &["amount_value", "line_item"], openai_cost),
    (Provider::Anthropic, &["usage_date_utc", "model_version", "usage_input_tokens_no_cache"], anthropic_usage),
    (Provider::Anthropic, &["usage_date_utc", "model", "cost_usd"], anthropic_cost),
    // Embeddings have no output.
    (Provider::OpenAi, &["num_model_requests", "input_tokens"], openai_usage),
];

pub(super) fn read(text: &str) -> Result<Export, Unreadable> {
    let heading = text.lines().next().unwrap_or_default();
    let delimiter = if heading.contains('\t') { b'\t' } else { b',' };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let damaged = |error: &csv::Error| Unreadable::Damaged {
        place: error.position().map_or_else(|| "the sheet".to_owned(), |at| format!("line {}", at.line())),
        reason: "it cannot be read as a sheet".to_owned(),
    };
    let columns = reader.headers().map_err(|error| damaged(&error))?.clone();
    let columns = Columns(columns.iter().map(|name| name.trim().to_ascii_lowercase()).collect());
    let Some((provider, _, row)) = KNOWN.iter().find(|(_, names, _)| columns.has(names)) else {
        return Err(Unreadable::Unknown(format!("its columns are {:?}", heading.chars().take(REPEATED).collect::<String>())));
    };
    let (mut sums, mut credits) = (Sums::default(), 0);
    for record in reader.records() {
        let record = record.map_err(|error| damaged(&error))?;
        let number = record.position().map_or(0, csv::Position::line);
        match row(&Line { columns: &columns, record: &record, number })? {
            Some(theirs) => sums.add(theirs),
            None => credits += 1,
        }
    }
    let remarks = (credits > 0).then(|| format!("{credits} lines without use or amount, or with a credit, were passed over"));
    Ok(sums.export(*provider, remarks.into_iter().collect()))
}

const OPENAI_DAY: [&str; 2] = ["start_time_iso", "start_time"];

fn openai_usage(line: &Line<'_>) -> Result<Option<Theirs>, Unreadable> {
    let requests = line.count("num_model_requests")?.unwrap_or(0);
    // A bucket without use has a line without anything else.
    if line.cell("model").is_none() && requests == 0 {
        return Ok(None);
    }
    let batch = line.cell("batch").is_some_and(|batch| batch.eq_ignore_ascii_case("true"));
    Ok(Some(Theirs {
        day: line.day(&OPENAI_DAY)?,
        model: line.text("model"),
        requests: Some(requests),
        input: line.count("input_tokens")?,
        cached: line.count("input_cached_tokens")?,
        output: line.count("output_tokens")?,
        cost: None,
        batch: if batch { requests } else { 0 },
    }))
}

fn openai_cost(line: &Line<'_>) -> Result<Option<Theirs>, Unreadable> {
    if let Some(currency) = line.cell("amount_currency").filter(|currency| !currency.eq_ignore_ascii_case("usd")) {
        return Err(other_currency(&line.place(), currency));
    }
    let Some(cost) = line.dollars("amount_value")? else { return Ok(None) };
    let item = line.text("line_item");
    let batch = if item.contains("batch") { cost } else { 0 };
    Ok(Some(Theirs { day: line.day(&OPENAI_DAY)?, model: model_of(&item), cost: Some(cost), batch, ..Theirs::default() }))
}

fn anthropic_usage(line: &Line<'_>) -> Result<Option<Theirs>, Unreadable> {
    let mut input = 0_u64;
    for column in ["no_cache", "cache_write", "cache_write_5m", "cache_write_1h", "cache_read"] {
        input = input.saturating_add(line.count(&format!("usage_input_tokens_{column}"))?.unwrap_or(0));
    }
    let batch = line.cell("usage_type").is_some_and(|kind| kind.to_ascii_lowercase().contains("batch"));
    Ok(Some(Theirs {
        day: line.day(&["usage_date_utc"])?,
        model: line.text("model_version"),
        requests: None,
        input: Some(input),
        cached: line.count("usage_input_tokens_cache_read")?,
        output: line.count("usage_output_tokens")?,
        cost: None,
        batch: if batch { input } else { 0 },
    }))
}

fn anthropic_cost(line: &Line<'_>) -> Result<Option<Theirs>, Unreadable> {
    let Some(cost) = line.dollars("cost_usd")? else { return Ok(None) };
    let batch = line.cell("usage_type").is_some_and(|kind| kind.to_ascii_lowercase().contains("batch"));
    Ok(Some(Theirs {
        day: line.day(&["usage_date_utc"])?,
        model: line.text("model"),
        cost: Some(cost),
        batch: if batch { cost } else { 0 },
        ..Theirs::default()
    }))
}
