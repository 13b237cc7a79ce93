//! Which channels get a socket's completions: those of the processes that have it.
//!
//! Each socket of the engine owns one. A few have their place in it; where more processes
//! share a socket, as a listener that many workers inherit, the rest have a bit each in
//! memory of its own.

/// Words of a bit for each channel that an arena can have.
const WORDS: usize = 16;

/// The channels of those who subscribed to a socket.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Subscribers {
    channels: [u16; Self::INSIDE],
    count: u8,
    others: Option<Box<[u64; WORDS]>>,
}

impl Subscribers {
    /// How many find place without memory of their own.
    const INSIDE: usize = 7;

    /// No channel.
    pub const NONE: Self = Self {
        channels: [0; Self::INSIDE],
        count: 0,
        others: None,
    };

    /// A single channel.
    #[must_use]
    pub fn one(channel: u16) -> Self {
        let mut s = Self::default();
        s.add(channel);
        s
    }

    /// For a connection that nobody has accepted yet: where only one process may accept it,
    /// that one, so that it need not ask. Of several, nobody is told until one has accepted
    /// it and subscribes: a report to all of them would wake all of them.
    #[must_use]
    pub fn of_accepted(acceptor: Option<u16>) -> Self {
        acceptor.map_or_else(Self::default, Self::one)
    }

    /// Adds a channel.
    pub fn add(&mut self, channel: u16) {
        if self.contains(channel) {
            return;
        }
        if let Some(place) = self.channels.get_mut(usize::from(self.count)) {
            *place = channel;
            self.count += 1;
            return;
        }
        let others = self.others.get_or_insert_default();
        if let Some(word) = others.get_mut(usize::from(channel) / 64) {
            *word |= 1 << (channel % 64);
        }
    }

    /// Takes a channel away.
    pub fn remove(&mut self, channel: u16) {
        let place = self.inside().iter().position(|c| *c == channel);
        if let Some(at) = place {
            self.count -= 1;
            self.channels.swap(at, usize::from(self.count));
            return;
        }
        let Some(others) = &mut self.others else {
            return;
        };
        if let Some(word) = others.get_mut(usize::from(channel) / 64) {
            *word &= !(1 << (channel % 64));
        }
        if others.iter().all(|word| *word == 0) {
            self.others = None;
        }
    }

    fn inside(&self) -> &[u16] {
        let inside = self.channels.get(..usize::from(self.count));
        inside.unwrap_or_default()
    }

    /// Whether a channel is among them.
    #[must_use]
    pub fn contains(&self, channel: u16) -> bool {
        let word = |words: &[u64; WORDS]| words.get(usize::from(channel) / 64).copied();
        let others = self.others.as_deref().and_then(word).unwrap_or(0);
        self.inside().contains(&channel) || others & 1 << (channel % 64) != 0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let words = self.others.iter().flat_map(|words| words.iter());
        let others: u32 = words.map(|word| word.count_ones()).sum();
        usize::from(self.count) + others as usize
    }

    fn others(&self) -> impl Iterator<Item = u16> + '_ {
        let words = self
            .others
            .iter()
            .flat_map(|words| words.iter().enumerate());
        words.flat_map(|(i, word)| {
            let bits = (0..64u16).filter(move |bit| word & 1 << bit != 0);
            bits.map(move |bit| i as u16 * 64 + bit)
        })
    }

    /// All of them, of which there is one as a rule.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.inside().iter().copied().chain(self.others())
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.others.is_none()
    }

    /// Whether there is more than one.
    #[inline]
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.count > 1 || self.others.is_some()
    }

    /// The only one, if there is only one.
    #[inline]
    #[must_use]
    pub fn single(&self) -> Option<u16> {
        (self.count == 1 && self.others.is_none()).then(|| self.channels[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_processes_share_a_socket() {
        // Those beyond the first few are in two words at least.
        let all = if cfg!(miri) { 55..75 } else { 0..200 };
        let last = all.end - 5;
        let mut s = Subscribers::default();
        for channel in all.clone() {
            s.add(channel);
            s.add(channel);
        }
        assert_eq!(
            s.iter().collect::<Vec<_>>(),
            all.clone().collect::<Vec<_>>()
        );
        for channel in all.filter(|c| *c != last) {
            assert!(s.contains(channel));
            s.remove(channel);
            assert!(!s.contains(channel));
            assert_eq!(s.len(), s.iter().count());
        }
        assert_eq!(s.iter().collect::<Vec<_>>(), [last]);
        s.remove(last);
        assert_eq!(
            s,
            Subscribers {
                channels: s.channels,
                ..Subscribers::default()
            }
        );
    }

    #[test]
    fn of_several_that_listen_only_who_accepts_is_told() {
        let mut listener = Subscribers::one(1);
        listener.add(2);
        let mut accepted = Subscribers::of_accepted(listener.single());
        assert_eq!(accepted.iter().count(), 0);
        accepted.add(2);
        assert_eq!(accepted.single(), Some(2));
        accepted.add(5);
        accepted.remove(2);
        assert_eq!(accepted.single(), Some(5));
    }

    #[test]
    fn a_single_listener_gets_its_connections_at_once() {
        let mut accepted = Subscribers::of_accepted(Subscribers::one(7).single());
        accepted.add(9);
        assert_eq!(accepted.iter().collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn one_several_and_none_are_told_apart() {
        let mut s = Subscribers::NONE;
        for channel in 0..9 {
            assert_eq!(s.len(), usize::from(channel));
            assert_eq!((s.is_empty(), s.are_several()), (channel == 0, channel > 1));
            assert_eq!(s.single(), (channel == 1).then_some(0));
            s.add(channel);
        }
        // Those that had no place of their own are left.
        (0..7).for_each(|channel| s.remove(channel));
        assert!(!s.is_empty() && s.are_several() && s.single().is_none());
        s.remove(7);
        assert!(!s.is_empty() && s.contains(8));
        s.remove(8);
        assert!(s.is_empty() && !s.are_several());
    }
}
