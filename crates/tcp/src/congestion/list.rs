//! All congestion control algorithms.
//!
//! Owns [`Congestion`], which programs and the engine choose from, and [`Chosen`], the
//! state of the one that was chosen. Both are made from one list, which has a line for
//! each algorithm; everything else that is to be known of one is said by its [`Kind`].

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::newreno::NewReno;
use super::{Algorithm, Kind};
use crate::codec::{Invalid, Reader, Save, Writer};

/// Bytes of a name at most (TCP_CA_NAME_MAX, which counts the 0 at its end).
const NAME_LEN: usize = 15;

macro_rules! algorithms {
    ($($(#[$what:meta])* $name:ident,)+) => {
        /// The congestion control algorithm (TCP_CONGESTION).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Congestion {
            $($(#[$what])* $name,)+
        }

        impl Congestion {
            /// All there are.
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

        /// The algorithm that was chosen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Chosen {
            $($name($name),)+
        }

        impl Chosen {
            /// For a new connection.
            pub(super) fn new(which: Congestion) -> Chosen {
                match which {
                    $(Congestion::$name => Chosen::$name(Kind::new()),)+
                }
            }

            /// Which one it is.
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

            /// To tell it what has happened.
            pub(super) fn algorithm(&mut self) -> &mut dyn Algorithm {
                match self {
                    $(Chosen::$name(a) => a,)+
                }
            }
        }
    };
}

algorithms! {
    /// RFC 5681 and RFC 6582, counted in bytes as RFC 3465 has it.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257; asks for ECN on its own.
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

/// By its name, so that the list may grow in any order: as many bytes of it as
/// TCP_CONGESTION has.
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
