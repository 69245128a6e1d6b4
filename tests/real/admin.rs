//! What the Java Admin client reads.

use streamside_testkit::topologies::samples;

use crate::java::admin_probe;
use crate::stage::Stage;

/// `describeCluster`, `listGroups`, `describeStreamsGroups` with and without the topology option, a missing group,
/// `deleteStreamsGroups` while a member is there and after it left.
#[test]
#[ignore = "needs Java 17 and Maven"]
fn the_admin_client_reads_cluster_groups_and_descriptions() {
    let mut stage = Stage::new();
    let samples = samples().unwrap();
    let sample = samples.iter().find(|s| s.name == "25-game-leaderboard-global-in-middle").unwrap();
    stage.join_and_push("shop", &sample.description);
    stage.push("left", &sample.description);
    stage.join("silent");
    let bootstrap = stage.bootstrap();

    let facts =
        admin_probe(&bootstrap, "shop", &["cluster", "list", "describe", "describe-plain", "missing", "delete"]);
    let expected = [
        "nodes=1",
        &format!("node={bootstrap}"),
        "controller=true",
        "cluster-id-length=22",
        "listed=[left/Streams/Empty, shop/Streams/Stable, silent/Streams/Stable]",
        "status=AVAILABLE",
        "state=Stable",
        "epochs=2/2/0",
        "assignor=sticky",
        "members=1",
        "subtopologies=[0:4, 1:9, 3:4]",
        "global-stores=1",
        "plain-status=NOT_REQUESTED",
        "plain-present=false",
        "missing=GroupIdNotFoundException: Group no-such-group not found.",
        "delete=GroupNotEmptyException: The group is not empty.",
    ];
    assert_eq!(facts, expected);

    stage.leave("shop");
    let facts = admin_probe(&bootstrap, "shop", &["describe", "delete", "list", "delete"]);
    let expected = [
        "status=AVAILABLE",
        "state=Empty",
        "epochs=3/3/0",
        "assignor=sticky",
        "members=0",
        "subtopologies=[0:4, 1:9, 3:4]",
        "global-stores=1",
        "delete=ok",
        "listed=[left/Streams/Empty, silent/Streams/Stable]",
        "delete=GroupIdNotFoundException: The group id does not exist.",
    ];
    assert_eq!(facts, expected);

    let facts = admin_probe(&bootstrap, "silent", &["describe"]);
    let expected = [
        "status=NOT_STORED",
        "state=Stable",
        "epochs=2/2/0",
        "assignor=sticky",
        "members=1",
        "subtopologies=[]",
        "global-stores=0",
    ];
    assert_eq!(facts, expected);
}
