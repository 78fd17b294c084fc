//! Series in Redis: any number of gateways add to the same rows, each of their batches once.
//!
//! The rows of a day lie in 64 shards by their id, each under a tag of its own, so that a cluster shares them and one script adds to
//! many at once (`lua/series_add.lua`). The order of a day's rows is a sorted set under the day's own tag, told the sums after they are
//! made: a gateway that dies in between leaves a row that stands too low, until somebody adds to it again. Its scores are doubles, exact
//! up to 2^53 nano-dollars.

use super::documents::RedisDocuments;
use super::slots;
use crate::store::StoreError;
use crate::store::series::{Addition, Batch, Kind, MAX_ROWS, RANK, Ranking, Row, RowKey, Scanned, Series, last_day};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::{Cmd, Value};
use std::collections::BTreeMap;

/// Shards of a day. It can never change: it is in the names of the keys.
const SHARDS: u16 = 64;
/// Rows in one call of the script: so long may another call wait for it, some hundreds of microseconds.
const ROWS_PER_CALL: usize = 32;
/// Calls for one shard of one batch at most; see `add_batch`.
const MOST_PARTS: u64 = 1 << 20;
/// Calls of the script in one round trip.
const CALLS_PER_TRIP: usize = 32;
/// Rows read in one round trip.
const READS_PER_TRIP: usize = 256;
/// How long it is remembered which batches were added, and minutes of peaks, seconds.
const REMEMBERED: u32 = 86_400;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Where a row lies.
fn shard(key: &RowKey) -> String {
    format!("{{h:{}:{:02x}}}", key.day, slots::part_of(&key.id) % SHARDS)
}

fn row_key(key: &RowKey) -> String {
    format!("tg1:{}:{}:{}", shard(key), key.kind.as_str(), key.id)
}

fn order_key(kind: Kind, day: u32) -> String {
    format!("tg1:{{h:{day}}}:{}", kind.as_str())
}

/// Seconds for which a row is kept from the present day on.
fn seconds(key: &RowKey, keep: u32, today: u32) -> u64 {
    u64::from(last_day(key, keep).saturating_add(1).saturating_sub(today)).max(1) * DAY
}

/// One call of the script: rows of one shard.
fn add_command(sha: &str, shard: &str, (batch, number): (&Batch, u64), rows: &[&Addition]) -> (u16, Cmd) {
    let mut keys = vec![format!("tg1:{shard}:batches")];
    keys.extend(rows.iter().map(|row| row_key(&row.key)));
    // Indexes as Lua counts them.
    let mut minutes: BTreeMap<u64, usize> = BTreeMap::new();
    for minute in rows.iter().flat_map(|row| &row.peaks).map(|peak| peak.minute) {
        minutes.entry(minute).or_insert_with(|| {
            keys.push(format!("tg1:{shard}:m:{minute}"));
            keys.len()
        });
    }
    let slot = slots::of_key(&keys[0]);
    let mut command = redis::cmd("EVALSHA");
    command.arg(sha).arg(keys.len()).arg(&keys);
    command.arg(batch.gateway).arg(number).arg(rows.len()).arg(REMEMBERED).arg(RANK);
    for row in rows {
        command.arg(seconds(&row.key, row.keep, batch.today)).arg(row.sums.len()).arg(row.peaks.len());
        for (name, amount) in &row.sums {
            command.arg(&**name).arg(i64::try_from(*amount).unwrap_or(i64::MAX));
        }
        for peak in &row.peaks {
            let member = format!("{}:{}:{}", peak.name, row.key.kind.as_str(), row.key.id);
            let amount = i64::try_from(peak.amount).unwrap_or(i64::MAX);
            command.arg(&*peak.name).arg(minutes[&peak.minute]).arg(member).arg(amount);
        }
    }
    (slot, command)
}

impl RedisDocuments {
    /// Adds one round trip of calls, and tells the orders what came of it.
    async fn add_some(&self, batch: &Batch, number: u64, calls: &[(String, Vec<&Addition>)]) -> Result<(), StoreError> {
        let sha = self.scripts().series_add();
        let commands = calls.iter().map(|(shard, rows)| add_command(sha, shard, (batch, number), rows)).collect();
        let replies = self.call(commands).await?;
        let mut orders: BTreeMap<(Kind, u32), (u64, Cmd)> = BTreeMap::new();
        for ((_, rows), reply) in calls.iter().zip(replies) {
            let Value::Array(sums) = reply else { return Err(odd()) };
            if sums.len() != rows.len() {
                return Err(odd());
            }
            for (row, sum) in rows.iter().zip(sums).filter(|(row, _)| row.key.kind.is_listed()) {
                let (_, command) = orders.entry((row.key.kind, row.key.day)).or_insert_with(|| {
                    let mut command = redis::cmd("ZADD");
                    command.arg(order_key(row.key.kind, row.key.day)).arg("GT");
                    (seconds(&row.key, row.keep, batch.today), command)
                });
                command.arg(text(sum)?).arg(&row.key.id);
            }
        }
        let mut commands = Vec::new();
        for ((kind, day), (seconds, command)) in orders {
            let key = order_key(kind, day);
            let slot = slots::of_key(&key);
            let mut expire = redis::cmd("EXPIRE");
            expire.arg(key).arg(seconds);
            commands.extend([(slot, command), (slot, expire)]);
        }
        if commands.is_empty() { Ok(()) } else { self.call(commands).await.map(drop) }
    }

    async fn add_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut shards: BTreeMap<String, Vec<&Addition>> = BTreeMap::new();
        for addition in &batch.additions {
            shards.entry(shard(&addition.key)).or_default().push(addition);
        }
        // A shard remembers one number of each gateway. So its calls go one after the other, each with a number of its own, and none
        // before the one in front of it has succeeded.
        let most = shards.values().map(Vec::len).max().unwrap_or(0).div_ceil(ROWS_PER_CALL);
        for part in 0..most {
            let number = batch.number.saturating_mul(MOST_PARTS).saturating_add(part as u64);
            let of_part =
                |(shard, rows): (&String, &Vec<_>)| Some((shard.clone(), rows.chunks(ROWS_PER_CALL).nth(part)?.to_vec()));
            let calls: Vec<_> = shards.iter().filter_map(of_part).collect();
            for some in calls.chunks(CALLS_PER_TRIP) {
                self.add_some(batch, number, some).await?;
            }
        }
        Ok(())
    }

    async fn read_rows(&self, keys: &[RowKey]) -> Result<Vec<Row>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(READS_PER_TRIP) {
            let command = |key: &RowKey| {
                let key = row_key(key);
                let mut command = redis::cmd("HGETALL");
                command.arg(&key);
                (slots::of_key(&key), command)
            };
            for reply in self.call(some.iter().map(command).collect()).await? {
                all.push(row(reply)?);
            }
        }
        Ok(all)
    }

    /// Ids of a day from a place in the order on, and how they are ranked.
    async fn ids(&self, kind: Kind, day: u32, from: usize, most: usize) -> Result<Vec<(String, u64)>, StoreError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let key = order_key(kind, day);
        let mut command = redis::cmd("ZREVRANGE");
        command.arg(&key).arg(from).arg(from.saturating_add(most - 1)).arg("WITHSCORES");
        let reply = self.call(vec![(slots::of_key(&key), command)]).await?.pop().ok_or_else(odd)?;
        let Value::Array(parts) = reply else { return Err(odd()) };
        let mut parts = parts.into_iter();
        let mut ids = Vec::new();
        while let (Some(id), Some(score)) = (parts.next(), parts.next()) {
            ids.push((text(id)?, score_of(score)?));
        }
        Ok(ids)
    }

    async fn with_rows(&self, kind: Kind, day: u32, ids: Vec<String>) -> Result<Vec<(String, Row)>, StoreError> {
        let keys: Vec<_> = ids.iter().map(|id| RowKey { kind, day, id: id.clone() }).collect();
        Ok(ids.into_iter().zip(self.read_rows(&keys).await?).collect())
    }

    /// What stands before the end of the page, with its ties: those are in Redis in an order of their own.
    async fn rank(&self, kind: Kind, day: u32, ranking: &Ranking) -> Result<Vec<(String, Row)>, StoreError> {
        let limit = ranking.limit.min(MAX_ROWS);
        let most = ranking.skip.saturating_add(limit);
        let mut all: Vec<(std::cmp::Reverse<u64>, String)> = Vec::new();
        let mut from = 0;
        loop {
            let ids = self.ids(kind, day, from, MAX_ROWS).await?;
            let (found, last) = (ids.len(), ids.last().map(|(_, score)| *score));
            from += found;
            let matching = ids.into_iter().filter(|(id, _)| id.starts_with(&ranking.prefix));
            all.extend(matching.map(|(id, score)| (std::cmp::Reverse(score), id)));
            let tied = all.get(most.saturating_sub(1)).is_some_and(|(edge, _)| last == Some(edge.0));
            if found < MAX_ROWS || (all.len() >= most && !tied) {
                break;
            }
        }
        all.sort();
        let page = all.into_iter().skip(ranking.skip).take(limit).map(|(_, id)| id).collect();
        self.with_rows(kind, day, page).await
    }
}

impl Series for RedisDocuments {
    fn add<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        self.add_batch(batch).boxed()
    }

    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        self.read_rows(keys).boxed()
    }

    fn ranked<'a>(&'a self, kind: Kind, day: u32, ranking: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>> {
        self.rank(kind, day, ranking).boxed()
    }

    fn scan<'a>(&'a self, kind: Kind, day: u32, after: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>> {
        async move {
            let from: usize = after.map_or(Ok(0), str::parse).map_err(|_| odd())?;
            let ids: Vec<_> = self.ids(kind, day, from, MAX_ROWS).await?.into_iter().map(|(id, _)| id).collect();
            let next = (ids.len() == MAX_ROWS).then(|| (from + ids.len()).to_string());
            Ok((self.with_rows(kind, day, ids).await?, next))
        }
        .boxed()
    }
}

pub(super) fn row(reply: Value) -> Result<Row, StoreError> {
    let Value::Array(parts) = reply else { return Err(odd()) };
    let mut parts = parts.into_iter();
    let mut row = Row::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        row.insert(text(name)?, text(value)?.parse().map_err(|_| odd())?);
    }
    Ok(row)
}

fn text(value: Value) -> Result<String, StoreError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| odd()),
        _ => Err(odd()),
    }
}

/// A score, which Redis writes as a decimal, with an exponent where it is large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "scores are sums, never negative; the cast saturates"
)]
pub(super) fn score_of(value: Value) -> Result<u64, StoreError> {
    match value {
        Value::Double(score) => Ok(score as u64),
        other => text(other)?.parse::<f64>().map(|score| score as u64).map_err(|_| odd()),
    }
}

fn odd() -> StoreError {
    StoreError::Failed("redis answered something else than a row of a series".into())
}
