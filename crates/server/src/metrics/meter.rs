//! Kafka's Meter: a rate over a sampled window and a running sum (spec kip1331 §10.1).

/// `metrics.num.samples` of Kafka's default configuration.
const SAMPLES: usize = 2;
/// `metrics.sample.window.ms` of Kafka's default configuration.
const WINDOW_MS: u64 = 30_000;
/// One more slot than samples, so that a sample that overlaps the window is still there.
const SLOTS: usize = SAMPLES + 1;

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    started_ms: u64,
    last_ms: u64,
    sum: f64,
}

/// One sensor. Times are milliseconds on any clock that does not run backwards.
#[derive(Clone, Debug)]
pub struct Meter {
    samples: [Sample; SLOTS],
    used: usize,
    current: usize,
    total: u64,
}

impl Meter {
    /// A meter at 0.
    pub fn new(now_ms: u64) -> Self {
        let fresh = Sample { started_ms: now_ms, last_ms: now_ms, sum: 0.0 };
        Self { samples: [fresh; SLOTS], used: 1, current: 0, total: 0 }
    }

    /// Records a value.
    pub fn record(&mut self, value: u64, now_ms: u64) {
        if now_ms.saturating_sub(self.sample().started_ms) >= WINDOW_MS {
            self.current = (self.current + 1) % SLOTS;
            self.used = self.used.max(self.current + 1);
            *self.sample() = Sample { started_ms: now_ms, last_ms: now_ms, sum: 0.0 };
        }
        let sample = self.sample();
        sample.sum += value as f64;
        sample.last_ms = now_ms;
        self.total = self.total.saturating_add(value);
    }

    fn sample(&mut self) -> &mut Sample {
        &mut self.samples[self.current]
    }

    /// Sum of everything recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Sum per second over the sampled window. The window is never taken shorter than `SAMPLES - 1` whole windows.
    pub fn rate(&self, now_ms: u64) -> f64 {
        let expires = SAMPLES as u64 * WINDOW_MS;
        let mut sum = 0.0;
        let mut oldest = now_ms;
        for sample in self.samples.iter().take(self.used) {
            // An expired sample counts as one that starts now.
            if now_ms.saturating_sub(sample.last_ms) < expires {
                sum += sample.sum;
                oldest = oldest.min(sample.started_ms);
            }
        }
        let mut elapsed = now_ms.saturating_sub(oldest);
        let full = elapsed / WINDOW_MS;
        let least = SAMPLES as u64 - 1;
        if full < least {
            elapsed += (least - full) * WINDOW_MS;
        }
        sum / (elapsed.max(1) as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn kip1331_10_1_a_meter_begins_at_zero() {
        let meter = Meter::new(5);
        assert_eq!(meter.count(), 0);
        close(meter.rate(5), 0.0);
        close(meter.rate(1_000_000), 0.0);
    }

    #[test]
    fn kip1331_10_1_the_window_is_at_least_one_whole_sample() {
        let mut meter = Meter::new(0);
        meter.record(3, 0);
        // Nothing elapsed: one window is added.
        close(meter.rate(0), 3.0 / 30.0);
        // Less than a window elapsed: it is still added.
        close(meter.rate(15_000), 3.0 / 45.0);
        // One whole window elapsed: taken as it is.
        close(meter.rate(30_000), 3.0 / 30.0);
        close(meter.rate(45_000), 3.0 / 45.0);
    }

    #[test]
    fn kip1331_10_1_samples_expire_and_the_count_stays() {
        let mut meter = Meter::new(0);
        meter.record(10, 1_000);
        meter.record(20, 31_000); // a second sample, since the first is complete
        close(meter.rate(31_000), 30.0 / 31.0);
        // The first sample was last recorded to at 1 s and is gone at 61 s; the second begins at 31 s.
        close(meter.rate(60_999), 30.0 / 60.999);
        close(meter.rate(61_000), 20.0 / 30.0);
        close(meter.rate(91_000), 0.0);
        assert_eq!(meter.count(), 30);
    }

    #[test]
    fn kip1331_10_1_a_steady_stream_has_its_own_rate() {
        let mut meter = Meter::new(0);
        for second in 0..600 {
            meter.record(7, second * 1_000);
        }
        let rate = meter.rate(599_999);
        assert!((6.8..7.2).contains(&rate), "{rate}");
        assert_eq!(meter.count(), 4_200);
    }
}
