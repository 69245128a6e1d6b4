//! Upstream addresses taken out of answers.
