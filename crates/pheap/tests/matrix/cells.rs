//! Runs a matrix of small programs. Each *cell* is code with a macro of pheap in it, and plain code that does
//! the same.
//!
//! All cells are one crate, one line each. The compiler names the lines that it refuses. The test takes them
//! out and compiles the rest again, because errors of one phase hide those of the next. The remaining lines
//! run, each in a thread.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

use pheap_testkit::is_thorough;
use serde_json::Value;

/// Returns the cells to try: all of them in thorough runs, otherwise a sixth of them, the same each time. The
/// choice has no period, because the cells are rows of one length.
pub(crate) fn tried(cells: &[Cell]) -> Vec<&Cell> {
    let is_tried = |i: usize| is_thorough() || (i as u32).wrapping_mul(0x9e37_79b9) < u32::MAX / 6;
    cells.iter().enumerate().filter(|(i, _)| is_tried(*i)).map(|(_, cell)| cell).collect()
}

/// Two modules, each of which has a `pub fn run() -> String`.
pub(crate) struct Cell {
    /// What failures call it.
    pub(crate) name: String,
    /// The content of the module with the macro.
    pub(crate) code: String,
    /// The content of the module with plain code.
    pub(crate) plain: String,
}

/// What became of a module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The first error of the compiler.
    Refused(String),
    /// What `run` returned, or the message of its panic.
    Ran(String),
}

/// The outcomes of the code and of the plain code of each cell. `prelude` is in scope in all modules.
pub(crate) fn outcomes(name: &str, prelude: &str, cells: &[&Cell]) -> Vec<(Outcome, Outcome)> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("matrix_{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    let modules: Vec<&str> = cells.iter().flat_map(|cell| [&*cell.code, &*cell.plain]).collect();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; modules.len()];
    let source = dir.join("main.rs");
    // Some errors are found only where code is generated.
    for emit in ["--emit=metadata", "--emit=link"] {
        loop {
            std::fs::write(&source, program(prelude, &modules, &outcomes)).unwrap();
            let errors = errors(&source, emit);
            if errors.is_empty() {
                break;
            }
            for (line, error) in errors {
                let module = line.checked_sub(1).and_then(|module| outcomes.get_mut(module));
                // A line that was refused before is empty.
                let Some(outcome @ None) = module else { panic!("{name}, line {line}: {error}") };
                *outcome = Some(Outcome::Refused(error));
            }
        }
    }
    let output = Command::new(dir.join("main")).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let last = stdout.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{name}: {} behind {last}", output.status);
    for line in stdout.lines() {
        let (module, ran) = line.split_once(' ').unwrap();
        outcomes[module.parse::<usize>().unwrap()] = Some(Outcome::Ran(ran.to_owned()));
    }
    let mut outcomes = outcomes.into_iter().map(|outcome| outcome.expect("each module was refused, or ran"));
    std::iter::from_fn(|| Some((outcomes.next()?, outcomes.next()?))).collect()
}

/// A program with the modules that have no outcome yet: module `i` is on line `i + 1`.
fn program(prelude: &str, modules: &[&str], outcomes: &[Option<Outcome>]) -> String {
    let (mut program, mut calls) = (String::new(), String::new());
    for (i, (module, outcome)) in modules.iter().zip(outcomes).enumerate() {
        if outcome.is_none() {
            assert!(!module.contains('\n'), "a module is one line: {module}");
            let lint = if module.contains("unsafe impl") { "" } else { "#[forbid(unsafe_code)] " };
            program += &format!("{lint}mod m{i} {{ use super::prelude::*; {module} }}");
            calls += &format!("ran({i}, m{i}::run);\n");
        }
        program.push('\n');
    }
    program + &format!(
        "mod prelude {{\n{prelude}\n}}
        fn ran(module: usize, run: fn() -> String) {{
            let text = std::thread::spawn(run).join().unwrap_or_else(|panic| {{
                let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
                format!(\"panic: {{}}\", text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default())
            }});
            println!(\"{{module}} {{}}\", text.replace('\\n', \" \"));
        }}
        fn main() {{\nstd::panic::set_hook(Box::new(|_| {{}}));\n{calls}}}\n"
    )
}

/// The first error of each line that the compiler refuses.
fn errors(source: &Path, emit: &str) -> BTreeMap<usize, String> {
    let (deps, pheap, macros) = built();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--error-format=json", "-Awarnings", "-Aunconditional_panic"])
        .args(std::env::var("RUSTFLAGS").unwrap_or_default().split_whitespace())
        .arg(emit)
        .arg("--out-dir")
        .arg(source.parent().unwrap())
        .arg(format!("-Ldependency={}", deps.display()))
        .arg(format!("--extern=pheap={}", pheap.display()))
        .arg(format!("--extern=pheap_test_macros={}", macros.display()))
        .arg(source)
        .output()
        .expect("there is a compiler");
    let mut errors = BTreeMap::new();
    let stderr = String::from_utf8(output.stderr).unwrap();
    // The compiler also writes lines of its log.
    for line in stderr.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).unwrap();
        let text = message["message"].as_str().unwrap();
        if message["level"] == "error" && !text.starts_with("aborting due to") {
            let mut spans: Vec<&Value> = message["spans"].as_array().unwrap().iter().collect();
            // The others may say where in the source a macro is called, if the first one is in the macro.
            spans.sort_by_key(|span| span["is_primary"] != true);
            let line = spans.iter().map(|span| line_of(span, source)).find(|&line| line > 0).unwrap_or(0);
            errors.entry(line).or_insert_with(|| text.to_owned());
        } else if message["level"] == "error: internal compiler error" {
            panic!("{text}");
        }
    }
    assert!(output.status.success() || !errors.is_empty(), "{stderr}");
    errors
}

/// The line of the source from which a span comes, through however many macros. 0 if there is none.
fn line_of(span: &Value, source: &Path) -> usize {
    let mut line = 0;
    let mut span = span;
    while span.is_object() {
        if Path::new(span["file_name"].as_str().unwrap()) == source {
            line = span["line_start"].as_u64().unwrap() as usize;
        }
        span = &span["expansion"]["span"];
    }
    line
}

/// Where the libraries are that this test was linked with, and the newest pheap there; and the newest macros
/// for tests, which may have been built for another target.
fn built() -> (PathBuf, PathBuf, PathBuf) {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let newest = |dir: &Path, start: &str, end: &str| {
        let files = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
        let named = files.filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(start) && name.ends_with(end)
        });
        named.max_by_key(|path| path.metadata().unwrap().modified().unwrap())
    };
    let pheap = newest(deps, "libpheap-", ".rlib").expect("this test is linked with pheap");
    let macros = |dir: &Path| newest(dir, &format!("{DLL_PREFIX}pheap_test_macros-"), DLL_SUFFIX);
    let macros = macros(deps).or_else(|| macros(&deps.join("../../../debug/deps")));
    (deps.to_owned(), pheap, macros.expect("the macros for tests are built"))
}
