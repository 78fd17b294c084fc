//! Random records read back; damaged bytes are refused or read, and never more than that.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn scope() -> impl Strategy<Value = ScopeKey> {
    let scopes = vec![Scope::User, Scope::Customer, Scope::App, Scope::Share, Scope::Pool, Scope::Gateway];
    (proptest::sample::select(scopes), "\\PC{0,20}|x{127,130}").prop_map(|(scope, owner)| ScopeKey { scope, owner: owner.into() })
}

fn limit() -> impl Strategy<Value = LimitName> {
    let periods = proptest::sample::select(Period::ALL.to_vec());
    let of = [LimitName::Spend as fn(Period) -> _, LimitName::RequestQuota, LimitName::TokenQuota];
    prop_oneof![
        (periods, 0..3_usize).prop_map(move |(period, which)| of[which](period)),
        proptest::sample::select(vec![LimitName::Messages, LimitName::Rpm, LimitName::Tpm, LimitName::Rpd, LimitName::Tpd]),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300_u64, any::<u64>(), Just(u64::MAX), (0..64_u32).prop_map(|bit| 1 << bit)]
}

prop_compose! {
    fn balance()(scope in scope(), limit in limit(), period in number()) -> BalanceKey {
        BalanceKey { scope, limit, period }
    }
}

prop_compose! {
    fn entry()(
        kind in proptest::sample::select(vec![Kind::Held, Kind::Settled, Kind::LostCharged, Kind::LostReleased]),
        time in number(), bits: u128, customer in scope(), lines in vec((balance(), number(), number()), 0..5),
    ) -> Entry {
        let lines = lines.into_iter().map(|(balance, claimed, actual)| Booking { balance, claimed, actual }).collect();
        Entry { kind, time: Timestamp(time), reservation: ReservationId::new(bits), customer, lines }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(entry in entry(), key in balance(), spent in number(), ledger in number()) {
        prop_assert_eq!(read_entry_value(&entry_value(&entry)), Ok(entry));
        prop_assert_eq!(read_balance_key(&balance_key(&key)), Ok(key));
        prop_assert_eq!(read_balance_value(&balance_value(spent)), Ok(spent));
        prop_assert_eq!(read_ledger_key(&ledger_key(ledger)), Ok(ledger));
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in vec(any::<u8>(), 0..80), versioned: bool) {
        let bytes = if versioned { [&[VERSION], &*bytes].concat() } else { bytes };
        let _ = (read_balance_key(&bytes), read_balance_value(&bytes), read_ledger_key(&bytes));
        if let Ok(entry) = read_entry_value(&bytes) {
            prop_assert_eq!(read_entry_value(&entry_value(&entry)), Ok(entry), "what is read can be written");
        }
    }

    /// Above all, no memory for a length or a number of lines that the bytes only claim.
    #[test]
    fn a_damaged_entry_is_refused_or_read(entry in entry(), damages in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = entry_value(&entry);
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(entry) = read_entry_value(&bytes) {
            prop_assert!(entry.lines.len() <= bytes.len() / 5);
            prop_assert_eq!(read_entry_value(&entry_value(&entry)), Ok(entry));
        }
    }
}
