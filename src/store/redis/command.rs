//! A call of a script under construction: what its arguments are, and how an admission, an end and a hold record are spelled in them.

use super::call::{Ask, Mode, of_an_end};
use super::keys::{Key, KeySet, Shelf};
use super::slots::Group;
use super::stored::Packed;
use super::told::Told;
use crate::domain::Timestamp;
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{Claim, Elastic, Line, Settlement};
use redis::Cmd;
use std::fmt::Write as _;

/// Numbers of a call, and of a limit with its rule.
const HEAD: usize = 8;
const PER_LIMIT: usize = 16;

/// A command under construction: its keys, its numbers (one argument), and then its texts.
pub(super) struct Call<'a> {
    cmd: Cmd,
    pub(super) numbers: Packed,
    pub(super) texts: Vec<Text<'a>>,
}

/// An argument that is no number.
pub(super) enum Text<'a> {
    Reservation(crate::domain::ReservationId),
    Customer(&'a str),
    Short([u8; 16]),
    Held(String),
    Sums(Vec<u8>),
}

impl<'a> Call<'a> {
    /// Of these keys and limits, with room for so many numbers of admissions and ends.
    pub(super) fn begin(sha: &str, keys: &KeySet<'_>, told: &Told<'_>, numbers: usize) -> Self {
        let mut cmd = Cmd::with_capacity(4 + keys.count(), 64 + 48 * keys.count());
        cmd.arg("EVALSHA").arg(sha).arg(keys.count());
        for key in keys.keys() {
            cmd.arg(key);
        }
        Self { cmd, numbers: Packed::with_capacity(HEAD + PER_LIMIT * told.count() + numbers), texts: Vec::new() }
    }

    /// What scripts begin with: the time (zero stands for the server's own), and some counts.
    pub(super) fn head(&mut self, now: Option<Timestamp>, counts: &[usize]) {
        self.numbers.number(now.map_or(0, Timestamp::micros));
        counts.iter().for_each(|count| self.numbers.place(*count));
    }

    /// An admission as `claims.lua` reads it; `limits` are those of its claims.
    pub(super) fn admission(&mut self, keys: &KeySet<'_>, ask: &Ask<'a>, limits: &mut impl Iterator<Item = usize>) {
        let Ask { admission, group, mode, lease, waits, granted, known: _ } = *ask;
        let (customer, numbers) = (&admission.customer, &mut self.numbers);
        [Shelf::Holds, Shelf::Leases].into_iter().for_each(|shelf| numbers.place(keys.place_of(group, customer, shelf)));
        let mode = match mode {
            Mode::Take => 0,
            Mode::Provisional => 1,
            Mode::Refused => 2,
        };
        let elastic = |e: &Elastic| (e.fixed, e.per_token, granted.unwrap_or(e.wanted), e.floor);
        let (fixed, per_token, wanted, floor) = admission.elastic.as_ref().map_or((0, 0, 0, 0), elastic);
        for number in [mode, lease, waits, fixed, per_token, wanted, floor, ask.claims().count() as u64] {
            numbers.number(number);
        }
        for (claim, limit) in ask.claims().zip(limits) {
            numbers.place(limit);
            numbers.number(ask.amount(claim));
        }
        self.texts.extend([Text::Reservation(admission.reservation), Text::Customer(&customer.owner)]);
    }

    /// The end of a reservation as `ends.lua` reads it, with these lines, each with its limit.
    pub(super) fn end<'b>(
        &mut self,
        keys: &KeySet<'_>,
        group: Group,
        end: &Settlement,
        charged: bool,
        lines: impl Iterator<Item = (&'b Line, usize)>,
    ) {
        let numbers = &mut self.numbers;
        of_an_end(end).into_iter().for_each(|shelf| numbers.place(keys.place_of(group, &end.customer, shelf)));
        numbers.number(u64::from(charged));
        let lines: Vec<_> = lines.collect();
        numbers.place(lines.len());
        // What the hold record has, if everything is as this gateway knows it.
        let mut held = String::new();
        for (Line { claim, actual, booked }, limit) in lines {
            numbers.place(limit);
            for number in [claim.amount, *actual, *booked] {
                numbers.number(number);
            }
            if claim.is_budget() {
                part(&mut held, group, claim, *booked, claim.amount);
            }
        }
        let short = end.reservation.bits().to_be_bytes();
        self.texts.extend([Text::Reservation(end.reservation), Text::Short(short), Text::Held(held)]);
    }

    pub(super) fn done(self) -> Cmd {
        let Self { mut cmd, numbers, texts } = self;
        cmd.arg(numbers.bytes());
        for text in texts {
            match text {
                Text::Reservation(reservation) => cmd.arg(Hex(reservation)),
                Text::Customer(customer) => cmd.arg(customer),
                Text::Short(bytes) => cmd.arg(&bytes),
                Text::Held(parts) => cmd.arg(parts),
                Text::Sums(numbers) => cmd.arg(numbers),
            };
        }
        cmd
    }
}

/// Adds what a hold record has of a budget that is claimed.
pub(super) fn part(record: &mut String, group: Group, claim: &Claim, start: u64, amount: u64) {
    let key = Key { scope: &claim.scope, shelf: Shelf::Limits, group };
    let _ = write!(record, "|{key} {} {start} {}", claim.limit.as_str(), amount.min(MAX_EXACT));
}

/// A reservation id as the scripts know it: 32 hexadecimal digits.
pub(super) struct Hex(pub(super) crate::domain::ReservationId);

impl redis::ToRedisArgs for Hex {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self.0);
    }
}
