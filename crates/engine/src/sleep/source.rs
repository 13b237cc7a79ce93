//! The descriptors that wake the engine, by what an event on one of them means, and how that is
//! kept in the 64 bits that `epoll` gives back.

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Port,
    Attach,
    Doorbell(u32),
    /// Processes have ended.
    Deaths,
    Control,
    Orders,
    PortLink,
}

impl Source {
    pub(super) fn encode(self) -> u64 {
        let (kind, value): (u64, u64) = match self {
            Self::Port => (0, 0),
            Self::Attach => (1, 0),
            Self::Doorbell(session) => (3, u64::from(session)),
            Self::Control => (5, 0),
            Self::Orders => (6, 0),
            Self::PortLink => (7, 0),
            Self::Deaths => (8, 0),
        };
        kind << 56 | value
    }

    pub(super) fn decode(raw: u64) -> Self {
        let value = raw & ((1 << 56) - 1);
        match raw >> 56 {
            0 => Self::Port,
            1 => Self::Attach,
            3 => Self::Doorbell(value as u32),
            5 => Self::Control,
            6 => Self::Orders,
            8 => Self::Deaths,
            _ => Self::PortLink,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_back() {
        let all = [
            Source::Port,
            Source::Attach,
            Source::Doorbell(3),
            Source::Control,
            Source::Orders,
            Source::PortLink,
            Source::Deaths,
        ];
        for s in all {
            assert_eq!(Source::decode(s.encode()), s);
        }
    }
}
