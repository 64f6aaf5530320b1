//! The examples are programs: `list`, `bank`, `kv`, `churn` and `index`; `tpcc` is a package of its own. This is the library that Cargo asks for beside them, and has nothing in it.
