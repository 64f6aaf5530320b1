//! RocksDB, through its C API. The shared library is loaded when the benchmark runs, so building the
//! benchmark does not build RocksDB.

use super::{Reader, Session, Store};
use crate::Result;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

/// The library of Debian's librocksdb7.8, or that of librocksdb-dev.
const NAMES: [&str; 2] = ["librocksdb.so.7.8", "librocksdb.so"];

/// An object of the library.
type Object = *mut c_void;
type Failure = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $out:ty)?;)*) => {
        /// The functions of the library that the benchmark uses.
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) $(-> $out)?,)*
            _library: Library,
        }

        impl Functions {
            fn load(library: Library) -> std::result::Result<Functions, libloading::Error> {
                Ok(Functions {
                    // SAFETY: these are the types in rocksdb/c.h.
                    $($name: unsafe { *library.get(concat!("rocksdb_", stringify!($name), "\0").as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    options_create: fn() -> Object;
    options_set_create_if_missing: fn(Object, u8);
    options_set_compression: fn(Object, c_int);
    options_increase_parallelism: fn(Object, c_int);
    options_set_block_based_table_factory: fn(Object, Object);
    block_based_options_create: fn() -> Object;
    block_based_options_set_block_cache: fn(Object, Object);
    cache_create_lru: fn(usize) -> Object;
    open: fn(Object, *const c_char, Failure) -> Object;
    close: fn(Object);
    writeoptions_create: fn() -> Object;
    writeoptions_set_sync: fn(Object, u8);
    readoptions_create: fn() -> Object;
    put: fn(Object, Object, *const u8, usize, *const u8, usize, Failure);
    delete: fn(Object, Object, *const u8, usize, Failure);
    get_pinned: fn(Object, Object, *const u8, usize, Failure) -> Object;
    pinnableslice_value: fn(Object, *mut usize) -> *const u8;
    pinnableslice_destroy: fn(Object);
    writebatch_create: fn() -> Object;
    writebatch_put: fn(Object, *const u8, usize, *const u8, usize);
    writebatch_delete: fn(Object, *const u8, usize);
    writebatch_destroy: fn(Object);
    write: fn(Object, Object, Object, Failure);
    create_iterator: fn(Object, Object) -> Object;
    iter_seek: fn(Object, *const u8, usize);
    iter_valid: fn(Object) -> u8;
    iter_next: fn(Object);
    iter_key: fn(Object, *mut usize) -> *const u8;
    iter_value: fn(Object, *mut usize) -> *const u8;
    iter_destroy: fn(Object);
    compact_range: fn(Object, *const u8, usize, *const u8, usize);
    flush_wal: fn(Object, u8, Failure);
    free: fn(*mut c_char);
}

fn functions() -> Option<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let load = || {
        // SAFETY: the library has no initialization that could break this program.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
        Functions::load(library).ok()
    };
    FUNCTIONS.get_or_init(load).as_ref()
}

/// Returns whether the library is installed.
pub(crate) fn is_there() -> bool {
    functions().is_some()
}

/// A database with the default options, except no compression, background threads for all processors, and a
/// cache of the size that the other stores have.
pub(crate) struct RocksDb {
    f: &'static Functions,
    db: Object,
    write: Object,
    read: Object,
}

// SAFETY: threads may use the library's databases and options at the same time.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    pub(crate) fn open(dir: &Path, sync: bool, cache: usize) -> Result<RocksDb> {
        let f = functions().ok_or("there is no librocksdb.so: it is in Debian's package librocksdb-dev")?;
        let path = CString::new(dir.join("rocksdb").to_str().ok_or("a path that is no text")?)?;
        let processors = std::thread::available_parallelism()?.get() as c_int;
        // SAFETY: the objects were just made, and the string outlives the call. The options are not freed; a
        // run has one of each.
        unsafe {
            let (options, table) = ((f.options_create)(), (f.block_based_options_create)());
            (f.options_set_create_if_missing)(options, 1);
            (f.options_set_compression)(options, 0);
            (f.options_increase_parallelism)(options, processors.max(2));
            (f.block_based_options_set_block_cache)(table, (f.cache_create_lru)(cache));
            (f.options_set_block_based_table_factory)(options, table);
            let write = (f.writeoptions_create)();
            (f.writeoptions_set_sync)(write, sync.into());
            let db = attempt(f, |failure| (f.open)(options, path.as_ptr(), failure))?;
            Ok(RocksDb { f, db, write, read: (f.readoptions_create)() })
        }
    }
}

impl RocksDb {
    /// Commits the changes that `fill` puts into a batch.
    fn write(&self, fill: impl FnOnce(&Functions, Object)) -> Result<()> {
        let RocksDb { f, db, write, .. } = *self;
        // SAFETY: the database is open, and the batch is used before it is freed once.
        unsafe {
            let batch = (f.writebatch_create)();
            fill(f, batch);
            let result = attempt(f, |failure| (f.write)(db, write, batch, failure));
            (f.writebatch_destroy)(batch);
            result
        }
    }
}

/// Calls a function that returns errors in its last argument.
fn attempt<R>(f: &Functions, call: impl FnOnce(Failure) -> R) -> Result<R> {
    let mut failure = ptr::null_mut();
    let result = call(&raw mut failure);
    if failure.is_null() {
        return Ok(result);
    }
    // SAFETY: the library has set `failure` to a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(failure) }.to_string_lossy().into_owned();
    // SAFETY: the library allocated the string for the caller, and it is not used any more.
    unsafe { (f.free)(failure) };
    Err(text.into())
}

/// Returns bytes that belong to the library.
///
/// # Safety
/// `of` must return a pointer to as many bytes as it stores in its argument, or null. The bytes must live for
/// `'a`.
unsafe fn bytes<'a>(of: impl FnOnce(*mut usize) -> *const u8) -> &'a [u8] {
    let mut len = 0;
    let start = of(&raw mut len);
    // SAFETY: the caller guarantees that `start` points to `len` bytes that live for `'a`.
    if start.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
}

impl Store for RocksDb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(InRocksDb(self)))
    }

    fn settle(&self) -> Result<()> {
        // SAFETY: the database is open.
        attempt(self.f, |failure| unsafe { (self.f.flush_wal)(self.db, 1, failure) })
    }

    /// Counts the entries, because the library has no exact number.
    fn len(&self) -> Result<u64> {
        let mut len = 0;
        InRocksDb(self).scan(&[], usize::MAX, &mut |_, _| len += 1)?;
        Ok(len)
    }

    fn compact(&mut self) -> Result<bool> {
        // SAFETY: the database is open. Null stands for the first and the last key.
        unsafe { (self.f.compact_range)(self.db, ptr::null(), 0, ptr::null(), 0) };
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: the database is open, and `self` is not used any more.
        unsafe { (self.f.close)(self.db) };
    }
}

struct InRocksDb<'s>(&'s RocksDb);

impl Reader for InRocksDb<'_> {
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()> {
        let RocksDb { f, db, read, .. } = *self.0;
        // SAFETY: the database is open, and the key outlives the call.
        let slice =
            attempt(f, |failure| unsafe { (f.get_pinned)(db, read, key.as_ptr(), key.len(), failure) })?;
        if !slice.is_null() {
            // SAFETY: the value lives until `slice` is freed below.
            see(unsafe { bytes(|len| (f.pinnableslice_value)(slice, len)) });
            // SAFETY: `slice` is freed once, and not used any more.
            unsafe { (f.pinnableslice_destroy)(slice) };
        }
        Ok(())
    }

    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let RocksDb { f, db, read, .. } = *self.0;
        // SAFETY: the database is open. The iterator is freed once. Keys and values live until it moves.
        unsafe {
            let entries = (f.create_iterator)(db, read);
            (f.iter_seek)(entries, from.as_ptr(), from.len());
            for _ in 0..most {
                if (f.iter_valid)(entries) == 0 {
                    break;
                }
                see(bytes(|len| (f.iter_key)(entries, len)), bytes(|len| (f.iter_value)(entries, len)));
                (f.iter_next)(entries);
            }
            (f.iter_destroy)(entries);
        }
        Ok(())
    }
}

impl Session for InRocksDb<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let RocksDb { f, db, write, .. } = *self.0;
        let (key, key_len, value, value_len) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: the database is open, and key and value outlive the call.
        attempt(f, |failure| unsafe { (f.put)(db, write, key, key_len, value, value_len, failure) })
    }

    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        self.0.write(|f, batch| {
            for (key, value) in entries {
                // SAFETY: the batch is not freed yet, and key and value outlive the call.
                unsafe { (f.writebatch_put)(batch, key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
            }
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let RocksDb { f, db, write, .. } = *self.0;
        // SAFETY: the database is open, and the key outlives the call.
        attempt(f, |failure| unsafe { (f.delete)(db, write, key.as_ptr(), key.len(), failure) })
    }

    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        self.0.write(|f, batch| {
            for key in keys {
                // SAFETY: the batch is not freed yet, and the key outlives the call.
                unsafe { (f.writebatch_delete)(batch, key.as_ptr(), key.len()) };
            }
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(InRocksDb(self.0)))
    }
}
