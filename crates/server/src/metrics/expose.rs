//! The OpenMetrics text. Kafka's names are told as they are; ours get `_total` where they are counters.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::histogram::Snapshot;
use super::process::Process;
use super::{Api, Gauges, Metrics, PluginOp, SENSORS, locked};

/// What `/metrics` says its text is.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The prefix that a JMX exporter gives Kafka's sensors.
const KAFKA: &str = "kafka_server_group_coordinator_metrics_streams_group_topology_description";

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;

impl Metrics {
    /// The text of `/metrics`.
    pub fn text(self: &Arc<Self>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape(Arc::clone(self))));
        let mut out = String::with_capacity(16 * 1024);
        match prometheus_client::encoding::text::encode(&mut out, &registry) {
            Ok(()) => out,
            Err(Error) => "# EOF\n".to_owned(),
        }
    }
}

/// A label value from outside: the encoder writes values as they are.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[derive(Debug)]
struct Scrape(Arc<Metrics>);

struct Writer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Writer<'_, '_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_counter(&value, NO_EXEMPLAR)
    }

    fn labelled<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        kind: MetricType,
        values: impl Iterator<Item = (&'l str, u64)>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (word, value) in values {
            let labels = [(label, word)];
            let mut one = family.encode_family(&labels)?;
            match kind {
                MetricType::Counter => one.encode_counter(&value, NO_EXEMPLAR)?,
                _ => one.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    fn histogram(&mut self, name: &str, help: &str, series: &[(Vec<(&str, &str)>, Snapshot)]) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, snapshot) in series {
            let Snapshot { sum, count, buckets } = snapshot;
            if labels.is_empty() {
                family.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
            } else {
                family.encode_family(labels)?.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
            }
        }
        Ok(())
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let metrics = &*self.0;
        let mut out = Writer(&mut encoder);
        let (plugin, cluster) = (label(&metrics.plugin), label(&metrics.cluster()));
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("mode", metrics.mode),
            ("plugin", plugin.as_str()),
            ("cluster", cluster.as_str()),
        ];
        out.0
            .encode_descriptor("streamside", "What runs here", None, MetricType::Info)?
            .encode_info(&labels.as_slice())?;
        sensors(metrics, &mut out)?;
        traffic(metrics, &mut out)?;
        let certificates = metrics.certificates();
        if !certificates.is_empty() {
            out.labelled(
                "streamside_certificate_expiry_timestamp_seconds",
                "When our certificate ends, by the side that it is shown to",
                "side",
                MetricType::Gauge,
                certificates.into_iter().map(|(side, at)| (side, u64::try_from(at).unwrap_or(0))),
            )?;
        }
        // Taken out of the lock first: the source may be slow.
        let source = locked(&metrics.gauges).clone();
        gauges(&source.map(|source| source()).unwrap_or_default(), &mut out)?;
        process(&mut out)
    }
}

/// All sixteen are told from the start, plugin or not (spec kip1331 §10.1).
fn sensors(metrics: &Metrics, out: &mut Writer<'_, '_>) -> Result<(), Error> {
    let now = metrics.now_ms();
    let meters = locked(&metrics.sensors).clone();
    for ((_, name), meter) in SENSORS.iter().zip(&meters) {
        let help = format!("Kafka's streams-group-topology-description-{}", name.replace('_', "-"));
        let mut one = |what: &str, value: f64| {
            let name = format!("{KAFKA}_{name}_{what}");
            let help = format!("{help}-{what}");
            out.0.encode_descriptor(&name, &help, None, MetricType::Unknown)?.encode_gauge(&value)
        };
        one("count", meter.count() as f64)?;
        one("rate", meter.rate(now))?;
    }
    Ok(())
}

fn traffic(metrics: &Metrics, out: &mut Writer<'_, '_>) -> Result<(), Error> {
    out.gauge("streamside_connections", "Client connections", metrics.connections() as f64)?;
    out.counter("streamside_connections_opened", "Client connections taken", metrics.connections_opened.load(Relaxed))?;
    if let Some(up) = *locked(&metrics.upstream_up) {
        out.gauge("streamside_upstream_up", "1 while the cluster behind us answers", f64::from(u8::from(up)))?;
        let bypassed = metrics.bypassed.load(Relaxed);
        let help = "Connections of clients that only ask for metadata here and go elsewhere with all else";
        out.counter("streamside_bypassed_connections", help, bypassed)?;
    }
    let bytes = [("read", metrics.bytes_read.load(Relaxed)), ("written", metrics.bytes_written.load(Relaxed))];
    out.labelled(
        "streamside_bytes",
        "Bytes of requests and answers",
        "direction",
        MetricType::Counter,
        bytes.into_iter(),
    )?;

    // "own": from a whole request to its answer, what was asked upstream meanwhile included.
    let sides = [("own", &metrics.requests), ("upstream", &metrics.upstream_requests)];
    let requests: Vec<_> = sides
        .iter()
        .flat_map(|(side, taken)| {
            Api::ALL.iter().map(|api| (vec![("api", api.name()), ("side", *side)], taken.snapshot(*api as usize)))
        })
        .filter(|(_, snapshot)| snapshot.count > 0)
        .collect();
    out.histogram("streamside_request_seconds", "Time from a whole request to its answer", &requests)?;
    let calls: Vec<_> =
        PluginOp::ALL.iter().map(|op| (vec![("op", op.name())], metrics.plugin_calls.snapshot(*op as usize))).collect();
    out.histogram("streamside_plugin_seconds", "Time of plugin calls", &calls)?;

    let pushes = locked(&metrics.pushes).clone();
    out.labelled(
        "streamside_pushes",
        "Pushes answered",
        "result",
        MetricType::Counter,
        pushes.iter().map(|(k, v)| (*k, *v)),
    )?;
    let limits = locked(&metrics.limits).clone();
    out.labelled(
        "streamside_limit_hits",
        "Limits met",
        "limit",
        MetricType::Counter,
        limits.iter().map(|(k, v)| (*k, *v)),
    )?;
    out.counter(
        "streamside_topology_changes",
        "Accepted descriptions that differ from the one before",
        metrics.topology_changes.load(Relaxed),
    )?;
    out.counter(
        "streamside_solicitations",
        "Members asked for their description",
        metrics.solicitations.load(Relaxed),
    )?;

    out.histogram(
        "streamside_journal_commit_seconds",
        "Time of journal commits",
        &[(Vec::new(), metrics.commits.snapshot(0))],
    )?;
    out.counter("streamside_journal_records", "Records committed", metrics.commit_records.load(Relaxed))?;
    out.counter("streamside_journal_failures", "Commits that failed", metrics.commit_failures.load(Relaxed))
}

fn gauges(gauges: &Gauges, out: &mut Writer<'_, '_>) -> Result<(), Error> {
    out.labelled(
        "streamside_groups",
        "Groups by what is known of their description",
        "description",
        MetricType::Gauge,
        gauges.groups.iter().copied(),
    )?;
    out.gauge("streamside_members", "Members of all groups", gauges.members as f64)?;
    let calls =
        [("running", gauges.plugin_in_flight), ("hung", gauges.plugin_hung), ("waiting", gauges.plugin_waiting)];
    out.labelled(
        "streamside_plugin_calls",
        "Plugin calls not settled yet",
        "state",
        MetricType::Gauge,
        calls.into_iter(),
    )?;
    out.counter("streamside_plugin_corrupt_reads", "Damaged copies met", gauges.plugin_corrupt_reads)?;
    if let Some(bytes) = gauges.store_bytes {
        out.gauge("streamside_store_bytes", "Bytes of the plugin's store", bytes as f64)?;
    }
    out.gauge(
        "streamside_journal_backlog_bytes",
        "Bytes that wait for the journal",
        gauges.journal_backlog_bytes as f64,
    )?;
    if let Some(bytes) = gauges.journal_bytes {
        out.gauge("streamside_journal_bytes", "Bytes of the journal", bytes as f64)?;
    }
    if !gauges.per_group.is_empty() {
        let name = "streamside_group_members";
        let mut family = out.0.encode_descriptor(name, "Members of one group", None, MetricType::Gauge)?;
        for (group, members, description) in &gauges.per_group {
            let group = label(group);
            let labels = [("group", group.as_str()), ("description", description)];
            family.encode_family(&labels)?.encode_gauge(members)?;
        }
    }
    Ok(())
}

fn process(out: &mut Writer<'_, '_>) -> Result<(), Error> {
    let process = Process::read();
    let all = [
        ("process_resident_memory_bytes", "Resident memory", process.resident_bytes),
        ("process_virtual_memory_bytes", "Address space", process.virtual_bytes),
        ("process_threads", "Threads", process.threads),
        ("process_open_fds", "Open file descriptors", process.open_files),
    ];
    for (name, help, value) in all {
        if let Some(value) = value {
            out.gauge(name, help, value as f64)?;
        }
    }
    if let Some(seconds) = process.cpu_seconds {
        let mut one = out.0.encode_descriptor("process_cpu_seconds", "CPU time used", None, MetricType::Counter)?;
        one.encode_counter(&seconds, None::<&Exemplar<NoLabelSet, f64>>)?;
    }
    Ok(())
}
