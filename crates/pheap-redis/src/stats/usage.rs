//! Figures of the operating system about this process and the machine.

/// Which processor time to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuScope {
    /// The time of this process.
    Process,
    /// The time of the calling thread.
    Thread,
    /// The time of this process's children that have ended and were waited for.
    Children,
}

/// Returns the seconds of processor time in the system and in user mode, or 0 where `/proc` does not say.
pub fn cpu_times(whose: CpuScope) -> [f64; 2] {
    // In /proc/PID/stat (proc(5)), the times are the fields 14 and 15, or 16 and 17. They are in ticks, of
    // which Linux has 100 in a second on most architectures.
    let file = if whose == CpuScope::Thread { "/proc/thread-self/stat" } else { "/proc/self/stat" };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let field = |number: usize| {
        let ticks = behind_name.split_whitespace().nth(number - 3);
        ticks.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
    };
    if whose == CpuScope::Children { [field(17), field(16)] } else { [field(15), field(14)] }
}

/// Returns the bytes of resident memory of this process, and the bytes of memory of the machine, or 0 where
/// `/proc` does not say.
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
