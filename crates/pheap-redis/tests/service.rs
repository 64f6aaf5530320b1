//! Tests of the server apart from single commands: connections, limits, memory, operations, replication.

mod common;
mod replication;

mod service {
    mod connections;
    mod evict;
    mod hostile;
    mod limits;
    mod ops;
    mod options;
    mod replica;
    mod replica_broken;
    mod replica_memory;
    mod server;
    mod tools;
    mod tracking;
}
