//! The order of a queue: who stands ahead of whom. Pure.

/// Sequence numbers from here on are not trusted: past 2³¹−1 creates under one parent ZooKeeper
/// repeats them (since 3.6) or wraps (before). The margin leaves room for creates in flight.
pub(crate) const SEQUENCE_LIMIT: i64 = (1 << 31) - 1 - 1_000_000;

/// One contender of a listing, as the order sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat<N> {
    pub(crate) node: N,
    pub(crate) sequence: i64,
    /// Wants to hold alone, and nothing else: its deletion frees its place and changes no other.
    pub(crate) plain: bool,
    /// Written by this crate, which orders by `czxid` where numbers fail. Others do not.
    pub(crate) own_dialect: bool,
}

/// What one listing says to one contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place<N> {
    /// The own node is not listed.
    Absent,
    /// These stand ahead, nearest last.
    Behind(Vec<Seat<N>>),
    /// The numbers say nothing any more: order these by `czxid`, then ask [`by_czxid`].
    Unordered(Vec<N>),
    /// The numbers say nothing, and a contender of another client orders by them all the same.
    Exhausted(i64),
}

/// Finds `own` among the contenders of a listing.
pub(crate) fn place<N: Clone + Eq>(mut seats: Vec<Seat<N>>, own: &N) -> Place<N> {
    let Some(number) = seats.iter().find(|seat| seat.node == *own).map(|seat| seat.sequence) else {
        return Place::Absent;
    };
    seats.sort_by_key(|seat| seat.sequence);
    let healthy = seats.iter().all(|seat| (0..SEQUENCE_LIMIT).contains(&seat.sequence));
    // Equal numbers come from the limit, or from a node written by hand.
    let distinct = seats.windows(2).all(|pair| match pair {
        [a, b] => a.sequence != b.sequence,
        _ => true,
    });
    if healthy && distinct {
        seats.retain(|seat| seat.sequence < number);
        return Place::Behind(seats);
    }
    if !healthy && seats.iter().any(|seat| !seat.own_dialect) {
        return Place::Exhausted(number);
    }
    Place::Unordered(seats.into_iter().map(|seat| seat.node).collect())
}

/// The contenders ahead of `own`, nearest last, when only `czxid` orders them. A contender without
/// one has gone since it was listed. `None` if `own` is among these.
pub(crate) fn by_czxid<N: Clone + Eq>(mut nodes: Vec<(N, Option<i64>)>, own: &N) -> Option<Vec<N>> {
    let mine = nodes.iter().find(|(node, _)| node == own)?.1?;
    nodes.retain(|&(_, czxid)| czxid.is_some_and(|czxid| czxid < mine));
    nodes.sort_by_key(|&(_, czxid)| czxid);
    Some(nodes.into_iter().map(|(node, _)| node).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(node: u32, sequence: i64) -> Seat<u32> {
        Seat { node, sequence, plain: true, own_dialect: true }
    }

    fn ahead(place: Place<u32>) -> Vec<u32> {
        let Place::Behind(seats) = place else { unreachable!("{place:?}") };
        seats.into_iter().map(|seat| seat.node).collect()
    }

    #[test]
    fn healthy_numbers_order_the_queue() {
        let seats = vec![seat(3, 30), seat(1, 10), seat(2, 20), seat(4, 40)];
        assert_eq!(ahead(place(seats.clone(), &3)), [1, 2]);
        assert_eq!(ahead(place(seats.clone(), &1)), [0_u32; 0]);
        assert_eq!(place(seats, &9), Place::Absent);
    }

    #[test]
    fn past_the_limit_only_czxid_orders() {
        let last = i64::from(i32::MAX);
        for numbers in [[last, last], [5, last], [5, -1], [SEQUENCE_LIMIT, 7]] {
            let seats = vec![seat(1, numbers[0]), seat(2, numbers[1])];
            let Place::Unordered(mut nodes) = place(seats, &1) else { unreachable!("{numbers:?}") };
            nodes.sort_unstable();
            assert_eq!(nodes, [1, 2]);
        }
        let nodes = vec![(1, Some(30)), (2, Some(10)), (3, None), (4, Some(40))];
        assert_eq!(by_czxid(nodes.clone(), &4), Some(vec![2, 1]));
        assert_eq!(by_czxid(nodes.clone(), &2), Some(vec![]));
        assert_eq!(by_czxid(nodes.clone(), &3), None);
        assert_eq!(by_czxid(nodes, &9), None);
    }

    #[test]
    fn equal_numbers_are_no_order() {
        let place = place(vec![seat(1, 5), seat(2, 5)], &1);
        assert_eq!(place, Place::Unordered(vec![1, 2]));
    }

    #[test]
    fn past_the_limit_a_foreign_contender_ends_it() {
        let foreign = Seat { own_dialect: false, ..seat(2, 3) };
        let seats = vec![seat(1, i64::from(i32::MAX)), foreign];
        assert_eq!(place(seats, &1), Place::Exhausted(i64::from(i32::MAX)));
    }
}
