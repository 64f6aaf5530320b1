//! Text: numbers as Redis reads and writes them, quoted words, patterns.

use std::borrow::Cow;

/// Parses a whole number in the form in which Redis writes it: no plus, no leading zeros, no spaces.
pub fn int(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical || text.len() > 20 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a floating-point number, decimal or hexadecimal, or `inf`. Returns None for NaN, for spaces, for a
/// number that is too large or too close to 0, and for a text of more than 5 KiB.
pub fn float(text: &[u8]) -> Option<f64> {
    let number = rounded_float(text)?;
    let is_rounded_away = number.is_infinite() && text.iter().any(u8::is_ascii_digit)
        || number == 0.0 && has_other_digit_than_0(text);
    (!is_rounded_away).then_some(number)
}

/// Parses a number as C's `strtod` does, if that consumes the text up to its end or up to a zero byte. Spaces
/// may precede the number. A number that is too large becomes infinite. A number that is too close to 0
/// becomes 0, and an empty text, too. Returns None for NaN, and for a number of more than 5 KiB.
pub fn c_float(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() { Some(0.0) } else { rounded_float(text.trim_ascii_start()) }
}

/// Parses a number as [`float`] does, but one that is too large becomes infinite, and one that is too close
/// to 0 becomes 0.
fn rounded_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= 5 * 1024)?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let number = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits)?,
        None => digits.parse().ok().filter(|_| !digits.starts_with(['-', '+']))?,
    };
    (!f64::is_nan(number)).then_some(if text.starts_with('-') { -number } else { number })
}

fn has_other_digit_than_0(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (zeros, exponent): (&[u8], &[u8]) =
        if text.starts_with(b"0x") || text.starts_with(b"0X") { (b"0xX.", b"pP") } else { (b"0+.", b"eE") };
    text.iter().take_while(|byte| !exponent.contains(byte)).any(|byte| !zeros.contains(byte))
}

/// Parses hexadecimal digits with an optional exponent: `1.8p3` is 1.5 * 2^3.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let (mut number, mut power) = (0_u128, exponent);
    for (at, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = digit.to_digit(16)?;
        let is_kept = number < 1 << 120;
        // Digits that do not fit matter only by not being 0.
        number = if is_kept { number << 4 | u128::from(digit) } else { number | u128::from(digit > 0) };
        power = power.saturating_add(4 * (i64::from(!is_kept) - i64::from(at >= whole.len())));
    }
    // The power is applied in two steps, because the whole power may be out of range.
    let power = power.clamp(-2000, 2000) as i32;
    Some(number as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2))
}

/// Formats a number as Redis does: like C's `%.17g`, so 0.1 is 0.10000000000000001.
pub fn show_float(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() || number == 0.0 {
        return number.to_string();
    }
    if number.abs() < 1e15 && number.fract() == 0.0 {
        return (number as i64).to_string();
    }
    general(number, 17)
}

/// Formats a finite number with `digits` significant digits, like C's `%.*g`.
pub fn general(number: f64, digits: usize) -> String {
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("this format has one");
    let exponent: i32 = exponent.parse().expect("this format has one");
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..digits as i32).contains(&exponent) {
        return short(&format!("{number:.*}", (digits as i32 - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", short(mantissa), exponent.abs())
}

/// Returns the decimal digits of a number, at the end of `buffer`.
pub fn decimal(number: i64, buffer: &mut [u8; 20]) -> &[u8] {
    let (mut rest, mut at) = (number.unsigned_abs(), buffer.len());
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

/// Splits a line into words at white space. A word with spaces is in quotes: `"a\n"` with escapes, `'a'` with
/// no other than `\'`. Returns None if a quote is not closed, or if something other than white space follows
/// it.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        loop {
            match rest {
                [] => break,
                [byte, ..] if byte.is_ascii_whitespace() => break,
                [quote @ (b'"' | b'\''), after @ ..] => {
                    rest = quoted_part(after, *quote, &mut word)?;
                    break;
                }
                [byte, after @ ..] => {
                    word.push(*byte);
                    rest = after;
                }
            }
        }
        words.push(word);
    }
}

/// Appends the text before the closing quote to a word. Returns the text behind the quote, which must be
/// empty or begin with white space. Between single quotes, only single quotes can be escaped.
fn quoted_part<'t>(mut rest: &'t [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'t [u8]> {
    let hex = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let has_escapes = quote == b'"';
    loop {
        rest = match rest {
            [] => return None,
            [b'\\', b'x', high, low, after @ ..]
                if has_escapes && hex(*high).is_some() && hex(*low).is_some() =>
            {
                word.push(hex(*high)? << 4 | hex(*low)?);
                after
            }
            [b'\\', byte, after @ ..] if has_escapes || *byte == quote => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] if *byte == quote => {
                return after.first().is_none_or(u8::is_ascii_whitespace).then_some(after);
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        }
    }
}

/// Returns whether a text matches a pattern: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte. The
/// time is at most proportional to the product of the lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The last star: where the pattern continues behind it, and the end of the text that it has matched.
    let mut star: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if let Some(len) = one(&pattern[p..], text[t]) {
            (p, t) = (p + len, t + 1);
            continue;
        }
        let Some((after, taken)) = star else { return false };
        star = Some((after, taken + 1));
        (p, t) = (after, taken + 1);
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Returns the length of the first element of a pattern, if a byte matches it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, byte),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// Returns the length of the element `[…]` at the beginning of a pattern, if a byte matches it. Without `]`,
/// the element extends to the end.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let is_negated = pattern.get(1) == Some(&b'^');
    let mut at = if is_negated { 2 } else { 1 };
    let mut is_in = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                is_in |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                is_in |= plain == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

/// Returns a text in quotes, with escapes for bytes that cannot be shown.
pub fn quoted(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for &byte in text {
        match byte {
            b'"' => quoted.push_str("\\\""),
            b'\\' => quoted.push_str("\\\\"),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            7 => quoted.push_str("\\a"),
            8 => quoted.push_str("\\b"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Parses a number of bytes as in `redis.conf`: `k`, `m` and `g` are powers of 1000, `kb`, `mb` and `gb` of
/// 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Converts bytes to text. What is not UTF-8 becomes U+FFFD.
pub fn lossy(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical() {
        assert_eq!(int(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(int(b"0"), Some(0));
        for text in ["", "-", "-0", "+1", "01", " 1", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(int(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(float(b"-0x1F"), Some(-31.0));
        assert_eq!(float(b"+inf"), Some(f64::INFINITY));
        assert_eq!(float(b"nan"), None);
        assert_eq!(float(b" 1"), None);
    }

    #[test]
    fn floats_are_shown_as_c_does() {
        let shown = [
            (3.0, "3"),
            (0.1, "0.10000000000000001"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (123456789012345.6, "123456789012345.59"),
            (1.0 / 3.0, "0.33333333333333331"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.5e-7, "1.4999999999999999e-07"),
            (-0.0, "-0"),
            (f64::NAN.copysign(1.0), "nan"),
            (f64::NAN.copysign(-1.0), "-nan"),
        ];
        for (number, text) in shown {
            assert_eq!(show_float(number), text);
        }
    }

    #[test]
    fn floats_are_read_as_c_does() {
        let read = [
            ("1.5", Some(1.5)),
            ("+.5", Some(0.5)),
            ("-1e2", Some(-100.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("Infinity", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("-0X1.8p3", Some(-12.0)),
            ("0x.8", Some(0.5)),
            ("0x1p-1074", Some(5e-324)),
            ("0x100000000000000000000000000000000p-128", Some(1.0)),
            ("0e5", Some(0.0)),
            ("-0", Some(0.0)),
            ("0x0p9", Some(0.0)),
            ("5e-324", Some(5e-324)),
        ];
        for (text, number) in read {
            assert_eq!(float(text.as_bytes()), number, "{text}");
            assert_eq!(c_float(text.as_bytes()), number, "{text}");
        }
        for text in ["nan", "1 ", "+-1", "0x", "0x+5", "0x1p", "1e", ".", "-", " ", "\\0"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
            assert_eq!(c_float(text.as_bytes()), None, "{text}");
        }
        let of_c = [
            ("", 0.0),
            (" 1", 1.0),
            ("\0a", 0.0),
            ("2\0a", 2.0),
            ("1e400", f64::INFINITY),
            ("-1e-400", 0.0),
            ("0x1p2000", f64::INFINITY),
            ("0x1p-2000", 0.0),
        ];
        for (text, number) in of_c {
            assert_eq!(float(text.as_bytes()), None, "{text}");
            assert_eq!(c_float(text.as_bytes()), Some(number), "{text}");
        }
    }

    #[test]
    fn words_in_quotes() {
        let words = |line: &[u8]| split(line);
        assert_eq!(words(b"set  a \"x y\\x41\\n\" 'q\\'s'").unwrap(), [&b"set"[..], b"a", b"x yA\n", b"q's"]);
        assert_eq!(words(b"\"a\"b"), None);
        assert_eq!(words(b"'a"), None);
        assert_eq!(words(b"  ").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn patterns() {
        let yes = [
            ("h?llo", "hello"),
            ("h*o", "hello"),
            ("*", ""),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("[a-c]", "b"),
            ("\\*", "*"),
            ("a*b*c", "aXbYbc"),
            ("[c-a]", "b"),
        ];
        let no =
            [("h?llo", "hllo"), ("h[^e]llo", "hello"), ("", "a"), ("\\*", "a"), ("a*b", "ac"), ("[", "a")];
        yes.iter().for_each(|(p, t)| assert!(matches(p.as_bytes(), t.as_bytes()), "{p} {t}"));
        no.iter().for_each(|(p, t)| assert!(!matches(p.as_bytes(), t.as_bytes()), "{p} {t}"));
        assert!(!matches(
            &b"a*".repeat(5000),
            &[b"a".repeat(4999), b"b".to_vec()].concat().repeat(1)[..4998]
        ));
    }
}
