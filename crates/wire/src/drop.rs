//! The macro by which each crate that drops packets enumerates the reasons.

/// Defines an enumeration of reasons, each with the name of its counter, and the
/// functions for a table of these counters.
///
/// ```
/// longshore_wire::drop_reasons! {
///     /// Why a letter was not taken.
///     pub enum Refusal;
///     /// It is not for us.
///     Stray = "stray",
///     /// It cannot be read.
///     Illegible = "illegible",
/// }
/// assert_eq!(Refusal::ALL[Refusal::Illegible.index()].name(), "illegible");
/// assert_eq!(Refusal::COUNT, 2);
/// assert_eq!(Refusal::Stray.help(), "It is not for us.");
/// ```
#[macro_export]
macro_rules! drop_reasons {
    (
        $(#[doc = $about:literal])+
        pub enum $reasons:ident;
        $($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $reasons { $($(#[doc = $doc])+ $variant,)+ }

        impl $reasons {
            /// All reasons, in the order of `index`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The number of reasons.
            pub const COUNT: usize = Self::ALL.len();

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// A description of the reason.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim(),)+ }
            }

            /// Its index in a table of `COUNT` counters.
            #[must_use]
            pub const fn index(self) -> usize { self as usize }
        }
    };
}
