//! The end of our certificates: read, told in time, counted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::validity;
use crate::config::UpstreamSecurity;
use crate::metrics::Metrics;

/// From so many days before the end on it is told once a day.
const WARN_DAYS: i64 = 30;
/// A day in seconds.
const DAY: i64 = 86_400;

/// Since 1970, in seconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Notes the end of what is shown to a side (`listener`, `upstream`), in seconds since 1970, and tells it when it is near.
pub(super) fn note(metrics: &Metrics, side: &'static str, end: i64) {
    metrics.certificate_ends(side, end);
    warn(side, end);
}

/// Notes the certificate that we show to the cluster, if any.
pub fn note_upstream(metrics: &Metrics, security: &UpstreamSecurity) {
    let Some(certificate) = security.tls.as_ref().and_then(|tls| tls.certificate.as_ref()) else { return };
    // What can't be read is told by whoever uses it.
    if let Some(end) = certificate.certificates("streamside.upstream.ssl.keystore").ok().and_then(|c| end_of(&c)) {
        note(metrics, "upstream", end);
    }
}

/// Tells once a day what ends soon; never ends itself.
pub async fn watch(metrics: Arc<Metrics>) {
    loop {
        tokio::time::sleep(Duration::from_secs(DAY.unsigned_abs())).await;
        for (side, end) in metrics.certificates() {
            warn(side, end);
        }
    }
}

/// The earliest end in a chain.
pub(super) fn end_of(chain: &[Vec<u8>]) -> Option<i64> {
    chain.iter().filter_map(|certificate| validity::of(certificate)).map(|validity| validity.not_after).min()
}

/// Whole days until then; 0 when it is past.
#[must_use]
pub fn days_left(end: i64) -> i64 {
    ((end - now()) / DAY).max(0)
}

fn warn(side: &'static str, end: i64) {
    let left = end - now();
    let key = if side == "listener" { "ssl.keystore" } else { "streamside.upstream.ssl.keystore" };
    if left <= 0 {
        tracing::error!("the certificate in {key} has expired; put a new one in its place and send SIGHUP");
    } else if left < WARN_DAYS * DAY {
        let days = left / DAY;
        tracing::warn!(days, "the certificate in {key} expires in {days} days; put a new one in its place in time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_of_a_chain_counts() {
        let until = |year| {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
        };
        assert_eq!(end_of(&[until(2040), until(2031), until(2035)]), Some(1_924_992_000));
        assert_eq!(end_of(&[b"none".to_vec()]), None);
    }
}
