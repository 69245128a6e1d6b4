//! What the system says of a process: memory, processor time, limits, signals.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit, setrlimit};

fn status_kib(pid: u32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

/// Resident memory in bytes; `None` when the process is gone.
#[must_use]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    status_kib(pid, "VmRSS:").map(|kib| kib * 1024)
}

/// Threads of a process.
#[must_use]
pub fn threads(pid: u32) -> Option<u64> {
    status_kib(pid, "Threads:")
}

/// Processor time of all threads so far: by the scheduler's own nanoseconds where the kernel keeps them (threads that
/// ended are not in it), else user and system time in steps of 10 ms.
#[must_use]
pub fn cpu(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let exact: u64 = threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    if exact > 0 {
        return Some(Duration::from_nanos(exact));
    }
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in brackets and may hold anything, so fields are counted from the last bracket.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(2).map_while(|f| f.parse().ok()).collect();
    Some(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}

/// SIGTERM.
///
/// # Errors
/// The process is gone.
pub fn terminate(pid: u32) -> io::Result<()> {
    signal(pid, Signal::TERM)
}

/// SIGHUP.
///
/// # Errors
/// The process is gone.
pub fn hang_up(pid: u32) -> io::Result<()> {
    signal(pid, Signal::HUP)
}

/// SIGKILL, as `kill -9` sends it.
///
/// # Errors
/// The process is gone.
pub fn kill(pid: u32) -> io::Result<()> {
    signal(pid, Signal::KILL)
}

/// Lifts a process' limit of file sizes while it runs: the disk has room again.
///
/// # Errors
/// The process is gone, or the system refused.
pub fn lift_file_size(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: maximum, maximum })?;
    Ok(())
}

/// Raises this process' limit of open files towards `wanted`, as far as it may, and gives what it is now. Children
/// started afterwards have it too.
#[must_use]
pub fn raise_open_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let ceiling = now.maximum.unwrap_or(u64::MAX);
    let current = now.current.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(wanted.max(current).min(ceiling)), maximum: now.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted.max(current).min(ceiling),
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_time() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 1 << 20);
        assert!(threads(pid).unwrap() >= 1);
        assert!(cpu(pid).unwrap() < Duration::from_secs(600));
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
