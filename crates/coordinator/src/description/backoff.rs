//! Solicitation windows: when a group is asked again (spec kip1331 §3.3, H1, H6).

use smallvec::{SmallVec, smallvec};

use crate::input::{Millis, Now};
use crate::record::MemberId;

const INITIAL_MS: u64 = 30_000;
const CAP_MS: u64 = 3_600_000;
/// The first exponent whose base would pass the cap: 2^7 = 128 > 120.
const CAPPED_FROM: u32 = 7;
/// Members asked in one window, the first included (H6).
pub(super) const ASKS_PER_WINDOW: usize = 3;

/// Milliseconds to wait after attempt `n`, with a fifth of jitter either way: min(cap, rand[0.8, 1.2) * base).
#[must_use]
pub fn delay(n: u32, jitter: u32) -> Millis {
    let base = if n >= CAPPED_FROM { CAP_MS } else { INITIAL_MS << n };
    // 0.8 + 0.4 * jitter / 2^32, in fifths of 2^32: at most 2^22 * 2^35, which fits.
    let fifths = (4_u64 << 32) + 2 * u64::from(jitter);
    let scaled = (base * fifths / 5) >> 32;
    Millis::try_from(scaled.min(CAP_MS)).unwrap_or(Millis::MAX)
}

/// The back-off entry of one group. Volatile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The topology epoch it speaks of.
    pub epoch: i32,
    /// How often the chain was armed; attempt n of Kafka is the arm before.
    pub arms: u32,
    /// Nobody is asked before.
    pub until: Millis,
    /// The chain began with a lost copy: a push does not end it, a good read does (H1).
    pub repair: bool,
    /// A push arrived since the asking and failed: no one else is asked in this window (H6).
    pub answered: bool,
    /// Who was asked in this window.
    pub asked: SmallVec<[MemberId; ASKS_PER_WINDOW]>,
    /// When the latest of them was.
    pub asked_at: Millis,
}

impl Window {
    /// Kafka's `is_active`.
    #[must_use]
    pub fn is_active(&self, epoch: i32, at: Millis) -> bool {
        self.epoch == epoch && at < self.until
    }

    fn next(old: Option<&Self>, epoch: i32, now: Now, at_least: Millis) -> Self {
        let old = old.filter(|old| old.epoch == epoch);
        let arms = old.map_or(0, |old| old.arms);
        Self {
            epoch,
            arms: arms.saturating_add(1),
            until: now.at.saturating_add(delay(arms, now.jitter).max(at_least)),
            repair: old.is_some_and(|old| old.repair),
            answered: false,
            asked: SmallVec::new(),
            asked_at: now.at,
        }
    }

    /// `arm_if_not_active`, its precondition met: `member` is asked.
    #[must_use]
    pub fn armed(old: Option<&Self>, epoch: i32, member: MemberId, now: Now) -> Self {
        Self { asked: smallvec![member], ..Self::next(old, epoch, now, 0) }
    }

    /// `arm_or_extend`; `None`: no change. `retry_after`: the plugin's own wish, within the cap.
    #[must_use]
    pub fn extended(old: Option<&Self>, epoch: i32, now: Now, retry_after: Option<u64>) -> Option<Self> {
        if old.is_some_and(|old| old.epoch > epoch) {
            return None;
        }
        let at_least = Millis::try_from(retry_after.unwrap_or(0).min(CAP_MS)).unwrap_or(0);
        Some(Self { answered: true, ..Self::next(old, epoch, now, at_least) })
    }

    /// The start of a repair chain: the first asking is due at once (H1).
    #[must_use]
    pub fn repair(epoch: i32, at: Millis) -> Self {
        Self { epoch, arms: 0, until: at, repair: true, answered: false, asked: SmallVec::new(), asked_at: at }
    }

    /// Whether `member` is asked besides those who were and did not push (H6). `patience`: two heartbeat intervals.
    #[must_use]
    pub fn may_ask_another(&self, member: &str, at: Millis, patience: Millis) -> bool {
        !self.answered
            && (1..ASKS_PER_WINDOW).contains(&self.asked.len())
            && at.saturating_sub(self.asked_at) >= patience
            && self.asked.iter().all(|asked| &**asked != member)
    }

    /// The same window after one more was asked.
    #[must_use]
    pub fn asked_another(&self, member: MemberId, at: Millis) -> Self {
        let mut next = self.clone();
        next.asked.push(member);
        next.asked_at = at;
        next
    }
}
