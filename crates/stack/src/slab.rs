//! A table of plain entries named by small numbers, which are given again
//! after an entry is gone.

/// The table.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds an entry; its key.
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(key) = self.free.pop()
            && let Some(place) = self.entries.get_mut(key as usize)
        {
            *place = Some(entry);
            return key;
        }
        self.entries.push(Some(entry));
        self.entries.len() as u32 - 1
    }

    /// Takes an entry out. Its key may be given again.
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let entry = self.entries.get_mut(key as usize)?.take();
        if entry.is_some() {
            self.free.push(key);
        }
        entry
    }

    /// The entry of this key.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.entries.get(key as usize)?.as_ref()
    }

    /// The entry of this key, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.entries.get_mut(key as usize)?.as_mut()
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// One more than the largest key that was ever given.
    pub(crate) fn end(&self) -> u32 {
        self.entries.len() as u32
    }

    /// All entries with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(i, e)| Some((i as u32, e.as_ref()?)))
    }

    /// All entries with their keys, to be changed.
    pub(crate) fn iter_mut_with_keys(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let all = self.entries.iter_mut().enumerate();
        all.filter_map(|(i, e)| Some((i as u32, e.as_mut()?)))
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_again() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(
            (slab.get(a), slab.get(b), slab.len()),
            (None, Some(&'b'), 1)
        );
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.keys(), [a, b]);
    }
}
