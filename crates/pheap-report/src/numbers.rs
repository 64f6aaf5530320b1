//! Formats numbers for people: three significant digits, and a suitable unit.

/// Formats a number with three significant digits and without an exponent: `0.104`, `1.35`, `12.3`, `6490`.
pub(crate) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Round before the digits are counted: 9.996 is 10.0.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).max(0) as usize;
    format!("{rounded:.decimals$}")
}

/// Formats seconds in the largest unit in which the value is at least one, or in nanoseconds.
pub(crate) fn time(seconds: f64) -> String {
    let (scale, unit) = unit_of(seconds);
    format!("{} {unit}", three_digits(seconds * scale))
}

/// Returns the factor from seconds to the unit, and the name of the unit.
fn unit_of(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        // A little less than one: otherwise 999.9 ns would be 1000 ns.
        s if s >= 0.9995 => (1.0, "s"),
        s if s >= 0.9995e-3 => (1e3, "ms"),
        s if s >= 0.9995e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    }
}

/// Formats a round number of seconds, as on an axis: `10 µs`.
pub(crate) fn round_time(seconds: f64) -> String {
    let (scale, unit) = unit_of(seconds);
    let value: f64 = format!("{:.2e}", seconds * scale).parse().unwrap_or(seconds * scale);
    if seconds == 0.0 { "0".into() } else { format!("{value} {unit}") }
}

/// Formats a number with three significant digits, and commas between thousands: `40,400`.
pub(crate) fn with_commas(value: f64) -> String {
    let digits = three_digits(value);
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a round number, as on an axis: `1000`, `10k`, `1M`.
pub(crate) fn round_count(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e4 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_significant() {
        let pairs = [
            (0.10437, "0.104"),
            (1.3456, "1.35"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (123.4, "123"),
            (6486.0, "6490"),
            (0.0, "0"),
            (0.000_123_4, "0.000123"),
        ];
        for (value, text) in pairs {
            assert_eq!(three_digits(value), text);
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time(1.24), "1.24 s");
        assert_eq!(time(0.135), "135 ms");
        assert_eq!(time(0.999_99), "1.00 s");
        assert_eq!(time(9.8e-8), "98.0 ns");
        assert_eq!(round_time(1e-5), "10 µs");
        assert_eq!(round_time(0.25e-3), "250 µs");
        assert_eq!(round_time(0.0), "0");
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!(with_commas(40_440.0), "40,400");
        assert_eq!(with_commas(999.0), "999");
        assert_eq!(with_commas(12.34), "12.3");
        assert_eq!(with_commas(1_234_567.0), "1,230,000");
        assert_eq!(round_count(1e7), "10M");
        assert_eq!(round_count(1000.0), "1000");
    }
}
