use std::sync::Arc;
use std::time::Duration;

use super::*;

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new("standalone", Some("disk"), "lab \"1\""))
}

#[test]
fn kip1331_10_1_all_sixteen_sensors_are_there_from_the_start_without_total() {
    let text = metrics().text();
    for name in [
        "set_success",
        "set_error",
        "get_success",
        "get_error",
        "delete_success",
        "delete_error",
        "cleanup_cycle",
        "cleanup_eligible",
    ] {
        for what in ["count", "rate"] {
            let line = format!(
                "\nkafka_server_group_coordinator_metrics_streams_group_topology_description_{name}_{what} 0.0\n"
            );
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn kip1331_10_1_delete_records_the_number_of_groups() {
    let metrics = metrics();
    metrics.record(Sensor::DeleteSuccess, 3);
    metrics.record(Sensor::DeleteSuccess, 2);
    assert!(metrics.text().contains("description_delete_success_count 5.0\n"));
}

#[test]
fn ours_are_told_with_their_labels() {
    let metrics = metrics();
    metrics.connection_opened();
    metrics.connection_opened();
    metrics.connection_closed();
    metrics.push_settled("ok");
    metrics.push_settled("plugin_timeout");
    metrics.push_settled("ok");
    metrics.limit_hit("max_connections");
    metrics.topology_changed();
    metrics.plugin_call(PluginOp::Set, Duration::from_millis(3));
    metrics.request(Api::of_key(88), metrics.start());
    metrics.journal_commit(7, Duration::from_micros(80));
    metrics.set_gauges(|| Gauges {
        groups: vec![("available", 4)],
        store_bytes: Some(9),
        per_group: vec![("a\"} 1\nb\\".to_owned(), 2, "none")],
        ..Gauges::default()
    });
    let text = metrics.text();
    for line in [
        "streamside_info{version=\"0.1.0\",mode=\"standalone\",plugin=\"disk\",cluster=\"lab \\\"1\\\"\"} 1",
        "streamside_connections 1.0",
        "streamside_connections_opened_total 2",
        "streamside_pushes_total{result=\"ok\"} 2",
        "streamside_pushes_total{result=\"plugin_timeout\"} 1",
        "streamside_limit_hits_total{limit=\"max_connections\"} 1",
        "streamside_topology_changes_total 1",
        "streamside_plugin_seconds_bucket{le=\"0.0025\",op=\"set\"} 0",
        "streamside_plugin_seconds_bucket{le=\"0.01\",op=\"set\"} 1",
        "streamside_plugin_seconds_bucket{le=\"+Inf\",op=\"set\"} 1",
        "streamside_request_seconds_count{api=\"StreamsGroupHeartbeat\",side=\"own\"} 1",
        "streamside_journal_records_total 7",
        "streamside_groups{description=\"available\"} 4",
        "streamside_store_bytes 9.0",
        "streamside_group_members{group=\"a\\\"} 1\\nb\\\\\",description=\"none\"} 2",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn numbers_of_apis_and_operations_are_their_places() {
    for (at, api) in Api::ALL.iter().enumerate() {
        assert_eq!(*api as usize, at);
    }
    for (at, op) in PluginOp::ALL.iter().enumerate() {
        assert_eq!(*op as usize, at);
    }
}
