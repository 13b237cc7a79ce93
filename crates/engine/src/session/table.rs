//! The sessions of an engine, by the keys that its stack has for them.

use super::Session;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Vec<Option<Session>>);

impl Sessions {
    /// Enters a session under the key that the stack has given it.
    pub(crate) fn insert(&mut self, key: u32, session: Session) {
        let place = key as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(session);
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<Session> {
        self.0.get_mut(key as usize)?.take()
    }

    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&Session> {
        self.0.get(key as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Session> {
        self.0.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Session)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(key, s)| Some((key as u32, s.as_ref()?)))
    }

    /// The keys of all sessions that this says.
    pub(crate) fn find_all(&self, is_it: impl Fn(&Session) -> bool) -> Vec<u32> {
        let found = self.iter().filter(|(_, s)| is_it(s));
        found.map(|(key, _)| key).collect()
    }

    /// The key of the session that this says.
    pub(crate) fn find(&self, is_it: impl Fn(&Session) -> bool) -> Option<u32> {
        let found = self.iter().find(|(_, s)| is_it(s));
        found.map(|(key, _)| key)
    }
}
