//! Checks the characters of the names in descriptions.
//!
//! Names are combined to longer names (`Pair<u64, P<str>>`) and shown in messages, so an id has no spaces,
//! brackets, commas or semicolons. The derive refuses other ids, and so does the reader of a type
//! table.

/// Returns whether an id is not empty and consists of letters, digits and `_`, `.`, `-`, `/` and `:`. Every
/// character outside ASCII counts as a letter: only the compiler knows which of them identifiers may have.
pub(super) const fn is_id(id: &str) -> bool {
    let bytes = id.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !is_id_byte(bytes[i]) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

/// Returns whether `name` has the characters of a field's or variant's name: an identifier, or a number.
pub(super) const fn is_identifier(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !is_identifier_byte(bytes[i]) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

const fn is_id_byte(byte: u8) -> bool {
    is_identifier_byte(byte) || matches!(byte, b'.' | b'-' | b'/' | b':')
}

const fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Returns whether `name` can be that of a type: an id, perhaps with arguments, `()`, `[T; N]` or `[T]`.
pub(super) fn is_type_name(name: &str) -> bool {
    if is_id(name) {
        return true;
    }
    let mut rest = name;
    // The open brackets. A list instead of recursion, because a `P<P<…>>` may be deeply nested.
    let mut open = Vec::new();
    loop {
        // At this point `rest` begins with a type.
        if let Some(behind) = rest.strip_prefix('[') {
            rest = behind;
            open.push(b'[');
            continue;
        }
        if let Some(behind) = rest.strip_prefix("()") {
            rest = behind;
        } else {
            let len = rest.bytes().take_while(|&byte| is_id_byte(byte)).count();
            if len == 0 {
                return false;
            }
            rest = &rest[len..];
            if let Some(behind) = rest.strip_prefix('<') {
                rest = behind;
                open.push(b'<');
                continue;
            }
        }
        // At this point a type ends before `rest`.
        loop {
            match open.last() {
                None => return rest.is_empty(),
                Some(b'<') => {
                    if let Some(behind) = rest.strip_prefix(", ") {
                        rest = behind;
                        break;
                    }
                    let Some(behind) = rest.strip_prefix('>') else { return false };
                    rest = behind;
                }
                Some(_) => {
                    if let Some(behind) = rest.strip_prefix("; ") {
                        rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
                        if rest.len() == behind.len() {
                            return false;
                        }
                    }
                    let Some(behind) = rest.strip_prefix(']') else { return false };
                    rest = behind;
                }
            }
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_no_characters_of_the_text_around_them() {
        for good in ["Node", "shop.order", "race-car/2", "pheap::PVec", "übung", "数", "type", "_", "3d"] {
            assert!(is_id(good) && is_type_name(good), "{good}");
        }
        for bad in ["", "a b", "a<b", "a>", "a,", "{", "}", "[a", "a;", "@8", "a\n", "a\0", "("] {
            assert!(!is_id(bad), "{bad}");
        }
        assert!(!is_id("B { p: P<u64> @0 }, c"));
        assert!(is_identifier("größe") && is_identifier("0") && is_identifier("r_1"));
        assert!(!is_identifier("") && !is_identifier("a.b") && !is_identifier("p: u64 @0, n"));
    }

    #[test]
    fn names_of_types_are_well_formed() {
        for good in [
            "()",
            "[(); 3]",
            "[[u64; 2]]",
            "Option<P<[pheap::Pair<P<str>, [Slot<u8>; 7]>]>>",
            "A<(), B<C>, [D]>",
        ] {
            assert!(is_type_name(good), "{good}");
        }
        for bad in [
            "", "(", "[", "[]", "[u64; ]", "[u64; x]", "[u64;2]", "A<>", "A<B", "A<B,C>", "A<B>>", "A<B> ",
            "A]", "A, B", "A<B>C", "[A; 2>",
        ] {
            assert!(!is_type_name(bad), "{bad}");
        }
        // Names may be nested at any depth.
        assert!(is_type_name(&format!("{}u8{}", "P<".repeat(100_000), ">".repeat(100_000))));
    }
}
