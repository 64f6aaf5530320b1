//! stub
pub(crate) mod storage;
