//! What clients are told about versions.

use streamside_proxy::bridge::versions::{Offer, Ranges, tell};
use streamside_proxy::gateway::Mode;
use streamside_wire::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use streamside_wire::messages::metadata::{MetadataRequest, MetadataResponse};
use streamside_wire::messages::streams_group_heartbeat::StreamsGroupHeartbeatRequest;

use crate::captures::{first, read};
use crate::stage::{NEW, OLD, Stage, Watcher, answer, broker, framed, peek, read_answer, request, versions_answer};

const GATEWAY: Offer = Offer { bridged: true, addresses: true };

type Rows = Vec<(i16, i16, i16)>;

fn rows(answer: &ApiVersionsResponse) -> Rows {
    answer.api_keys.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect()
}

/// The good answer of version 4 or 5 in a recording: what the broker said, what a client is told.
fn recorded(name: &str, version: i16, offer: Offer) -> (ApiVersionsResponse, ApiVersionsResponse, Option<Rows>) {
    let body = first(name, 18, version).answer.unwrap();
    let told = tell(&body, version, offer).unwrap();
    let frame = told.frame.map_or_else(|| framed(&body), |frame| frame.to_vec());
    (read_answer(&body, version).1, read_answer(&frame[4..], version).1, told.rows)
}

#[test]
fn kip1331_1_2_rows_of_real_brokers_are_raised_and_one_is_added() {
    for name in ["old-broker-4.1.1", "old-broker-4.2.0", "old-broker-4.3.0"] {
        let (broker, told, learnt) = recorded(name, 4, GATEWAY);
        let expected: Rows = rows(&broker)
            .into_iter()
            .map(|(key, lowest, highest)| match key {
                42 => (42, 0, 3),
                88 | 89 => (key, 0, 1),
                _ => (key, lowest, highest),
            })
            .chain([(93, 0, 0)])
            .collect();
        let mut sorted = expected.clone();
        sorted.sort_unstable();
        assert_eq!(rows(&told), sorted, "{name}");
        assert_eq!(told.api_keys.len(), 76);
        assert_eq!(learnt.unwrap(), rows(&broker), "its own ranges are remembered");
        let but_rows = |answer: &ApiVersionsResponse| ApiVersionsResponse { api_keys: Vec::new(), ..answer.clone() };
        assert_eq!(but_rows(&told), but_rows(&broker), "features stay");
        assert!(!told.finalized_features.is_empty());
    }
}

#[test]
fn kip1331_1_2_nothing_of_4_4_is_cut() {
    let body = first("app-streams", 18, 5).answer.unwrap();
    let told = tell(&body, 5, GATEWAY).unwrap();
    assert_eq!(told.frame, None, "the bytes stay");
    assert!(Ranges::from_rows(&told.rows.unwrap()).streams());
}

#[test]
fn an_upstream_without_streams_groups_is_not_bridged() {
    for name in ["old-broker-4.0.0", "old-broker-3.9.1"] {
        let body = first(name, 18, 4).answer.unwrap();
        let told = tell(&body, 4, GATEWAY).unwrap();
        assert_eq!(told.frame, None, "{name}: the bytes stay");
        assert!(!Ranges::from_rows(&told.rows.unwrap()).streams());
    }
}

#[test]
fn bytes_behind_the_rows_stay_whatever_they_are() {
    let body = first("old-broker-4.3.0", 18, 4).answer.unwrap();
    let told = tell(&body, 4, GATEWAY).unwrap().frame.unwrap();
    // Correlation id, error and a count of one byte; 75 rows of seven bytes.
    assert_eq!(told[4 + 7 + 76 * 7..], body[7 + 75 * 7..]);
    let mut strange = body[..7 + 75 * 7].to_vec();
    strange.extend_from_slice(b"an unknown future");
    let told = tell(&strange, 4, GATEWAY).unwrap().frame.unwrap();
    assert_eq!(told[4 + 7 + 76 * 7..], *b"an unknown future");
}

#[test]
fn the_new_row_stands_in_key_order() {
    let upstream = ApiVersionsResponse {
        api_keys: [(88, 0), (89, 0), (92, 0), (94, 0), (10_007, 3)]
            .map(|(api_key, max_version)| ApiVersion { api_key, max_version, ..Default::default() })
            .to_vec(),
        ..Default::default()
    };
    let told = tell(&answer(3, 5, &upstream), 3, GATEWAY).unwrap().frame.unwrap();
    let (_, told) = read_answer::<ApiVersionsResponse>(&told[4..], 3);
    assert_eq!(rows(&told), [(88, 0, 1), (89, 0, 1), (92, 0, 0), (93, 0, 0), (94, 0, 0), (10_007, 0, 3)]);
}

#[test]
fn k04_of_what_is_rewritten_nothing_newer_than_ours_is_offered() {
    let upstream = ApiVersionsResponse {
        api_keys: [0, 1, 2, 3, 10, 15, 18, 42, 55, 60, 69, 75, 77, 78, 79, 88, 89, 93, 150]
            .map(|api_key| ApiVersion { api_key, max_version: 99, ..Default::default() })
            .to_vec(),
        ..Default::default()
    };
    let body = answer(4, 5, &upstream);
    let offered = |offer| {
        let told = tell(&body, 4, offer).unwrap().frame.unwrap();
        rows(&read_answer::<ApiVersionsResponse>(&told[4..], 4).1).into_iter().map(|row| row.2).collect::<Vec<_>>()
    };
    let (gateway, advertised) = (offered(GATEWAY), offered(Offer { bridged: true, addresses: false }));
    assert_eq!(gateway, [13, 18, 99, 13, 6, 6, 5, 3, 2, 2, 1, 99, 1, 2, 2, 1, 1, 0, 99]);
    assert_eq!(advertised, [99, 99, 99, 99, 99, 6, 5, 3, 99, 99, 1, 99, 1, 99, 99, 1, 1, 0, 99]);
    let relay = offered(Offer { bridged: false, addresses: true });
    assert_eq!(relay, [13, 18, 99, 13, 6, 99, 5, 99, 2, 2, 99, 99, 99, 2, 2, 99, 99, 99, 99]);
}

#[test]
fn an_api_of_which_only_newer_versions_are_left_is_not_offered() {
    let upstream = ApiVersionsResponse {
        api_keys: vec![
            ApiVersion { api_key: 3, min_version: 14, max_version: 20, ..Default::default() },
            ApiVersion { api_key: 88, min_version: 2, max_version: 3, ..Default::default() },
        ],
        ..Default::default()
    };
    let told = tell(&answer(4, 5, &upstream), 4, GATEWAY).unwrap();
    assert!(!Ranges::from_rows(&told.rows.unwrap()).streams());
    assert_eq!(read_answer::<ApiVersionsResponse>(&told.frame.unwrap()[4..], 4).1.api_keys, []);
}

#[test]
fn k08_a_refusal_names_no_version_of_api_versions_that_we_cannot_read() {
    let refusal = |highest| ApiVersionsResponse {
        error_code: 35,
        api_keys: vec![ApiVersion { api_key: 18, max_version: highest, ..Default::default() }],
        ..Default::default()
    };
    let told = tell(&answer(0, 5, &refusal(7)), 9, GATEWAY).unwrap();
    assert_eq!(told.frame.unwrap()[4..], answer(0, 5, &refusal(5)));
    assert_eq!(told.rows, None, "it says nothing of other APIs");
}

#[test]
fn kip1242_refusals_of_a_cluster_or_node_stay_as_they_are() {
    let refused = read("misrouted-identity")
        .into_iter()
        .flat_map(|c| c.exchanges)
        .filter_map(|e| e.answer)
        .find(|answer| answer.len() < 30)
        .expect("an answer without rows");
    let told = tell(&refused, 5, GATEWAY).unwrap();
    assert_eq!((told.frame, told.rows), (None, None));
    assert_eq!(read_answer::<ApiVersionsResponse>(&refused, 5).1.error_code, 129);
}

/// Also K09: the header of an ApiVersions answer never has tags, the one of a Metadata answer of that age has.
#[tokio::test]
async fn k08_k09_a_version_that_the_broker_lacks_is_refused_in_the_form_of_version_0() {
    let mut stage = Stage::new(broker(OLD, |request| {
        let (_, version, correlation_id) = peek(request);
        let own = MetadataResponse { cluster_id: Some("c".into()), ..Default::default() };
        Some(answer(version, correlation_id, &own))
    }));
    let versions = ApiVersionsRequest { client_software_name: "x".into(), ..Default::default() };
    let refused = stage.ask(&request(5, i32::MIN, &versions)).await;
    let (correlation_id, refusal) = read_answer::<ApiVersionsResponse>(&refused, 0);
    assert_eq!((correlation_id, refusal.error_code, rows(&refusal)), (i32::MIN, 35, vec![(18, 0, 4)]));

    let mut far = request(5, -9, &versions);
    far[3] = 9;
    let refused = stage.ask(&far).await;
    assert_eq!(refused, versions_answer(&far, OLD));

    let told = stage.ask(&request(3, 7, &versions)).await;
    let (correlation_id, told) = read_answer::<ApiVersionsResponse>(&told, 3);
    assert_eq!((correlation_id, told.error_code), (7, 0));
    assert_eq!(rows(&told), [(3, 0, 13), (18, 0, 4), (42, 0, 3), (88, 0, 1), (89, 0, 1), (93, 0, 0)]);

    let asked = MetadataRequest { topics: None, ..Default::default() };
    let (correlation_id, metadata) = read_answer::<MetadataResponse>(&stage.ask(&request(12, 8, &asked)).await, 12);
    assert_eq!((correlation_id, metadata.cluster_id.as_deref()), (8, Some("c")));
}

#[tokio::test]
async fn an_answer_in_a_version_newer_than_ours_sends_the_client_back_to_ours() {
    let mut stage = Stage::new(|request| match peek(request) {
        (18, 6, _) => Some([&request[4..8], b"\0\0", b"whatever this may be"].concat()),
        _ => Some(versions_answer(request, NEW)),
    });
    let mut newer = request(5, 1, &ApiVersionsRequest::default());
    newer[3] = 6;
    let (_, refusal) = read_answer::<ApiVersionsResponse>(&stage.ask(&newer).await, 0);
    assert_eq!((refusal.error_code, rows(&refusal)), (35, vec![(18, 0, 5)]));
    let (_, told) =
        read_answer::<ApiVersionsResponse>(&stage.ask(&request(5, 2, &ApiVersionsRequest::default())).await, 5);
    assert_eq!(rows(&told), NEW);
}

#[tokio::test]
async fn kip1242_the_node_and_cluster_that_a_client_names_reach_the_broker_untouched() {
    let mut stage = Stage::new(broker(NEW, |_| None));
    let asked = ApiVersionsRequest {
        client_software_name: "x".into(),
        cluster_id: Some("c".into()),
        node_id: 2,
        ..Default::default()
    };
    let asked = request(5, 3, &asked);
    assert_eq!(stage.ask(&asked).await, versions_answer(&asked, NEW));
    assert_eq!(stage.seen(), [asked]);
    assert_eq!(stage.watcher.notes(), ["opened 7", "versions 6 true"]);
}

#[tokio::test]
async fn k11_ranges_are_those_of_the_connection() {
    let beat = StreamsGroupHeartbeatRequest { group_id: "g".into(), member_id: "m".into(), ..Default::default() };
    for (rows, version) in [(NEW, 1), (OLD, 0)] {
        let mut stage = Stage::new(broker(rows, |_| None));
        stage.ask(&request(3, 1, &ApiVersionsRequest::default())).await;
        stage.send(&request(1, 2, &beat)).await;
        assert_eq!(stage.answer().await, None, "the broker closes");
        assert_eq!(peek(&stage.seen()[1]), (88, version, 2));
    }
}

#[tokio::test]
async fn in_relay_mode_no_version_is_bridged() {
    let mut stage = Stage::with(Mode::Relay, None, Watcher::default().into(), broker(OLD, |r| Some(r[4..].to_vec())));
    let asked = request(3, 1, &ApiVersionsRequest::default());
    assert_eq!(stage.ask(&asked).await, versions_answer(&asked, OLD));
    let beat = StreamsGroupHeartbeatRequest { group_id: "g".into(), ..Default::default() };
    let beat = request(1, 2, &beat);
    assert_eq!(stage.ask(&beat).await, beat[4..]);
    assert_eq!(stage.seen()[1], beat);
}
