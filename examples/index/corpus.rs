//! The text that is indexed: finds the files, and splits them into words. This module does not use the heap.

use std::io;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// The folder of this project.
pub fn project() -> &'static Path {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    examples.parent().unwrap_or(examples)
}

/// A file to index.
#[derive(Clone)]
pub struct Source {
    pub path: PathBuf,
    /// Name of the file in the index.
    pub name: String,
    pub bytes: u64,
}

impl Source {
    /// Reads the text. Bytes that are not UTF-8 separate words, like any other separator.
    pub fn read(&self) -> Result<String, Unreadable> {
        let bytes = fs::read(&self.path).map_err(|source| Unreadable { path: self.path.clone(), source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns the files of `paths`, each once, sorted by name. The path of a folder stands for all `*.rs`,
/// `*.md` and `*.toml` in it, except hidden ones and those in hidden folders and `target`.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Source>, Unreadable> {
    let mut files = Vec::new();
    for path in paths {
        // A canonical path does not depend on the current directory, so each run gives a file the same name.
        let path = path.canonicalize().map_err(|source| Unreadable { path: path.clone(), source })?;
        visit(&path, &mut files).map_err(|source| Unreadable { path, source })?;
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.dedup_by(|a, b| a.name == b.name);
    Ok(files)
}

fn visit(path: &Path, files: &mut Vec<Source>) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?; // links are not followed: they may form cycles
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end));
            if !name.starts_with('.') && name != "target" && (text || path.is_dir()) {
                visit(&path, files)?;
            }
        }
    } else if metadata.is_file() {
        // Names of files in the project's folder are relative to it. Other names are whole paths.
        let name = path.strip_prefix(project()).unwrap_or(path).to_string_lossy().into_owned();
        files.push(Source { path: path.to_owned(), name, bytes: metadata.len() });
    }
    Ok(())
}

/// Returns the words of a line, in lower case. A word consists of letters, digits and `_`, with at least one
/// letter.
pub fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.contains(char::is_alphabetic))
        .map(str::to_lowercase)
}

/// A file or folder could not be read.
#[derive(Debug)]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for Unreadable {}
