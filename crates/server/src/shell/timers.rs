//! What happens by the clock: session and rebalance timers of each shard, the sweep, the cleanup cycle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::TICK_PAUSE_MIN;
use super::operations::Operations;
use super::shards::SharedShards;

/// Fires the shards' timers for ever. One task for all shards: a tick of a shard without due timers costs nothing.
pub async fn tick(shards: SharedShards, operations: Arc<Operations>) {
    // Deadlines move with every join, so this looks again at least this often.
    const LOOK_AGAIN: Duration = Duration::from_millis(100);
    loop {
        let now = shards.clock().millis();
        let mut next = Instant::now() + LOOK_AGAIN;
        for index in 0..shards.len() {
            if let Some(at) = shards.next_deadline(index) {
                if at <= now {
                    // What cannot be done now is tried again a little later.
                    if operations.tick(index) {
                        next = next.min(Instant::now() + TICK_PAUSE_MIN);
                    }
                } else {
                    next = next.min(shards.clock().instant(at));
                }
            }
        }
        tokio::time::sleep_until(next.max(Instant::now() + TICK_PAUSE_MIN).into()).await;
    }
}

/// Runs the sweep and starts a cleanup cycle every `interval`, the first after one interval (kip1331 §7.1). A cycle
/// that hangs does not hold back the sweep.
pub async fn sweep_and_clean(operations: Arc<Operations>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        operations.sweep();
        let cycle = Arc::clone(&operations);
        tokio::spawn(async move { cycle.cleanup_cycle().await });
    }
}
