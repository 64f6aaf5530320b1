//! What the system says of this process.

/// Whose processor time is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// That of this process.
    Process,
    /// That of the thread that asks.
    Thread,
    /// That of the children of this process that have ended.
    Children,
}

/// Seconds of processor time of the system and of the user.
pub fn times(whose: Whose) -> [f64; 2] {
    // Of /proc/PID/stat (proc(5)): fields 14 and 15, and 16 and 17, in ticks, of which there are 100 in a second
    // on Linux.
    let file = if whose == Whose::Thread { "/proc/thread-self/stat" } else { "/proc/self/stat" };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let field = |number: usize| {
        let ticks = behind_name.split_whitespace().nth(number - 3);
        ticks.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
    };
    if whose == Whose::Children { [field(17), field(16)] } else { [field(15), field(14)] }
}

/// Bytes of memory that this process has, and that the machine has.
pub fn memory() -> (u64, u64) {
    let kilobytes = |file: &str, name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    let [process, machine] = [("/proc/self/status", "VmRSS:"), ("/proc/meminfo", "MemTotal:")]
        .map(|(file, name)| kilobytes(file, name).unwrap_or(0));
    (process, machine)
}
