//! What a caught panic said.

use std::any::Any;

use crate::limits::MAX_PANIC_TEXT;

/// The message of a panic, cut to a bound since it may come from a plugin.
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned());
    // Even dropping the payload may panic.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(payload)));
    text.chars().take(MAX_PANIC_TEXT).collect()
}
