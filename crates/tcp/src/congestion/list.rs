//! The list of congestion control algorithms.
//!
//! Owns [`Congestion`], from which programs and the engine choose, and [`Chosen`], the
//! state of the chosen algorithm. Both are generated from one list with a line for each
//! algorithm; everything else about an algorithm comes from its [`Kind`].

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::newreno::NewReno;
use super::{Algorithm, Kind};
use crate::codec::{Invalid, Reader, Save, Writer};

/// The longest name, bytes (TCP_CA_NAME_MAX, which includes the terminating 0).
const NAME_LEN: usize = 15;

macro_rules! algorithms {
    ($($(#[$what:meta])* $name:ident,)+) => {
        /// The congestion control algorithm (TCP_CONGESTION).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Congestion {
            $($(#[$what])* $name,)+
        }

        impl Congestion {
            /// All algorithms.
            pub const ALL: [Congestion; [$(stringify!($name)),+].len()] =
                [$(Congestion::$name),+];

            /// The name that TCP_CONGESTION uses for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Congestion::$name => <$name as Kind>::NAME,)+
                }
            }

            /// See [`Kind::WANTS_RATES`].
            pub(crate) const fn wants_rates(self) -> bool {
                match self {
                    $(Congestion::$name => <$name as Kind>::WANTS_RATES,)+
                }
            }

            /// See [`Kind::WANTS_MARKS`].
            pub(crate) const fn wants_marks(self) -> bool {
                match self {
                    $(Congestion::$name => <$name as Kind>::WANTS_MARKS,)+
                }
            }
        }

        /// The state of the chosen algorithm.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Chosen {
            $($name($name),)+
        }

        impl Chosen {
            /// The initial state of an algorithm.
            pub(super) fn new(which: Congestion) -> Chosen {
                match which {
                    $(Congestion::$name => Chosen::$name(Kind::new()),)+
                }
            }

            /// The algorithm that was chosen.
            pub(super) const fn which(&self) -> Congestion {
                match self {
                    $(Chosen::$name(_) => Congestion::$name,)+
                }
            }

            /// See [`Algorithm::pacing_rate`].
            pub(super) fn pacing_rate(&self) -> Option<u64> {
                match self {
                    $(Chosen::$name(a) => a.pacing_rate(),)+
                }
            }

            /// The algorithm's event handlers.
            pub(super) fn algorithm(&mut self) -> &mut dyn Algorithm {
                match self {
                    $(Chosen::$name(a) => a,)+
                }
            }
        }
    };
}

algorithms! {
    /// RFC 5681 and RFC 6582, counted in bytes as in RFC 3465.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257; requests ECN in any mode.
    Dctcp,
    /// draft-ietf-ccwg-bbr, paced.
    Bbr,
}

impl Default for Congestion {
    /// Linux's.
    fn default() -> Self {
        Congestion::Cubic
    }
}

impl Congestion {
    /// The algorithm with this TCP_CONGESTION name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Congestion> {
        Congestion::ALL.into_iter().find(|c| c.name() == name)
    }
}

/// Saved by name, at TCP_CONGESTION's length, so that the list may be reordered.
impl Save for Congestion {
    const LEN: usize = NAME_LEN;

    fn save(&self, out: &mut Writer<'_>) {
        let mut bytes = [0; NAME_LEN];
        for (to, from) in bytes.iter_mut().zip(self.name().bytes()) {
            *to = from;
        }
        out.put(bytes);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        let bytes: [u8; NAME_LEN] = from.take()?;
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let known = |c: &Congestion| c.name().as_bytes() == name;
        let found = Congestion::ALL.into_iter().find(known);
        found.ok_or(Invalid("a congestion control that is not known here"))
    }
}
