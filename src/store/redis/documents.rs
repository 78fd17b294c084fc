//! Documents in Redis: compare-and-set inside the server, and the end of a document is the server's to see.
//!
//! Those of a collection that is not listed (there is one or more a request) are a key each, which spread over a cluster; those of a
//! listed one live under one tag with their order, so that a write of both is one step. The layout stands at the top of
//! `lua/documents.lua`. They have a connection of their own: a reply of a megabyte must not stand before an admission.

use super::away::Away;
use super::scripts::Scripts;
use super::servers::Servers;
use super::slots;
use crate::config::policy::{RedisServers, Secret};
use crate::domain::{Clock, Timestamp};
use crate::limit::bucket::MAX_EXACT;
use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Documents, Expected, Listed, MAX_PAGE, Page, Write, Written, check_id};
use crate::store::series::Series;
use crate::telemetry::SystemClock;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;
use tokio::time::Instant;

/// A call may take at least this long: a page of documents is more than the integers of a balance, which set the ledger's deadline.
const LEAST_DEADLINE: Duration = Duration::from_millis(250);
/// Writes in one round trip.
const WRITES_PER_CALL: usize = 128;
/// Writes in one call of a script, which keeps the server from everybody else meanwhile.
const WRITES_PER_SCRIPT: usize = 32;
/// Bytes of values in one round trip, unless a single one is larger.
const BYTES_PER_CALL: usize = 1 << 20;
/// Bytes of a record before its value.
const HEAD: usize = 48;
/// See the module.
pub struct RedisDocuments {
    servers: Servers,
    away: Mutex<Away>,
}

impl RedisDocuments {
    /// Documents on the server at this address, as [`super::RedisLedger::connect`] takes it.
    ///
    /// # Errors
    /// As there.
    pub fn connect(urls: &[&str], deadline: Duration) -> Result<Self, StoreError> {
        Self::open(&RedisServers::of(urls.iter().map(|url| Secret::new(url)).collect()), deadline)
    }

    /// Documents on these servers.
    ///
    /// # Errors
    /// As of [`super::RedisLedger::open`].
    pub fn open(servers: &RedisServers, deadline: Duration) -> Result<Self, StoreError> {
        Ok(Self { servers: Servers::open(servers, deadline.max(LEAST_DEADLINE))?, away: Mutex::default() })
    }

    pub(super) async fn call(&self, commands: Vec<(u16, Cmd)>) -> Result<Vec<Value>, StoreError> {
        self.away.lock().ask(Instant::now())?;
        let replies = self.servers.all(commands).await;
        self.away.lock().heard(&replies, Instant::now());
        replies
    }

    pub(super) fn scripts(&self) -> &Scripts {
        self.servers.scripts()
    }

    async fn one(&self, command: (u16, Cmd)) -> Result<Value, StoreError> {
        self.call(vec![command]).await?.pop().ok_or_else(|| StoreError::Failed(String::from("no reply to a command")))
    }

    /// The beginning of a call, and the slot it goes to.
    fn script(&self, sha: &str, collection: Collection, id: &str, now: Option<Timestamp>) -> (u16, Cmd) {
        let keys = keys(collection, id);
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha).arg(keys.len()).arg(&keys).arg(now.map_or(0, Timestamp::micros));
        (slots::of_key(&keys[0]), command)
    }

    fn get_command(&self, collection: Collection, id: &str, now: Option<Timestamp>) -> (u16, Cmd) {
        let (slot, mut command) = self.script(self.servers.scripts().document_get(), collection, id, now);
        command.arg(if collection.is_listed() { "1" } else { "0" }).arg(id);
        (slot, command)
    }

    fn put_command(&self, write: &Write, now: Option<Timestamp>) -> (u16, Cmd) {
        let Write { collection, id, expected, value, keep, rank } = write;
        let (slot, mut command) = self.script(self.servers.scripts().document_put(), *collection, id, now);
        command.arg(id);
        match expected {
            Expected::Anything => command.arg("*"),
            Expected::Nothing => command.arg("-"),
            Expected::Version(version) => command.arg(version),
        };
        command.arg(format!("{rank:016x}"));
        match keep {
            None => command.arg("-"),
            Some(keep) => command.arg(u64::try_from(keep.as_micros()).unwrap_or(u64::MAX).min(MAX_EXACT)),
        };
        if let Some(value) = value {
            command.arg(&**value);
        }
        (slot, command)
    }

    /// One call for several writes that go through whatever is there, on one server.
    fn put_many_command(&self, writes: &[Write], now: Option<Timestamp>) -> (u16, Cmd) {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.servers.scripts().document_put_many()).arg(writes.len());
        for write in writes {
            command.arg(keys(write.collection, &write.id));
        }
        command.arg(now.map_or(0, Timestamp::micros));
        for Write { keep, rank, value, .. } in writes {
            command.arg(format!("{rank:016x}"));
            match keep {
                None => command.arg("-"),
                Some(keep) => command.arg(u64::try_from(keep.as_micros()).unwrap_or(u64::MAX).min(MAX_EXACT)),
            };
            command.arg(value.as_deref().unwrap_or_default());
        }
        (0, command)
    }

    /// What is kept of a request is written once, under an id of its own: no script is needed to find that it is not there, and making
    /// its strings there took twice as long as writing them. Its version is this machine's time, which nobody compares, and its end the
    /// server's to see, as of all keys.
    fn put_plainly(Write { collection, id, value, keep, rank, .. }: &Write) -> (u16, Cmd) {
        let value = value.as_deref().unwrap_or_default();
        let mut record = Vec::with_capacity(HEAD + value.len());
        let version = SystemClock.now().micros();
        write!(record, "{version:016}{:016}{rank:016x}", 0).expect("memory takes everything");
        record.extend_from_slice(value);
        let keys = keys(*collection, id);
        let mut command = redis::cmd("SET");
        command.arg(&keys[0]).arg(record).arg("PX").arg(keep.and_then(millis).unwrap_or_default());
        (slots::of_key(&keys[0]), command)
    }

    /// The calls that some writes take, in their order.
    fn put_commands(&self, writes: &[Write], now: Option<Timestamp>) -> Vec<(u16, Cmd)> {
        // In a cluster each lies in a slot of its own.
        let blind = |write: &Write| {
            let one = matches!(self.servers, Servers::One(_)) && !write.collection.is_listed();
            one && write.expected == Expected::Anything && write.value.is_some()
        };
        // A time that is passed in is for a script to go by.
        let plain = |write: &Write| now.is_none() && is_plain(write);
        let runs = writes.chunk_by(|one, other| blind(one) && blind(other) && !plain(one) && !plain(other));
        let command = |run: &[Write]| match run {
            [write] if plain(write) => Self::put_plainly(write),
            [write] => self.put_command(write, now),
            run => self.put_many_command(run, now),
        };
        runs.flat_map(|run| run.chunks(WRITES_PER_SCRIPT)).map(command).collect()
    }

    fn list_command(&self, collection: Collection, page: &Page, most: usize, now: Option<Timestamp>) -> (u16, Cmd) {
        let (slot, mut command) = self.script(self.servers.scripts().document_list(), collection, "", now);
        match &page.after {
            None => command.arg("-"),
            Some((rank, id)) => command.arg(format!("({rank:016x}{id}")),
        };
        match page.up_to.and_then(|rank| rank.checked_add(1)) {
            None => command.arg("+"),
            Some(beyond) => command.arg(format!("({beyond:016x}")),
        };
        command.arg(most).arg(BYTES_PER_CALL);
        (slot, command)
    }
}

impl std::fmt::Debug for RedisDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisDocuments").finish_non_exhaustive()
    }
}

impl Documents for RedisDocuments {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        async move {
            match self.one(self.get_command(collection, id, now)).await? {
                Value::Array(found) => document(found),
                other => Err(unexpected(&other)),
            }
        }
        .boxed()
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        async move {
            check_id(&write.id)?;
            written(self.one(self.put_command(write, now)).await?)
        }
        .boxed()
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            writes.iter().try_for_each(|write| check_id(&write.id))?;
            let mut left = writes;
            while !left.is_empty() {
                let (some, rest) = left.split_at(round_trip(left));
                for reply in self.call(self.put_commands(some, now)).await? {
                    // Written whatever was there: alone, or so many by a script.
                    if !matches!(reply, Value::Okay | Value::Int(_)) {
                        written(reply)?;
                    }
                }
                left = rest;
            }
            Ok(())
        }
        .boxed()
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        async move {
            let most = page.limit.min(MAX_PAGE);
            let mut page = page.clone();
            let mut all: Vec<Listed> = Vec::new();
            let mut more = collection.is_listed();
            while more && all.len() < most {
                let reply = self.one(self.list_command(collection, &page, most - all.len(), now)).await?;
                more = listed(reply, &mut all)?;
                page.after = all.last().map(|last| (last.rank, last.id.clone()));
            }
            Ok(all)
        }
        .boxed()
    }

    fn series(&self) -> &dyn Series {
        self
    }
}

/// Whether a write needs no script: of what is kept of a request, and with an end.
fn is_plain(write: &Write) -> bool {
    let of_a_request = matches!(write.collection, Collection::Requests | Collection::ProviderRequests);
    of_a_request && write.is_blind() && write.keep.and_then(millis).is_some()
}

/// For how long a key is kept. `None` where that is no time at all, or longer than a number is exact.
fn millis(keep: Duration) -> Option<u64> {
    u64::try_from(keep.as_micros().div_ceil(1_000)).ok().filter(|kept| (1..MAX_EXACT / 1_000).contains(kept))
}

/// The keys of a document. An id may be any text, so what would end or begin a tag is spelled out.
fn keys(collection: Collection, id: &str) -> Vec<String> {
    let name = collection.as_str();
    if collection.is_listed() {
        return ["docs", "order", "ends"].map(|shelf| format!("tg1:{{d:{name}}}:{shelf}")).into();
    }
    let mut key = format!("tg1:{{d:{name}:");
    for letter in id.chars() {
        match letter {
            '{' | '}' | '%' => {
                let _ = write!(key, "%{:02x}", u32::from(letter));
            }
            other => key.push(other),
        }
    }
    key.push('}');
    vec![key]
}

/// How many of these go into one round trip: at least one.
fn round_trip(writes: &[Write]) -> usize {
    let mut bytes = 0;
    let fits = |write: &&Write| {
        bytes += write.value.as_ref().map_or(0, Bytes::len);
        bytes <= BYTES_PER_CALL
    };
    writes.iter().take(WRITES_PER_CALL).take_while(fits).count().max(1)
}

pub(super) fn written(reply: Value) -> Result<Written, StoreError> {
    let Value::Array(mut parts) = reply else { return Err(unexpected(&reply)) };
    if parts.is_empty() {
        return Err(StoreError::Failed(String::from("document_put answered nothing")));
    }
    let rest = parts.split_off(1);
    match (&parts[0], rest.as_slice()) {
        (Value::Int(1), [Value::Int(version)]) => Ok(Written::Done(natural(*version)?)),
        (Value::Int(0), _) => document(rest).map(Written::Found),
        (other, _) => Err(unexpected(other)),
    }
}

/// Version and value, or nothing.
fn document(parts: Vec<Value>) -> Result<Option<Document>, StoreError> {
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => Ok(None),
        (Some(Value::Int(version)), Some(Value::BulkString(value)), None) => {
            Ok(Some(Document { version: natural(version)?, value: value.into() }))
        }
        (Some(first), ..) => Err(unexpected(&first)),
    }
}

/// Adds what a listing answered; gives whether there may be more.
pub(super) fn listed(reply: Value, all: &mut Vec<Listed>) -> Result<bool, StoreError> {
    let Value::Array(parts) = reply else { return Err(unexpected(&reply)) };
    let mut parts = parts.into_iter();
    let more = match parts.next() {
        Some(Value::Int(more)) => more == 1,
        other => return Err(unexpected(&other.unwrap_or(Value::Nil))),
    };
    while let Some(rank) = parts.next() {
        let rank = u64::from_str_radix(&text(rank)?, 16).map_err(|_| unexpected(&Value::Nil))?;
        let id = text(parts.next().unwrap_or(Value::Nil))?;
        let (version, value) = (parts.next().unwrap_or(Value::Nil), parts.next().unwrap_or(Value::Nil));
        let document = document(vec![version, value])?.ok_or_else(|| unexpected(&Value::Nil))?;
        all.push(Listed { id, rank, document });
    }
    Ok(more)
}

fn text(value: Value) -> Result<String, StoreError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| unexpected(&Value::Nil)),
        other => Err(unexpected(&other)),
    }
}

fn natural(n: i64) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::Failed(format!("a script gave the version {n}")))
}

/// Names the type only: the content may be anything.
fn unexpected(value: &Value) -> StoreError {
    let kind = match value {
        Value::Nil => "nil",
        Value::Int(_) => "an integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a string",
        Value::Array(_) => "an array",
        _ => "another type",
    };
    StoreError::Failed(format!("a script of documents answered {kind} where something else was due"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_by_id_and_no_id_can_choose_a_tag() {
        for (collection, id, right) in [
            (Collection::Requests, "req_1", "tg1:{d:request:req_1}"),
            (Collection::Replies, "a{b}c%", "tg1:{d:reply:a%7bb%7dc%25}"),
            (Collection::Replies, "a%7bb", "tg1:{d:reply:a%257bb}"),
            (Collection::Tickets, "whatever", "tg1:{d:ticket}:docs"),
        ] {
            assert_eq!(keys(collection, id)[0], right);
        }
        assert_eq!(keys(Collection::Tickets, "x").len(), 3);
    }

    #[test]
    fn a_reply_of_another_shape_is_a_failure_and_not_nothing() {
        let (int, text) = (Value::Int(1), Value::BulkString(b"x".to_vec()));
        for parts in [vec![int.clone()], vec![int.clone(), int.clone()], vec![text.clone(), text.clone()], vec![int.clone(); 3]] {
            assert!(document(parts).is_err());
        }
        for reply in [Value::Nil, Value::Array(vec![]), Value::Array(vec![int.clone()]), Value::Array(vec![int, text])] {
            assert!(written(reply.clone()).is_err(), "{reply:?}");
        }
        assert!(listed(Value::Nil, &mut Vec::new()).is_err());
        assert!(listed(Value::Array(vec![Value::Int(0), Value::BulkString(b"zz".to_vec())]), &mut Vec::new()).is_err());
    }
}
