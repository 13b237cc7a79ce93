//! The form in which each crate that takes packets enumerates why it drops them.

/// Makes an enumeration of reasons, each with the name of its counter, and what a table of
/// these counters needs.
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
            /// Every reason, in the order of `index`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name of its counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What happened, in a sentence or two.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim(),)+ }
            }

            /// Its place in a table of `COUNT` counters.
            #[must_use]
            pub const fn index(self) -> usize { self as usize }
        }
    };
}
