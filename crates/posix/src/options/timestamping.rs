//! SO_TIMESTAMPING: which of its flags are done, and how they stand in a socket's
//! [`more_bits`], RX_SOFTWARE alone among the flags of its block. Called where it is set, asked for, or
//! of use.
//!
//! Nothing here has a clock of hardware, so what asks for its stamps is taken and yields none, as on a
//! machine without one.

use libc::c_int;
use longshore_sockets::{Socket, more_bits};

bitflags::bitflags! {
    /// The flags, of linux/net_tstamp.h.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Flags: u32 {
        /// Stamps of hardware, when a packet leaves.
        const TX_HARDWARE = 1;
        /// When a packet leaves for the device.
        const TX_SOFTWARE = 1 << 1;
        /// Stamps of hardware, when a packet comes.
        const RX_HARDWARE = 1 << 2;
        /// When a packet comes.
        const RX_SOFTWARE = 1 << 3;
        /// Stamps of software are told.
        const SOFTWARE = 1 << 4;
        /// Of no use any more.
        const SYS_HARDWARE = 1 << 5;
        /// Stamps of hardware are told.
        const RAW_HARDWARE = 1 << 6;
        /// Each stamp of what was sent says of what it is.
        const OPT_ID = 1 << 7;
        /// When a packet is about to be queued for the device.
        const TX_SCHED = 1 << 8;
        /// When all that was sent is acknowledged.
        const TX_ACK = 1 << 9;
        /// Stamps of what was sent have the messages beside them that what is received has.
        const OPT_CMSG = 1 << 10;
        /// Stamps of what was sent come without it.
        const OPT_TSONLY = 1 << 11;
        /// What TCP has counted comes beside stamps of what was sent.
        const OPT_STATS = 1 << 12;
        /// Where a packet came in comes beside stamps of hardware.
        const OPT_PKTINFO = 1 << 13;
        /// Stamps of software are told beside those of hardware.
        const OPT_TX_SWHW = 1 << 14;
        /// The clock of hardware is chosen.
        const BIND_PHC = 1 << 15;
        /// With OPT_ID, bytes are counted from what was written.
        const OPT_ID_TCP = 1 << 16;
    }
}

impl Flags {
    /// What asks for stamps of what is sent.
    pub const RECORDS: Self = Self::TX_HARDWARE
        .union(Self::TX_SOFTWARE)
        .union(Self::TX_SCHED)
        .union(Self::TX_ACK);
    /// What is not done: to this, a kernel answers that is older than the flag.
    const UNKNOWN: Self = Self::OPT_STATS;

    /// The flags of a value that a program sets.
    ///
    /// # Errors
    /// The errno: EINVAL for flags that are not known, or that need others; EOPNOTSUPP for a
    /// clock of hardware; ENOPROTOOPT for what is not done for this kind of socket.
    pub fn of_value(value: u32, stream: bool) -> Result<Self, c_int> {
        let flags = Self::from_bits(value).ok_or(libc::EINVAL)?;
        if flags.intersects(Self::UNKNOWN)
            || flags.contains(Self::OPT_ID_TCP) && !flags.contains(Self::OPT_ID)
        {
            return Err(libc::EINVAL);
        }
        if flags.contains(Self::BIND_PHC) {
            return Err(libc::EOPNOTSUPP);
        }
        // When the bytes of a stream came is not kept.
        if stream && flags.contains(Self::RX_SOFTWARE) {
            return Err(libc::ENOPROTOOPT);
        }
        Ok(flags)
    }

    /// Those of a socket.
    #[must_use]
    pub fn of(socket: &Socket) -> Self {
        let mut flags = Self::of_bits(socket.more_bits());
        flags.set(Self::RX_SOFTWARE, socket.options().stamps_arrivals());
        flags
    }

    /// What a message beside a datagram asks for, of it alone.
    ///
    /// # Errors
    /// EINVAL for flags that ask for nothing of what is sent.
    pub fn of_message(value: u32) -> Result<Self, c_int> {
        let flags = Self::from_bits(value).ok_or(libc::EINVAL)?;
        match Self::RECORDS.contains(flags) {
            true => Ok(flags),
            false => Err(libc::EINVAL),
        }
    }

    /// Those of a socket with these `more_bits`, but RX_SOFTWARE.
    fn of_bits(more_bits: u64) -> Self {
        let bits = (more_bits & more_bits::TIMESTAMPING) >> more_bits::TIMESTAMPING_SHIFT;
        let mut flags = Self::from_bits_truncate(bits as u32 & !Self::UNKNOWN.bits());
        // It stands where a flag would that is never set.
        flags.set(Self::OPT_ID_TCP, bits as u32 & Self::UNKNOWN.bits() != 0);
        flags
    }

    /// Keeps them in a socket's bits.
    pub fn keep(self, socket: &Socket) {
        socket.clear_more_bits(more_bits::TIMESTAMPING & !self.to_bits());
        socket.set_more_bits(self.to_bits());
        let arrivals = self.contains(Self::RX_SOFTWARE);
        socket.options().note_stamps_arrivals(arrivals);
    }

    /// As a socket's bits have them.
    fn to_bits(self) -> u64 {
        let last = match self.contains(Self::OPT_ID_TCP) {
            true => Self::UNKNOWN.bits(),
            false => 0,
        };
        let flags = u64::from((self - Self::UNKNOWN).bits() | last);
        flags << more_bits::TIMESTAMPING_SHIFT & more_bits::TIMESTAMPING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_kept() {
        let never_kept = Flags::RX_SOFTWARE | Flags::UNKNOWN | Flags::BIND_PHC;
        for flag in (Flags::all() - never_kept).iter() {
            let flags = flag | Flags::SOFTWARE;
            let bits = flags.to_bits();
            assert_eq!(bits & !more_bits::TIMESTAMPING, 0);
            assert_eq!(
                Flags::of_bits(bits | !more_bits::TIMESTAMPING),
                flags,
                "{flag:?}"
            );
        }
        assert_eq!(Flags::of_bits(0), Flags::empty());
    }

    #[test]
    fn what_is_not_done_is_refused() {
        let value = |flags: Flags, stream| Flags::of_value(flags.bits(), stream);
        let (sent, told) = (Flags::TX_ACK | Flags::TX_SOFTWARE, Flags::SOFTWARE);
        assert_eq!(value(sent | told, true), Ok(sent | told));
        assert_eq!(value(sent | told, false), Ok(sent | told));
        assert_eq!(value(Flags::RX_SOFTWARE, true), Err(libc::ENOPROTOOPT));
        let arrivals = Flags::RX_SOFTWARE | told;
        assert_eq!(value(arrivals, false), Ok(arrivals));
        assert_eq!(Flags::of_message(sent.bits()), Ok(sent));
        assert_eq!(Flags::of_message(0), Ok(Flags::empty()));
        assert_eq!(Flags::of_message((sent | told).bits()), Err(libc::EINVAL));
        assert_eq!(value(Flags::empty(), false), Ok(Flags::empty()));
        let hardware = Flags::TX_HARDWARE | Flags::RX_HARDWARE | Flags::RAW_HARDWARE;
        assert_eq!(value(hardware, true), Ok(hardware));
        assert_eq!(Flags::of_value(1 << 17, true), Err(libc::EINVAL));
        assert_eq!(
            value(Flags::OPT_STATS | Flags::OPT_TSONLY, true),
            Err(libc::EINVAL)
        );
        assert_eq!(value(Flags::OPT_ID_TCP, true), Err(libc::EINVAL));
        let both = Flags::OPT_ID_TCP | Flags::OPT_ID;
        assert_eq!(value(both, true), Ok(both));
        assert_eq!(value(Flags::BIND_PHC, true), Err(libc::EOPNOTSUPP));
    }
}
