//! Where time and chance come from.

use std::cell::Cell;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use streamside_coordinator::{Millis, Now};

/// Wall-clock time as it was at start, carried on by the monotonic clock: it means something after a restart and never
/// runs backwards within a process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_ms: Millis,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn new() -> Self {
        let start_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        Self { start: Instant::now(), start_ms: Millis::try_from(start_ms).unwrap_or(0) }
    }

    /// The present time and a fresh random number.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { at: self.millis(), jitter: jitter() }
    }

    /// The present time in milliseconds since the Unix epoch.
    #[must_use]
    pub fn millis(&self) -> Millis {
        self.start_ms + Millis::try_from(self.start.elapsed().as_millis()).unwrap_or(Millis::MAX / 2)
    }

    /// The moment at which [`Clock::millis`] will be `at`.
    #[must_use]
    pub fn instant(&self, at: Millis) -> Instant {
        let offset = u64::try_from(at - self.start_ms).unwrap_or(0);
        self.start + std::time::Duration::from_millis(offset)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// A small generator (xorshift64*) per thread, seeded from the address space layout's and the hasher's randomness:
/// jitter needs spread, not secrecy.
fn jitter() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish() | 1);
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        u32::try_from(x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32).unwrap_or(0)
    })
}
