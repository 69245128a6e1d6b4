//! What the operating system says of this process. Linux only; elsewhere nothing is told.

/// Figures of this process, each absent where it can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Resident memory, bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, bytes.
    pub virtual_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// CPU time used, seconds.
    pub cpu_seconds: Option<f64>,
}

impl Process {
    /// Reads `/proc/self`.
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self {
            resident_bytes: field(&status, "VmRSS:").map(|kib| kib * 1024),
            virtual_bytes: field(&status, "VmSize:").map(|kib| kib * 1024),
            threads: field(&status, "Threads:"),
            // The folder is open itself while it is counted.
            open_files: std::fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| (entries.count() as u64).saturating_sub(1)),
            cpu_seconds: cpu_ticks(&stat).map(|ticks| ticks as f64 / 100.0),
        }
    }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time in hundredths of a second (the kernel's fixed USER_HZ), fields 14 and 15 of `stat`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The program's name, in parentheses, may hold anything; what follows the last one is plain.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        assert_eq!(field("Name:\tx\nVmRSS:\t  2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(field("VmRSS:\n", "VmRSS:"), None);
        assert_eq!(cpu_ticks("1 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0"), Some(300));
        assert_eq!(cpu_ticks(""), None);
    }
}
