//! Group records in reports to routers, the same in [`igmp`](crate::igmp) (version 3) and
//! [`mld`](crate::icmpv6::mld) (version 2).

/// The type of a group record (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12), without
/// source filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Record {
    /// We are a member, for all sources; the answer to a query.
    Listening = 2,
    /// We have left the group.
    Left = 3,
    /// We have joined the group.
    Joined = 4,
}
