//! Programs that must not compile, and the errors for them. `TRYBUILD=overwrite cargo test --test ui`
//! rewrites the expectations: read them before you commit them.

use std::fs;
use std::path::Path;

#[test]
fn what_must_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass_*.rs");
    cases.compile_fail("tests/ui/[!p]*.rs");
    cases.compile_fail(if cfg!(feature = "serde") {
        "tests/ui/serde/*.rs"
    } else {
        "tests/ui/without_serde/*.rs"
    });
}

/// The code that a message says to use: what stands in backticks behind "use".
fn suggestions(message: &str) -> Vec<&str> {
    message.split("use `").skip(1).filter_map(|rest| rest.split('`').next()).collect()
}

/// A program in which the line behind each `//= line` is that line instead.
fn applied(guess: &str) -> String {
    let mut lines = guess.lines();
    let mut applied = String::new();
    while let Some(line) = lines.next() {
        let instead = line.trim_start().strip_prefix("//=");
        if instead.is_some() {
            lines.next();
        }
        applied += instead.unwrap_or(line);
        applied.push('\n');
    }
    applied
}

/// Each `guess_….rs` is one error, and that says what to write, which compiles.
#[test]
fn first_guesses_are_told_what_to_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let cases = trybuild::TestCases::new();
    let entries =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let guesses: Vec<String> =
        entries.filter(|name| name.starts_with("guess_") && name.ends_with(".stderr")).collect();
    assert!(guesses.len() >= 8, "only {guesses:?}: does this test still find them?");
    for name in guesses {
        let stderr = fs::read_to_string(folder.join(&name)).unwrap();
        let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
        let source = name.replace(".stderr", ".rs");
        let applied = applied(&fs::read_to_string(folder.join(&source)).unwrap());
        // `..` stands for what the guess has, and `T` for its type.
        let is_there =
            |suggestion: &str| suggestion.split("..").next().is_some_and(|code| applied.contains(code));
        let told = suggestions(&stderr);
        let code = |of: &&str| of.replace("Root<T>", "Root<u64>").replace("(name,", "(\"first\",");
        assert!(told.iter().any(|suggestion| is_there(&code(suggestion))), "{name}: {told:?}");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source);
        fs::write(&path, applied).unwrap();
        cases.pass(path);
    }
}
