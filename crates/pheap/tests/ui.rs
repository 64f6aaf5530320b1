//! What must not compile, and what is said about it. `TRYBUILD=overwrite cargo test --test ui` rewrites the expectations: read
//! them before you commit them.

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
