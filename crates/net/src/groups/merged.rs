//! What a link receives of a group: the filters of all its memberships in one (RFC 3376 section
//! 3.2, RFC 3810 section 4.2).
//!
//! Owns [`Filter`] and [`Merged`]; each group of `groups` has one of the latter. It counts how
//! often a source is listed, so that a membership that comes or goes costs what its own list does.

/// What a list of sources means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The sources listed are received.
    Include,
    /// All others are.
    Exclude,
}

/// Which sources of a group a membership receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter<'a, A> {
    /// What the list means.
    pub mode: Mode,
    /// The list, in any order. To name a source twice means no more than once.
    pub sources: &'a [A],
}

impl<A> Filter<'_, A> {
    /// No source: that of who is no member.
    pub const NONE: Self = Self {
        mode: Mode::Include,
        sources: &[],
    };
    /// All sources.
    pub const ALL: Self = Self {
        mode: Mode::Exclude,
        sources: &[],
    };
}

impl<A: Copy + PartialEq> Filter<'_, A> {
    /// Whether what comes from `source` is received.
    #[must_use]
    pub fn permits(&self, source: A) -> bool {
        self.sources.contains(&source) == (self.mode == Mode::Include)
    }

    /// Each source of the list once.
    fn distinct(&self) -> impl Iterator<Item = A> {
        let before = |at| self.sources.get(..at).unwrap_or_default();
        let all = self.sources.iter().enumerate();
        all.filter(move |(at, source)| !before(*at).contains(source))
            .map(|(_, source)| *source)
    }
}

/// A source, and how many memberships list it.
#[derive(Debug, Clone, Copy)]
struct Listed<A> {
    source: A,
    including: u32,
    excluding: u32,
}

/// The filters of all memberships in a group.
#[derive(Debug)]
pub(super) struct Merged<A> {
    /// Memberships that receive all sources but those that they list.
    excluding: u32,
    /// The sources that any lists, in their order.
    listed: Vec<Listed<A>>,
}

impl<A: Copy + Ord> Merged<A> {
    /// Without memberships.
    pub(super) const EMPTY: Self = Self {
        excluding: 0,
        listed: Vec::new(),
    };

    /// Sources that are listed once a membership has the one filter in the place of the other.
    pub(super) fn len_after(&self, from: Filter<'_, A>, to: Filter<'_, A>) -> usize {
        let count = |source: A| {
            let listed = self
                .place_of(source)
                .ok()
                .and_then(|at| self.listed.get(at));
            listed.map_or(0, |l| l.including + l.excluding)
        };
        let goes = |source: &A| count(*source) == 1;
        let comes = |source: &A| match count(*source) {
            0 => true,
            1 => from.sources.contains(source),
            _ => false,
        };
        let gone = from.distinct().filter(goes).count();
        let come = to.distinct().filter(comes).count();
        (self.listed.len() + come).saturating_sub(gone)
    }

    /// Whether nothing is received.
    pub(super) fn is_none(&self) -> bool {
        self.excluding == 0 && self.listed.is_empty()
    }

    /// What [`sources`](Self::sources) means.
    pub(super) fn mode(&self) -> Mode {
        if self.excluding == 0 {
            Mode::Include
        } else {
            Mode::Exclude
        }
    }

    /// The list, in the order of addresses.
    pub(super) fn sources(&self) -> impl Iterator<Item = A> {
        let is_included = self.mode() == Mode::Include;
        let of_list = move |listed: &&Listed<A>| self.receives(listed) == is_included;
        self.listed.iter().filter(of_list).map(|l| l.source)
    }

    /// Whether what comes from `source` is received: somebody includes it, or not all that
    /// exclude some exclude it.
    pub(super) fn permits(&self, source: A) -> bool {
        match self.place_of(source) {
            Ok(at) => self.listed.get(at).is_some_and(|l| self.receives(l)),
            Err(_) => self.excluding != 0,
        }
    }

    fn receives(&self, listed: &Listed<A>) -> bool {
        listed.including != 0 || listed.excluding != self.excluding
    }

    fn place_of(&self, source: A) -> Result<usize, usize> {
        self.listed.binary_search_by_key(&source, |l| l.source)
    }

    /// A membership with this filter begins.
    pub(super) fn add(&mut self, filter: Filter<'_, A>) {
        self.excluding += u32::from(filter.mode == Mode::Exclude);
        for source in filter.distinct() {
            let place = self.place_of(source);
            let (Ok(at) | Err(at)) = place;
            if place.is_err() {
                let none = Listed {
                    source,
                    including: 0,
                    excluding: 0,
                };
                self.listed.insert(at, none);
            }
            if let Some(listed) = self.listed.get_mut(at) {
                *listed.count(filter.mode) += 1;
            }
        }
    }

    /// A membership with this filter has ended.
    pub(super) fn remove(&mut self, filter: Filter<'_, A>) {
        self.excluding = self
            .excluding
            .saturating_sub(u32::from(filter.mode == Mode::Exclude));
        for source in filter.distinct() {
            let Ok(at) = self.place_of(source) else {
                continue;
            };
            if let Some(listed) = self.listed.get_mut(at) {
                let count = listed.count(filter.mode);
                *count = count.saturating_sub(1);
                if listed.including == 0 && listed.excluding == 0 {
                    self.listed.remove(at);
                }
            }
        }
    }
}

impl<A> Listed<A> {
    fn count(&mut self, mode: Mode) -> &mut u32 {
        match mode {
            Mode::Include => &mut self.including,
            Mode::Exclude => &mut self.excluding,
        }
    }
}
