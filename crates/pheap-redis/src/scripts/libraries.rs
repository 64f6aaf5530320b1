//! The loaded function libraries, which all threads share. The heap has the texts of the libraries, too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::scripts::ScriptFlags;

/// A function library.
#[derive(Debug)]
pub struct Library {
    /// The number by which threads know the library. No other library has this number while the server runs.
    pub number: u64,
    /// The name of the library.
    pub name: String,
    /// The text of the library.
    pub text: Vec<u8>,
    /// Length of the first line without its end. Lua does not compile the line.
    pub shebang: usize,
    /// The functions of the library.
    pub functions: Vec<Function>,
}

/// A function of a library.
#[derive(Debug)]
pub struct Function {
    /// The name of the function.
    pub name: String,
    /// The description that the library gives of the function.
    pub description: Option<Vec<u8>>,
    /// The flags that the function declares.
    pub declared: ScriptFlags,
}

impl Library {
    /// Returns the text for Lua: from the end of the first line on.
    pub fn code(&self) -> &[u8] {
        &self.text[self.shebang..]
    }
}

/// A snapshot of all loaded libraries.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    by_name: BTreeMap<String, Arc<Library>>,
    /// Functions by their lowercase names: the library, and the index in `Library::functions`.
    functions: HashMap<String, (Arc<Library>, usize)>,
}

impl Loaded {
    /// Returns the library with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(std::str::from_utf8(name).ok()?)
    }

    /// Returns the function with this name in any case, and its library.
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &Function)> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (library, at) = self.functions.get(&name)?;
        Some((library, &library.functions[*at]))
    }

    /// Returns all libraries, in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns the number of functions.
    pub fn functions(&self) -> usize {
        self.functions.len()
    }

    /// Removes the library with this name, and its functions. Returns the library.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Library>> {
        let library = self.by_name.remove(name)?;
        self.functions.retain(|_, (of, _)| of.number != library.number);
        Some(library)
    }

    /// Adds a library. No library may have this name yet.
    ///
    /// # Errors
    /// If another library has a function of the same name. The error is this name, and nothing is changed.
    pub fn add(&mut self, library: Arc<Library>) -> Result<(), String> {
        let lower = |function: &Function| function.name.to_ascii_lowercase();
        if let Some(taken) = library.functions.iter().find(|f| self.functions.contains_key(&lower(f))) {
            return Err(taken.name.clone());
        }
        for (at, function) in library.functions.iter().enumerate() {
            self.functions.insert(lower(function), (library.clone(), at));
        }
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }
}

/// The loaded libraries.
#[derive(Debug, Default)]
pub struct Libraries {
    loaded: RwLock<Arc<Loaded>>,
    next: AtomicU64,
    /// Whether `loaded` may differ from the heap if the transaction that set it is rolled back.
    is_unsure: AtomicBool,
}

impl Libraries {
    /// Returns the libraries that are loaded now.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().clone()
    }

    /// Replaces the loaded libraries. The caller has locked the heap's root of libraries.
    pub fn set(&self, loaded: Loaded) {
        *self.loaded.write() = Arc::new(loaded);
        self.is_unsure.store(true, Ordering::Release);
    }

    /// Returns a new number for a library.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether the libraries have to be compared with the heap after a rollback, and resets this
    /// flag.
    pub fn are_unsure(&self) -> bool {
        self.is_unsure.swap(false, Ordering::AcqRel)
    }
}

/// Parses the first line of a library. Returns the library's name and the length of the line without its end.
///
/// # Errors
/// If the line is invalid. The error says why.
pub fn first_line(text: &[u8]) -> Result<(String, usize), String> {
    if !text.starts_with(b"#!") {
        return Err("Missing library metadata".into());
    }
    let end = text.iter().position(|&byte| byte == b'\n').ok_or("Invalid library metadata")?;
    let parts = crate::text::words::split(&text[..end]).ok_or("Invalid library metadata")?;
    let [engine, options @ ..] = &parts[..] else { return Err("Invalid library metadata".into()) };
    let shown = |text: &[u8]| crate::text::words::lossy(text).into_owned();
    let mut name = None;
    for option in options {
        let (label, value) = option.split_at(option.len().min(5));
        if !label.eq_ignore_ascii_case(b"name=") {
            return Err(format!("Invalid metadata value given: {}", shown(option)));
        }
        if name.replace(value).is_some() {
            return Err("Invalid metadata value, name argument was given multiple times".into());
        }
    }
    let name = name.ok_or("Library name was not given")?;
    if !is_name(name) {
        return Err(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
                .into(),
        );
    }
    if !engine[2..].eq_ignore_ascii_case(b"lua") {
        return Err(format!("Engine '{}' not found", shown(&engine[2..])));
    }
    Ok((shown(name), end))
}

/// Returns whether a library or function may have this name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        assert_eq!(first_line(b"#!lua name=\"foo\"\nx"), Ok(("foo".to_owned(), 16)));
        for (line, problem) in [
            ("x", "Missing library metadata"),
            ("#!lua name=a", "Invalid library metadata"),
            ("#!lua\n", "Library name was not given"),
            ("#!lua name=a b=c\n", "Invalid metadata value given: b=c"),
            ("#!lua name=a name=b\n", "Invalid metadata value, name argument was given multiple times"),
            ("#! name=a\n", "Engine '' not found"),
            ("#!perl name=a\n", "Engine 'perl' not found"),
        ] {
            assert_eq!(first_line(line.as_bytes()), Err(problem.to_owned()));
        }
        assert!(first_line(b"#!lua name=a-b\n").unwrap_err().starts_with("Library names"));
    }

    #[test]
    fn functions_have_one_name_each() {
        let library = |number, name: &str, function: &str| {
            let functions =
                vec![Function { name: function.into(), description: None, declared: ScriptFlags::default() }];
            Arc::new(Library { number, name: name.into(), text: Vec::new(), shebang: 0, functions })
        };
        let mut loaded = Loaded::default();
        loaded.add(library(1, "a", "F")).unwrap();
        assert_eq!(loaded.add(library(2, "b", "f")), Err("f".to_owned()));
        assert_eq!(loaded.function(b"f").unwrap().0.name, "a");
        assert!(loaded.remove("a").is_some() && loaded.function(b"F").is_none());
        loaded.add(library(2, "b", "f")).unwrap();
        assert_eq!((loaded.iter().len(), loaded.functions()), (1, 1));
    }
}
