//! A table that remembers how the rows were that the present transaction has changed.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Deref;

/// A row that a transaction changed, in one step: how it was, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Written<K, V> {
    pub key: K,
    pub before: Option<V>,
    pub after: Option<V>,
}

/// Rows by their keys. It is read as the map that it is, and changed by its own methods alone.
#[derive(Clone, Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// The changed rows as they were, in the order of the changes.
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), before: Vec::new() }
    }
}

impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

impl<K: Clone + Ord, V: Clone + PartialEq> Table<K, V> {
    pub(super) fn insert(&mut self, key: K, row: V) {
        let before = self.swap(&key, Some(row));
        self.remember(key, before);
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(before) = self.rows.remove(key) {
            self.remember(key.clone(), Some(before));
        }
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (key, row) = self.rows.get_key_value(key)?;
        let key = key.clone();
        self.before.push((key.clone(), Some(row.clone())));
        self.rows.get_mut(key.borrow())
    }

    /// The row, made if it is missing.
    pub(super) fn row(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.before.push((key.clone(), self.rows.get(&key).cloned()));
        self.rows.entry(key).or_insert_with(make)
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&K, &V) -> bool) {
        let gone: Vec<K> =
            self.rows.iter().filter(|(key, row)| !stays(key, row)).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Puts a row, or none, in its place, and remembers nothing; the row that was there.
    pub(super) fn swap(&mut self, key: &K, row: Option<V>) -> Option<V> {
        match row {
            Some(row) => self.rows.insert(key.clone(), row),
            None => self.rows.remove(key),
        }
    }

    pub(super) fn remember(&mut self, key: K, before: Option<V>) {
        self.before.push((key, before));
    }

    /// How many changes the transaction has made.
    pub(super) fn mark(&self) -> usize {
        self.before.len()
    }

    /// The change that was made last behind a mark, which is forgotten.
    pub(super) fn undone(&mut self, mark: usize) -> Option<(K, Option<V>)> {
        (self.before.len() > mark).then(|| self.before.pop()).flatten()
    }

    /// Takes back all that was changed behind a mark.
    pub(super) fn roll_back(&mut self, mark: usize) {
        while let Some((key, before)) = self.undone(mark) {
            self.swap(&key, before);
        }
    }

    pub(super) fn commit(&mut self) {
        self.before.clear();
    }

    /// What the transaction has written, in order. As in a database, a row that is given the values that it
    /// has is not written.
    pub(super) fn written(&self) -> Vec<Written<K, V>> {
        let mut later: BTreeMap<&K, &Option<V>> = BTreeMap::new();
        let mut written = Vec::new();
        for (key, before) in self.before.iter().rev() {
            let after = match later.insert(key, before) {
                Some(after) => after.clone(),
                None => self.rows.get(key).cloned(),
            };
            if *before != after {
                written.push(Written { key: key.clone(), before: before.clone(), after });
            }
        }
        written.reverse();
        written
    }

    /// Takes back changes that were committed, and are lost.
    pub(super) fn revert(&mut self, written: &[Written<K, V>]) {
        for it in written.iter().rev() {
            self.swap(&it.key, it.before.clone());
        }
    }

    /// Makes changes that another copy has committed.
    pub(super) fn replay(&mut self, written: &[Written<K, V>]) {
        for it in written {
            self.swap(&it.key, it.after.clone());
        }
    }
}
