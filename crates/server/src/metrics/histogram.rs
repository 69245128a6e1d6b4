//! Latency histograms for the hot path: plain relaxed counters, one set for each of a few shards, so that workers do
//! not share a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in microseconds; the last bucket has none.
pub const BOUNDS_US: [u64; 11] = [50, 100, 250, 500, 1_000, 2_500, 10_000, 50_000, 250_000, 1_000_000, 10_000_000];
const BUCKETS: usize = BOUNDS_US.len() + 1;
/// Shards of one set. More workers share.
const SHARDS: usize = 16;

#[derive(Debug)]
struct Cells {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

impl Cells {
    const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], nanos: AtomicU64::new(0) }
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([Cells; N]);

/// `N` histograms that share their bounds.
#[derive(Debug)]
pub struct Histograms<const N: usize> {
    shards: Box<[Shard<N>]>,
}

/// One histogram at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Upper bound in seconds and observations in this bucket alone; the last bound is `f64::MAX`.
    pub buckets: Vec<(f64, u64)>,
    /// Observations.
    pub count: u64,
    /// Seconds in all.
    pub sum: f64,
}

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn my_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Relaxed) % SHARDS);
        }
        mine.get()
    })
}

impl<const N: usize> Histograms<N> {
    /// All at 0.
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard([const { Cells::new() }; N])).collect() }
    }

    /// Records one observation of histogram `index`; an index that is not there counts nowhere.
    pub fn observe(&self, index: usize, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // An observation exactly on a bound belongs below it.
        let bucket = BOUNDS_US.iter().position(|bound| nanos <= bound * 1_000).unwrap_or(BUCKETS - 1);
        let cells = self.shards.get(my_shard()).and_then(|shard| shard.0.get(index));
        if let Some(cells) = cells {
            if let Some(cell) = cells.buckets.get(bucket) {
                cell.fetch_add(1, Relaxed);
            }
            cells.nanos.fetch_add(nanos, Relaxed);
        }
    }

    /// Histogram `index`, all shards together.
    pub fn snapshot(&self, index: usize) -> Snapshot {
        let mut counts = [0_u64; BUCKETS];
        let mut nanos = 0_u64;
        for cells in self.shards.iter().filter_map(|shard| shard.0.get(index)) {
            for (count, cell) in counts.iter_mut().zip(&cells.buckets) {
                *count += cell.load(Relaxed);
            }
            nanos = nanos.wrapping_add(cells.nanos.load(Relaxed));
        }
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain(std::iter::once(f64::MAX));
        Snapshot { buckets: bounds.zip(counts).collect(), count: counts.iter().sum(), sum: nanos as f64 / 1e9 }
    }
}

impl<const N: usize> Default for Histograms<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_fall_into_their_buckets_from_every_thread() {
        let histograms = Histograms::<2>::new();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    histograms.observe(1, Duration::from_micros(50));
                    histograms.observe(1, Duration::from_nanos(50_001));
                    histograms.observe(1, Duration::from_secs(60));
                    histograms.observe(7, Duration::from_secs(1));
                });
            }
        });
        let snapshot = histograms.snapshot(1);
        assert_eq!(snapshot.count, 120);
        assert_eq!(snapshot.buckets[0], (0.000_05, 40));
        assert_eq!(snapshot.buckets[1], (0.000_1, 40));
        assert_eq!(snapshot.buckets.last(), Some(&(f64::MAX, 40)));
        assert!((snapshot.sum - 40.0 * 60.000_100_001).abs() < 1e-6);
        assert_eq!(histograms.snapshot(0).count, 0);
    }
}
