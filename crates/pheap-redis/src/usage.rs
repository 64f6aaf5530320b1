//! What the system says of this process.

/// Seconds of processor time of the system and of the user: of this process, or of its children that have ended.
pub fn times(children: bool) -> [f64; 2] {
    // Of /proc/PID/stat (proc(5)): fields 14 and 15, and 16 and 17, in ticks, of which there are 100 in a second on Linux.
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let field = |number: usize| {
        let ticks = behind_name.split_whitespace().nth(number - 3);
        ticks.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
    };
    if children { [field(17), field(16)] } else { [field(15), field(14)] }
}
