//! What a host says to routers of a group, the same in [`igmp`](crate::igmp) (version 3)
//! and [`mld`](crate::icmpv6::mld) (version 2).

/// What a report says of a group: the record's type (RFC 3376 section 4.2.12, RFC 3810
/// section 5.2.12), where every source is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Record {
    /// We listen to it, from any sender; the answer to a query.
    Listening = 2,
    /// We do not any more.
    Left = 3,
    /// We have begun to.
    Joined = 4,
}
