//! Containment and intersection of match rows, for the policy compiler and the filter planner.

use crate::classifier::{Match, PortRange, Prefix};

/// The intersection of two rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Intersection {
    /// No packet passes both.
    Empty,
    /// The packets that pass both are those that pass this row.
    Row(Match),
    /// Some packets may pass both, but no single row describes them: the rows test different cgroups.
    NotARow,
}

/// The conjunction of two rows' tests of one field.
enum Joined<T> {
    Never,
    Test(Option<T>),
}

/// Joins two optional tests; `meet` returns the intersection of two tests.
fn join<T: Copy>(a: Option<T>, b: Option<T>, meet: impl Fn(T, T) -> Option<T>) -> Joined<T> {
    match (a, b) {
        (Some(a), Some(b)) => meet(a, b).map_or(Joined::Never, |both| Joined::Test(Some(both))),
        (one, other) => Joined::Test(one.or(other)),
    }
}

/// Whether a test that is `Some` on the left is implied by the right.
fn implied<T: Copy>(test: Option<T>, by: Option<T>, covers: impl Fn(T, T) -> bool) -> bool {
    test.is_none_or(|wide| by.is_some_and(|narrow| covers(wide, narrow)))
}

/// Returns the value that passes both tests of equality.
fn same<T: PartialEq>(a: T, b: T) -> Option<T> {
    (a == b).then_some(a)
}

/// Returns the `(value, mask)` test that is the conjunction of both, or `None` if they require different values of a common bit.
fn meet_marks(a: (u32, u32), b: (u32, u32)) -> Option<(u32, u32)> {
    ((a.0 ^ b.0) & a.1 & b.1 == 0).then_some((a.0 | b.0, a.1 | b.1))
}

impl PortRange {
    /// Returns the range of the one port `port`.
    pub const fn single(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether this range contains every port of `other`.
    pub const fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Returns the ports in both ranges.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let (first, last) = (self.first.max(other.first), self.last.min(other.last));
        (first <= last).then_some(Self { first, last })
    }
}

impl Match {
    /// Whether the row tests something that only IP packets have, so that only those pass it.
    pub const fn tests_key(&self) -> bool {
        self.protocol.is_some()
            || self.src.is_some()
            || self.dst.is_some()
            || self.sport.is_some()
            || self.dport.is_some()
            || self.attributes.needs_ip()
    }

    /// Whether every packet that passes `other` passes this row. Sound but incomplete: `true` is certain, `false` may be wrong.
    /// The hierarchy of cgroups is unknown here, so a cgroup below another one counts as unrelated.
    pub fn covers(&self, other: &Self) -> bool {
        implied(self.protocol, other.protocol, |a, b| a == b)
            && implied(self.src, other.src, |a, b| a.covers(&b))
            && implied(self.dst, other.dst, |a, b| a.covers(&b))
            && implied(self.sport, other.sport, |a, b| a.covers(&b))
            && implied(self.dport, other.dport, |a, b| a.covers(&b))
            && implied(self.mark, other.mark, |(av, am), (bv, bm)| am & bm == am && bv & am == av)
            && implied(self.priority, other.priority, |a, b| a == b)
            && implied(self.cgroup, other.cgroup, |a, b| a == b)
            && implied(self.port, other.port, |a, b| a == b)
            && self.attributes.covers(&other.attributes)
    }

    /// Returns the packets that pass both rows. Both addresses of a flow belong to one family, so an IPv4 source and an IPv6
    /// destination have an empty intersection.
    pub fn intersect(&self, other: &Self) -> Intersection {
        let meet_prefixes = |a: Prefix, b: Prefix| a.intersect(&b);
        let meet_ports = |a: PortRange, b: PortRange| a.intersect(&b);
        let fields = (
            join(self.protocol, other.protocol, same),
            join(self.src, other.src, meet_prefixes),
            join(self.dst, other.dst, meet_prefixes),
            join(self.sport, other.sport, meet_ports),
            join(self.dport, other.dport, meet_ports),
            join(self.mark, other.mark, meet_marks),
            join(self.priority, other.priority, same),
            join(self.port, other.port, same),
        );
        let (
            Joined::Test(protocol),
            Joined::Test(src),
            Joined::Test(dst),
            Joined::Test(sport),
            Joined::Test(dport),
            Joined::Test(mark),
            Joined::Test(priority),
            Joined::Test(port),
        ) = fields
        else {
            return Intersection::Empty;
        };
        if let (Some(src), Some(dst)) = (src, dst)
            && src.addr.is_ipv4() != dst.addr.is_ipv4()
        {
            return Intersection::Empty;
        }
        let Some(attributes) = self.attributes.intersect(&other.attributes) else {
            return Intersection::Empty;
        };
        match join(self.cgroup, other.cgroup, same) {
            Joined::Never => Intersection::NotARow,
            Joined::Test(cgroup) => Intersection::Row(Match {
                protocol,
                src,
                dst,
                sport,
                dport,
                mark,
                priority,
                cgroup,
                port,
                attributes,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::{Values, origin, row};
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::prelude::*;
    use weft_units::{FlowKey, PacketMeta, Protocol};

    /// A prefix from a small set, so that random rows and packets often match.
    fn some_prefix() -> impl Strategy<Value = Prefix> + Clone {
        (0_u8..4, 28_u8..=32)
            .prop_map(|(low, len)| Prefix { addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, low)), len }.network())
    }

    fn some_range() -> impl Strategy<Value = PortRange> + Clone {
        (0_u16..4, 0_u16..3).prop_map(|(first, more)| PortRange { first, last: first + more })
    }

    fn some_row() -> impl Strategy<Value = Match> {
        row(some_prefix(), some_range(), Values { protocols: 1..3, cgroups: 0..2, attributes: 0..3 })
    }

    fn some_packet() -> impl Strategy<Value = PacketMeta> {
        let address = || (0_u8..4).prop_map(|low| IpAddr::V4(Ipv4Addr::new(10, 0, 0, low)));
        let key = (1_u8..3, address(), address(), 0_u16..6, 0_u16..6).prop_map(
            |(protocol, src, dst, sport, dport)| FlowKey {
                src,
                dst,
                sport,
                dport,
                protocol: Protocol(protocol),
            },
        );
        (proptest::option::weighted(0.9, key), 0_u32..8, 0_u32..2, 0_u64..4, 0_u16..3, origin()).prop_map(
            |(key, mark, priority, cgroups, port, origin)| PacketMeta {
                key,
                mark,
                priority,
                cgroups,
                port,
                ..origin
            },
        )
    }

    proptest! {
        #[test]
        fn an_intersection_passes_what_both_pass(a in some_row(), b in some_row(), packet in some_packet()) {
            let both = a.matches(&packet) && b.matches(&packet);
            match a.intersect(&b) {
                Intersection::Empty => prop_assert!(!both),
                Intersection::Row(row) => prop_assert_eq!(row.matches(&packet), both),
                Intersection::NotARow => prop_assert_ne!(a.cgroup, b.cgroup),
            }
        }

        #[test]
        fn containment_is_sound(a in some_row(), b in some_row(), packet in some_packet()) {
            prop_assert!(a.covers(&a));
            if a.covers(&b) && b.matches(&packet) {
                prop_assert!(a.matches(&packet), "{a:?} covers {b:?} but not {packet:?}");
            }
        }
    }

    #[test]
    fn addresses_of_two_families_have_nothing_in_common() {
        let four = Match { src: Some("10.0.0.0/8".parse().expect("prefix")), ..Match::default() };
        let six = Match { dst: Some("fd00::/8".parse().expect("prefix")), ..Match::default() };
        assert_eq!(four.intersect(&six), Intersection::Empty);
    }
}
