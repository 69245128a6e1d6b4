//! Large messages are read on a thread of their own, so that the workers go on serving everybody else.

use tokio::sync::Semaphore;

use crate::limits::{LARGE_AT_ONCE, LARGE_BYTES};

static TURNS: Semaphore = Semaphore::const_new(LARGE_AT_ONCE);

/// Does `work` on a message of so many bytes, here or aside.
///
/// # Errors
/// The work died; the line is for the log.
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    if bytes <= LARGE_BYTES {
        return work();
    }
    // The turn lasts as long as the work, also when nobody waits for it any more.
    let turn = TURNS.acquire().await.map_err(|e| e.to_string())?;
    let turned = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(turned).await.map_err(|e| e.to_string())?
}
