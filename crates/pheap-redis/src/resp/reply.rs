//! Writes replies in the client's version of the protocol, RESP2 or RESP3.

use crate::text::words;

/// Encoded replies to a client, in the order in which they are sent. When the replies have reached a limit,
/// further ones are left out, except `OK` and other simple texts. The client is then disconnected, unless its
/// limit has risen.
#[derive(Debug)]
pub struct Reply {
    bytes: Vec<u8>,
    resp3: bool,
    /// The number of bytes from which on the replies are too long.
    limit: usize,
}

/// The start of a collection whose length is not known yet.
#[derive(Debug, Clone, Copy)]
#[must_use = "its length is still to be written"]
pub struct DeferredLen(usize);

impl Reply {
    /// Makes an empty buffer of replies.
    pub fn new(resp3: bool) -> Reply {
        Reply { bytes: Vec::new(), resp3, limit: usize::MAX }
    }

    /// Returns whether replies use RESP3.
    pub fn is_resp3(&self) -> bool {
        self.resp3
    }

    /// Sets the version for the following replies.
    pub fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Returns the length of the replies in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sets the number of bytes from which on the replies are too long.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns whether the replies have reached the limit.
    pub fn is_too_long(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all bytes except the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Returns the bytes from `len` on.
    pub fn bytes_since(&self, len: usize) -> &[u8] {
        &self.bytes[len..]
    }

    /// Takes all bytes.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Appends bytes that are encoded already.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.is_too_long() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, number: i64) {
        if self.is_too_long() {
            return;
        }
        self.bytes.push(kind);
        let mut digits = [0; 20];
        self.bytes.extend_from_slice(words::decimal(number, &mut digits));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends a short text without line ends, such as `OK`.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends `OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// Appends an error: a code in capitals, and a text. Line ends become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// Appends a reply of one line. Line ends in it become spaces.
    pub fn line(&mut self, kind: u8, text: &[u8]) {
        if self.is_too_long() {
            return;
        }
        self.bytes.push(kind);
        self.bytes.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends an integer.
    pub fn int(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// Appends a count as an integer.
    pub fn count(&mut self, number: usize) {
        self.int(number as i64);
    }

    /// Appends a string.
    pub fn bulk(&mut self, text: &[u8]) {
        if self.is_too_long() {
            return;
        }
        self.head(b'$', text.len() as i64);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends the name of a field, whose value follows.
    pub fn field(&mut self, name: &str) -> &mut Reply {
        self.bulk(name.as_bytes());
        self
    }

    /// Appends an integer as a string.
    pub fn bulk_int(&mut self, number: i64) {
        let mut digits = [0; 20];
        self.bulk(words::decimal(number, &mut digits));
    }

    /// Appends a string or null.
    pub fn maybe_bulk(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.bulk(text),
            None => self.null(),
        }
    }

    /// Appends null.
    pub fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Appends null in place of an array.
    pub fn null_array(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Begins an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len as i64);
    }

    /// Begins a map of `pairs` pairs; in RESP2, an array.
    pub fn map(&mut self, pairs: usize) {
        if self.resp3 { self.head(b'%', pairs as i64) } else { self.array(2 * pairs) }
    }

    /// Begins a set; in RESP2, an array.
    pub fn set(&mut self, len: usize) {
        self.head(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// Begins a push message; in RESP2, an array.
    pub fn push(&mut self, len: usize) {
        self.head(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// Appends a floating-point number; in RESP2, as a string.
    pub fn double(&mut self, number: f64) {
        if self.resp3 {
            self.line(b',', words::show_float(number).as_bytes());
        } else {
            self.bulk_float(number);
        }
    }

    /// Appends a floating-point number or null.
    pub fn maybe_double(&mut self, number: Option<f64>) {
        match number {
            Some(number) => self.double(number),
            None => self.null(),
        }
    }

    /// Appends a floating-point number as a string.
    pub fn bulk_float(&mut self, number: f64) {
        self.bulk(words::show_float(number).as_bytes());
    }

    /// Appends a number with up to 17 decimal places and no exponent; in RESP2, as a string.
    pub fn decimal(&mut self, number: f64) {
        let text = format!("{number:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if text == "-0" { "0" } else { text };
        if self.resp3 {
            self.line(b',', text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Appends a boolean; in RESP2, 1 or 0.
    pub fn boolean(&mut self, is_so: bool) {
        match (self.resp3, is_so) {
            (true, true) => self.raw(b"#t\r\n"),
            (true, false) => self.raw(b"#f\r\n"),
            (false, is_so) => self.int(i64::from(is_so)),
        }
    }

    /// Appends an array of strings.
    pub fn bulks(&mut self, texts: impl ExactSizeIterator<Item: AsRef<[u8]>>) {
        self.array(texts.len());
        texts.for_each(|text| self.bulk(text.as_ref()));
    }

    /// Appends plain text for people; in RESP2, as a string.
    pub fn text(&mut self, text: impl AsRef<[u8]>) {
        self.verbatim("txt", text);
    }

    /// Appends text for people, of the kind `txt` or `mkd`; in RESP2, as a string.
    pub fn verbatim(&mut self, kind: impl AsRef<[u8]>, text: impl AsRef<[u8]>) {
        let (kind, text) = (kind.as_ref(), text.as_ref());
        if self.resp3 {
            self.head(b'=', (kind.len() + 1 + text.len()) as i64);
            self.raw(kind);
            self.raw(b":");
            self.raw(text);
            self.raw(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// Begins a collection whose length is not known yet; see [`end_array`](Self::end_array),
    /// [`end_map`](Self::end_map) and [`end_set`](Self::end_set).
    pub fn defer_len(&mut self) -> DeferredLen {
        DeferredLen(self.bytes.len())
    }

    /// Makes an array of the `len` replies since `begun`.
    pub fn end_array(&mut self, begun: DeferredLen, len: usize) {
        self.insert_head(begun, b'*', len);
    }

    /// Makes a map of the `pairs` pairs since `begun`; in RESP2, an array.
    pub fn end_map(&mut self, begun: DeferredLen, pairs: usize) {
        if self.resp3 {
            self.insert_head(begun, b'%', pairs)
        } else {
            self.insert_head(begun, b'*', 2 * pairs)
        }
    }

    /// Makes a set of the `len` replies since `begun`; in RESP2, an array.
    pub fn end_set(&mut self, begun: DeferredLen, len: usize) {
        self.insert_head(begun, if self.resp3 { b'~' } else { b'*' }, len);
    }

    fn insert_head(&mut self, DeferredLen(at): DeferredLen, kind: u8, len: usize) {
        let end = self.bytes.len();
        self.head(kind, len as i64);
        let head = self.bytes.len() - end;
        self.bytes[at..].rotate_right(head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions() {
        for (resp3, expected) in [
            (
                false,
                "+OK\r\n:-9223372036854775808\r\n$1\r\nx\r\n$-1\r\n*2\r\n*-1\r\n$3\r\n1.5\r\n:1\r\n$1\r\nt\r\n",
            ),
            (
                true,
                "+OK\r\n:-9223372036854775808\r\n$1\r\nx\r\n_\r\n%1\r\n_\r\n,1.5\r\n#t\r\n=5\r\ntxt:t\r\n",
            ),
        ] {
            let mut reply = Reply::new(resp3);
            reply.ok();
            reply.int(i64::MIN);
            reply.bulk(b"x");
            reply.null();
            reply.map(1);
            reply.null_array();
            reply.double(1.5);
            reply.boolean(true);
            reply.verbatim("txt", "t");
            assert_eq!(String::from_utf8(reply.take()).unwrap(), expected);
        }
    }

    #[test]
    fn what_comes_behind_too_many_bytes_is_left_out() {
        let mut reply = Reply::new(false);
        reply.set_limit(20);
        let begun = reply.defer_len();
        for _ in 0..1000 {
            reply.bulk(b"some text");
            reply.int(1);
            reply.raw(b"+OK\r\n");
            reply.error("ERR");
        }
        reply.end_array(begun, 4000);
        assert!(reply.is_too_long() && reply.len() < 40);
    }

    #[test]
    fn a_length_that_is_known_in_the_end() {
        let mut reply = Reply::new(true);
        reply.int(7);
        let begun = reply.defer_len();
        reply.int(1);
        reply.int(2);
        reply.end_map(begun, 1);
        assert_eq!(reply.take(), b":7\r\n%1\r\n:1\r\n:2\r\n");
    }
}
