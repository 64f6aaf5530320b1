//! The stores that `benches/kv` also measures, through its adapters. Numbers are entries with keys and values
//! of eight bytes.

use super::{Key, Session, Store, Value, Values, kv, missing, value_of};
use crate::Result;

pub(crate) struct Other(pub(crate) Box<dyn kv::Store>);

impl Store for Other {
    fn preload(&self, values: Values) -> Result<()> {
        let keys: Vec<[u8; 8]> = values.keys().map(u64::to_be_bytes).collect();
        self.0.session()?.load(&mut keys.iter().map(|key| (&key[..], &[0; 8][..])))?;
        self.0.settle()
    }

    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>> {
        Ok(Box::new(InOther { session: self.0.session()?, values, thread }))
    }

    fn settle(&self) -> Result<()> {
        self.0.settle()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

struct InOther<'s> {
    session: Box<dyn kv::Session + 's>,
    values: Values,
    thread: usize,
}

impl InOther<'_> {
    fn number_key(&self, index: u64) -> [u8; 8] {
        self.values.key(self.thread, index).to_be_bytes()
    }
}

impl Session for InOther<'_> {
    fn update(&mut self, index: u64, value: u64) -> Result<()> {
        self.session.put(&self.number_key(index), &value.to_le_bytes())
    }

    fn value(&mut self, index: u64) -> Result<u64> {
        let mut value = None;
        self.session.get(&self.number_key(index), &mut |bytes| value = bytes.first_chunk().copied())?;
        value.map(u64::from_le_bytes).ok_or_else(missing)
    }

    fn insert(&mut self, keys: &[Key]) -> Result<()> {
        let entries: Vec<(&Key, Value)> = keys.iter().map(|key| (key, value_of(key))).collect();
        self.session.load(&mut entries.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
        if let [key] = keys {
            return look_up(&mut *self.session, key, see);
        }
        let mut reader = self.session.reader()?;
        keys.iter().try_for_each(|key| look_up(&mut *reader, key, see))
    }
}

/// Passes the value of a key to `see`. Returns an error if the store does not have it.
fn look_up(reader: &mut dyn kv::Reader, key: &Key, see: &mut dyn FnMut(&Key, &[u8])) -> Result<()> {
    let mut is_there = false;
    reader.get(key, &mut |value| {
        is_there = true;
        see(key, value);
    })?;
    if is_there { Ok(()) } else { Err(missing()) }
}
