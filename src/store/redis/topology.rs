//! Which node of a cluster serves which slots.

use redis::Value;
use std::fmt;
use std::sync::Arc;

/// A node, as the cluster names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Reads `host:port` of a redirection that `from` gave. A node that does not know its own name leaves the host out.
    pub(super) fn told(text: &str, from: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() || host == "?" { from.host.clone() } else { host.into() };
        Some(Self { host, port: port.parse().ok()? })
    }
}

/// A view of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// First slot, last slot, master; ascending.
    ranges: Vec<(u16, u16, Address)>,
    /// Slots of which a redirection told since.
    moved: Vec<(u16, Address)>,
    /// Everybody, replicas included: who can be asked about the cluster.
    pub(super) nodes: Vec<Address>,
}

impl Topology {
    /// Reads the reply of `CLUSTER SLOTS` of the node `from`; `None` where it is not one, or names no master.
    pub(super) fn read(reply: &Value, from: &Address) -> Option<Self> {
        let Value::Array(items) = reply else { return None };
        let mut topology = Self::default();
        for item in items {
            let Value::Array(range) = item else { return None };
            let [first, last, nodes @ ..] = range.as_slice() else { return None };
            let mut addresses = nodes.iter().map(|node| address(node, from));
            topology.ranges.push((slot(first)?, slot(last)?, addresses.next()??));
            // A replica that cannot be read cannot be asked; that is all.
            topology.nodes.extend(addresses.flatten());
        }
        topology.ranges.sort_by_key(|(first, ..)| *first);
        topology.nodes.extend(topology.ranges.iter().map(|(.., master)| master.clone()));
        topology.nodes.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
        topology.nodes.dedup();
        (!topology.ranges.is_empty()).then_some(topology)
    }

    /// Who serves a slot.
    pub(super) fn master(&self, slot: u16) -> Option<&Address> {
        if let Some((_, address)) = self.moved.iter().find(|(moved, _)| *moved == slot) {
            return Some(address);
        }
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, master) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(master)
    }

    /// Whether a node serves anything.
    pub(super) fn serves(&self, address: &Address) -> bool {
        self.ranges.iter().any(|(.., master)| master == address) || self.moved.iter().any(|(_, master)| master == address)
    }

    /// The same view, but for one slot.
    pub(super) fn with(&self, slot: u16, master: Address) -> Self {
        let mut topology = self.clone();
        topology.moved.retain(|(moved, _)| *moved != slot);
        topology.moved.push((slot, master));
        topology
    }
}

fn slot(value: &Value) -> Option<u16> {
    let Value::Int(n) = value else { return None };
    u16::try_from(*n).ok().filter(|slot| *slot < 16_384)
}

/// Host, port, and more that does not matter here.
fn address(node: &Value, from: &Address) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        _ => "",
    };
    let host = if host.is_empty() || host == "?" { from.host.clone() } else { host.into() };
    Some(Address { host, port: u16::try_from(*port).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.as_bytes().to_vec()));
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec()), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.into(), port }
    }

    #[test]
    fn a_slot_is_found_with_its_master_and_a_gap_is_not() {
        let seed = at("seed", 1);
        let reply = Value::Array(vec![
            range(8_000, 16_383, vec![node(Some(""), 9), node(None, 8)]),
            range(0, 5_000, vec![node(Some("a"), 7), node(Some("b"), 7)]),
            range(6_000, 6_000, vec![node(Some("?"), 6)]),
        ]);
        let mut topology = Topology::read(&reply, &seed).expect("well-formed");
        for (slot, master) in [
            (0, Some(at("a", 7))),
            (5_000, Some(at("a", 7))),
            (5_001, None),
            (6_000, Some(at("seed", 6))),
            (7_999, None),
            (16_383, Some(at("seed", 9))),
        ] {
            assert_eq!(topology.master(slot), master.as_ref(), "{slot}");
        }
        assert_eq!(topology.nodes, [at("a", 7), at("b", 7), at("seed", 6), at("seed", 8), at("seed", 9)]);
        assert_eq!((topology.serves(&at("a", 7)), topology.serves(&at("b", 7))), (true, false));
        for port in [1, 2] {
            topology = topology.with(5_000, at("c", port));
        }
        assert_eq!((topology.master(5_000), topology.master(4_999)), (Some(&at("c", 2)), Some(&at("a", 7))));
        assert!(topology.serves(&at("c", 2)) && !topology.serves(&at("c", 1)));
    }

    #[test]
    fn what_is_no_view_of_a_cluster_is_none() {
        for reply in [
            Value::Nil,
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16_384, vec![node(Some("a"), 1)])]),
            Value::Array(vec![range(0, 1, vec![node(Some("a"), 70_000)])]),
            Value::Array(vec![range(0, 1, Vec::new())]),
        ] {
            assert_eq!(Topology::read(&reply, &at("seed", 1)), None, "{reply:?}");
        }
    }

    #[test]
    fn redirections_are_read() {
        let from = at("me", 1);
        for (text, told) in [
            ("10.0.0.1:7000", Some(at("10.0.0.1", 7_000))),
            (":7000", Some(at("me", 7_000))),
            ("?:7000", Some(at("me", 7_000))),
            ("2001:db8::1:7000", Some(at("2001:db8::1", 7_000))),
            ("host", None),
            ("host:port", None),
        ] {
            assert_eq!(Address::told(text, &from), told, "{text}");
        }
    }
}
