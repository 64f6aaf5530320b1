//! The examples are programs: `list`, `bank`, `kv`, `churn` and `index`. This is the library that Cargo asks for beside them, and has nothing in it.
