//! Group records in reports to routers and the sources in queries of theirs, the same in
//! [`igmp`](crate::igmp) (version 3) and [`mld`](crate::icmpv6::mld) (version 2).

use crate::bytes::{put, put16, rest_mut};

/// The type of a group record (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Record {
    /// The sources listed are received, and no others; the answer to a query.
    IsInclude = 1,
    /// All sources but those listed are received; the answer to a query.
    IsExclude = 2,
    /// The sources listed are received from now on, and no others: without any, the group has
    /// been left.
    ToInclude = 3,
    /// All sources but those listed are received from now on.
    ToExclude = 4,
    /// The sources listed are received, too, from now on.
    Allow = 5,
    /// The sources listed are received no longer.
    Block = 6,
}

impl Record {
    /// Whether those sources are listed that are not received.
    #[must_use]
    pub const fn excludes(self) -> bool {
        matches!(self, Self::IsExclude | Self::ToExclude)
    }
}

/// Bytes of a record before its sources, beside its group.
const BEFORE_GROUP: usize = 4;

/// Length of a record with so many sources, in bytes, if an address has `N`.
pub(crate) const fn record_len<const N: usize>(sources: usize) -> usize {
    BEFORE_GROUP + N * (1 + sources)
}

/// Writes a group's record with at most 65,535 sources; gives its length. `bytes` must not be
/// shorter than that.
pub(crate) fn emit_record<const N: usize>(
    record: Record,
    group: [u8; N],
    sources: impl Iterator<Item = [u8; N]>,
    bytes: &mut [u8],
) -> usize {
    put(bytes, BEFORE_GROUP, group);
    let mut count: u16 = 0;
    let list = rest_mut(bytes, BEFORE_GROUP + N);
    for (source, place) in sources.zip(list.chunks_exact_mut(N)) {
        place.copy_from_slice(&source);
        count += 1;
    }
    put(bytes, 0, [record as u8, 0]);
    put16(bytes, 2, count);
    record_len::<N>(count.into())
}

/// The sources that a query names, of whose message `rest` is what stands behind the group (RFC
/// 3376 section 4.1, RFC 3810 section 5.1): none, if it is about all of the group or of an older
/// version. `None` if there are fewer than it says.
#[must_use]
pub fn sources<const N: usize>(rest: &[u8]) -> Option<&[[u8; N]]> {
    let Some((&[_, _, high, low], list)) = rest.split_first_chunk() else {
        return Some(&[]);
    };
    let (list, _) = list.as_chunks();
    list.get(..u16::from_be_bytes([high, low]).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_of_exclusion_exclude() {
        use Record::{Allow, Block, IsExclude, IsInclude, ToExclude, ToInclude};
        assert!([IsExclude, ToExclude].into_iter().all(Record::excludes));
        let others = [IsInclude, ToInclude, Allow, Block];
        assert!(!others.into_iter().any(Record::excludes));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            group: [u8; 4],
            list in proptest::collection::vec(any::<[u8; 4]>(), 0..9),
        ) {
            let mut bytes = [0xee; 60];
            let len = emit_record(Record::Block, group, list.iter().copied(), &mut bytes);
            prop_assert_eq!(len, record_len::<4>(list.len()));
            prop_assert_eq!(bytes[len], 0xee);
            prop_assert_eq!(bytes[..2].to_vec(), [6, 0]);
            prop_assert_eq!(&bytes[4..8], &group);
            // The list stands in a query as it does here, without the group.
            let rest = [&bytes[..4], &bytes[8..len]].concat();
            prop_assert_eq!(sources::<4>(&rest), Some(&list[..]));
            if !list.is_empty() {
                prop_assert_eq!(sources::<4>(&rest[..rest.len() - 1]), None);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(list) = sources::<16>(&bytes) {
                prop_assert!(list.len() * 16 + 4 <= bytes.len().max(4));
            }
        }
    }
}
