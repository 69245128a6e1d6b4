//! Spec kip1071 §3, §4: the group's topology and the topics that it needs.

use std::collections::BTreeMap;

use streamside_coordinator::Compat;
use streamside_coordinator::group::refusal::Refusal;
use streamside_coordinator::group::topics::{Configured, MAX_TASKS, configure};
use streamside_wire::messages::streams_group_heartbeat::{
    CopartitionGroup, KeyValue, Subtopology, TopicInfo, Topology,
};

use crate::lab::*;

fn at_epoch(epoch: i32, topology: Topology) -> Topology {
    Topology { epoch, ..topology }
}

fn joining(member: &str, topology: Topology) -> Request {
    Request { topology: Some(topology), ..join(member) }
}

#[test]
fn t29_missing_source_topics_make_a_group_not_ready() {
    let mut lab = Lab::with(&[("foo", 6)]);
    let answer = lab.beat(&joining("m", topology(&[("0", &["foo", "bar"])])));
    assert_eq!((answer.error_code, answer.member_epoch, answer.active_tasks.clone()), (0, 2, Some(vec![])));
    assert_eq!((statuses(&answer), status_text(&answer)), (vec![1], "Source topics bar are missing."));
    assert_eq!((lab.state(), lab.metadata().validated_topology_epoch), ("NotReady", -1));
    // On every heartbeat, since statuses are of the present.
    assert_eq!(statuses(&lab.beat(&steady("m", 2))), [1]);
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
}

#[test]
fn s3_3_a_status_names_three_topics() {
    let answer = Lab::new().beat(&joining("m", topology(&[("0", &["e", "b", "d"]), ("1", &["c", "a"])])));
    assert_eq!(status_text(&answer), "Source topics a, b, c and 2 additional topics are missing.");
}

#[test]
fn s1_2_a_topology_without_subtopologies_is_ready() {
    let mut lab = Lab::new();
    let answer = lab.beat(&join("m"));
    assert_eq!((answer.status, lab.state()), (Some(vec![]), "Stable"));
}

#[test]
fn t32_a_member_with_an_older_topology_is_admitted_and_told() {
    let mut lab = Lab::with(&[("in", 1)]);
    lab.beat(&joining("m1", at_epoch(1, topology(&[("0", &["in"])]))));
    let answer = lab.beat(&joining("m2", at_epoch(0, topology(&[("9", &["other"])]))));
    assert_eq!((answer.error_code, statuses(&answer)), (0, vec![0]));
    let text = "The member's topology epoch 0 is behind the group's topology epoch 1.";
    assert_eq!(status_text(&answer), text);
    let facts = lab.facts.clone().unwrap();
    assert_eq!((facts.stale, facts.group.topology_epoch), (true, 1));
    assert_eq!(lab.groups.describe(&lab.config, "g").unwrap().topology.unwrap().epoch, 1);
    // With every later heartbeat too.
    assert_eq!(statuses(&lab.beat(&steady("m2", answer.member_epoch))), [0]);
}

#[test]
fn t33_a_topology_cannot_change() {
    let mut lab = Lab::new();
    lab.beat(&joining("m1", at_epoch(1, topology(&[("0", &["in"])]))));
    let text = "Topology updates are not supported yet.";
    let other = at_epoch(1, topology(&[("0", &["in", "more"])]));
    assert_eq!(refusal(&lab.beat(&joining("m2", other))), (42, text));
    let newer = at_epoch(2, topology(&[("0", &["in"])]));
    assert_eq!(refusal(&lab.beat(&joining("m2", newer))), (42, text));
    // It outlives its members.
    lab.beat(&steady("m1", -1));
    assert_eq!(refusal(&lab.beat(&joining("m2", topology_of("x", &[])))).0, 0);
    assert_eq!(refusal(&lab.beat(&joining("m3", at_epoch(1, topology(&[("0", &["x"])]))))), (42, text));
}

/// A subtopology at epoch 0 with one source.
fn topology_of(source: &str, sinks: &[&str]) -> Topology {
    let mut t = topology(&[("0", &[source])]);
    t.subtopologies[0].repartition_sink_topics = sinks.iter().map(|s| (*s).to_owned()).collect();
    t
}

#[test]
fn d4_the_order_of_lists_makes_no_other_topology() {
    let pair = |key: &str| KeyValue { key: key.into(), value: "v".into(), ..KeyValue::default() };
    let rich = |turned: bool| {
        let mut topics = vec![
            TopicInfo { name: "r1".into(), topic_configs: vec![pair("x"), pair("y")], ..TopicInfo::default() },
            TopicInfo { name: "r2".into(), ..TopicInfo::default() },
        ];
        let mut sources = vec!["s1".to_owned(), "s2".to_owned()];
        let (mut first, mut second) = (vec![0_i16, 1], vec![0_i16, 1]);
        if turned {
            topics.reverse();
            topics[1].topic_configs.reverse();
            sources.reverse();
            first = vec![1, 0];
            second = vec![1, 0];
        }
        let mut groups = vec![
            CopartitionGroup { source_topics: first, ..CopartitionGroup::default() },
            CopartitionGroup { repartition_source_topics: second, ..CopartitionGroup::default() },
        ];
        if turned {
            groups.reverse();
        }
        Topology {
            subtopologies: vec![Subtopology {
                subtopology_id: "0".into(),
                source_topics: sources,
                repartition_source_topics: topics,
                copartition_groups: groups,
                ..Subtopology::default()
            }],
            ..Topology::default()
        }
    };
    for (kafka, code) in [(false, 0), (true, 42)] {
        let mut lab = if kafka { Lab::new().kafka() } else { Lab::new() };
        lab.beat(&joining("m1", rich(false)));
        assert_eq!(lab.beat(&joining("m2", rich(true))).error_code, code);
    }
    let mut different = rich(true);
    different.subtopologies[0].repartition_source_topics[0].replication_factor = 3;
    assert!(!stored(&rich(false)).equals_normalised(&stored(&different)));
}

#[test]
fn s3_1_the_order_of_subtopologies_never_counts() {
    let (a, b) = (topology(&[("0", &["x"]), ("1", &["y"])]), topology(&[("1", &["y"]), ("0", &["x"])]));
    assert!(stored(&a).equals_in_order(&stored(&b)) && stored(&a).equals_normalised(&stored(&b)));
}

fn topic(name: &str, partitions: i32) -> TopicInfo {
    TopicInfo { name: name.into(), partitions, replication_factor: -1, ..TopicInfo::default() }
}

/// Subtopology with sources, sinks, repartition sources and changelogs.
fn sub(id: &str, sources: &[&str], sinks: &[&str], repartition: &[TopicInfo], changelogs: &[&str]) -> Subtopology {
    Subtopology {
        subtopology_id: id.into(),
        source_topics: sources.iter().map(|s| (*s).to_owned()).collect(),
        repartition_sink_topics: sinks.iter().map(|s| (*s).to_owned()).collect(),
        repartition_source_topics: repartition.to_vec(),
        state_changelog_topics: changelogs.iter().map(|c| topic(c, 0)).collect(),
        ..Subtopology::default()
    }
}

fn configured(subtopologies: Vec<Subtopology>, topics: &[(&str, i32)]) -> Result<Configured, Refusal> {
    configured_as(Compat::Streamside, subtopologies, topics)
}

fn configured_as(
    compat: Compat,
    subtopologies: Vec<Subtopology>,
    topics: &[(&str, i32)],
) -> Result<Configured, Refusal> {
    let topology = Topology { subtopologies, ..Topology::default() };
    let topics = topics.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    configure(&stored(&topology), &topics, compat)
}

fn trouble(configured: Result<Configured, Refusal>) -> (i8, String) {
    let trouble = configured.expect("no refusal").trouble.expect("trouble");
    (trouble.code, trouble.detail)
}

#[test]
fn t30_missing_internal_topics_are_named() {
    let result = configured(vec![sub("0", &["foo"], &[], &[], &["bar"])], &[("foo", 6)]).unwrap();
    assert_eq!(result.subtopologies.as_ref().unwrap()["0"].state_changelog_topics[0].partitions, 6);
    assert_eq!(trouble(Ok(result)), (3, "Internal topics are missing: bar".to_owned()));
    let many = configured(vec![sub("0", &["foo"], &[], &[], &["d", "b", "c", "a"])], &[("foo", 6)]);
    assert_eq!(trouble(many), (3, "Internal topics are missing: a, b, c and 1 additional topics".to_owned()));
}

#[test]
fn t31_copartitioned_topics_must_agree() {
    let mut s = sub("0", &["foo", "bar"], &[], &[], &[]);
    s.copartition_groups = vec![CopartitionGroup { source_topics: vec![0, 1], ..CopartitionGroup::default() }];
    let text = "Following topics do not have the same number of partitions: [{bar=3, foo=6}]";
    assert_eq!(trouble(configured(vec![s.clone()], &[("foo", 6), ("bar", 3)])), (2, text.to_owned()));
    assert_eq!(configured(vec![s], &[("foo", 3), ("bar", 3)]).unwrap().trouble, None);
}

#[test]
fn t37_repartition_topics_take_the_largest_input_of_their_writer() {
    let chain = vec![
        sub("0", &["in", "small"], &["r1"], &[], &[]),
        sub("1", &[], &["r2"], &[topic("r1", 0)], &["c"]),
        sub("2", &[], &[], &[topic("r2", 0), topic("fixed", 9)], &[]),
    ];
    let topics = [("in", 6), ("small", 2), ("r1", 6), ("r2", 6), ("fixed", 9), ("c", 6)];
    let result = configured(chain.clone(), &topics).unwrap();
    assert_eq!(result.trouble, None);
    let tasks: Vec<i32> = result.subtopologies.unwrap().values().map(|s| s.tasks).collect();
    assert_eq!(tasks, [6, 6, 9]);
    // An existing topic of another size does not fit.
    let topics = [("in", 6), ("small", 2), ("r1", 4), ("r2", 6), ("fixed", 9), ("c", 4)];
    let text = "Existing topic r1 has different number of partitions: expected 6, found 4";
    assert_eq!(trouble(configured(chain, &topics)), (2, text.to_owned()));
}

#[test]
fn t37_unsolvable_repartition_topics_are_refused() {
    let ring = vec![sub("0", &[], &["r2"], &[topic("r1", 0)], &[]), sub("1", &[], &["r1"], &[topic("r2", 0)], &[])];
    let refusal = configured(ring, &[]).unwrap_err();
    let text = "Failed to compute number of partitions for all repartition topics. There may be loops in the topology \
                that cannot be resolved.";
    assert_eq!((refusal.code().0, refusal.client_message().as_deref()), (130, Some(text)));
    let refusal = configured(vec![sub("0", &["in"], &[], &[topic("r", 0)], &[])], &[("in", 1)]).unwrap_err();
    let text = "Failed to compute number of partitions for all repartition topics, because a repartition source topic \
                is never used as a sink topic.";
    assert_eq!((refusal.code().0, refusal.client_message().as_deref()), (130, Some(text)));
}

/// Kafka's rounds, as spec kip1071 §4.4 pass a tells them: counts of repartition topics, or `None` for a loop.
fn by_rounds(subtopologies: &[Subtopology], topics: &[(&str, i32)]) -> Option<BTreeMap<String, i32>> {
    let sources = subtopologies.iter().flat_map(|s| &s.repartition_source_topics).filter(|t| t.partitions != 0);
    let mut decided: BTreeMap<String, i32> = sources.map(|t| (t.name.clone(), t.partitions)).collect();
    loop {
        let (mut unknown, mut progress) = (false, false);
        for s in subtopologies {
            for sink in s.repartition_sink_topics.iter() {
                if decided.contains_key(sink) {
                    continue;
                }
                let inner = s.repartition_source_topics.iter().filter_map(|t| decided.get(&t.name).copied());
                let outer = s.source_topics.iter().filter_map(|t| topics.iter().find(|k| k.0 == t)).map(|k| k.1);
                match inner.chain(outer).max() {
                    Some(count) => {
                        decided.insert(sink.clone(), count);
                        progress = true;
                    }
                    None => unknown = true,
                }
            }
        }
        if !unknown {
            return Some(decided);
        }
        if !progress {
            return None;
        }
    }
}

proptest::proptest! {
    /// Whoever is not looked at again in vain: the counts are those of going round and round.
    #[test]
    fn s4_4_repartition_counts_are_those_of_kafkas_rounds(
        graph in proptest::collection::vec(
            (
                proptest::collection::vec(0_usize..2, 0..2),
                proptest::collection::vec(0_usize..8, 0..3),
                proptest::collection::vec((0_usize..8, 0_i32..3), 0..3),
            ),
            1..9,
        ),
    ) {
        let topics = [("in0", 3), ("in1", 7)];
        let subtopologies: Vec<Subtopology> = graph.iter().enumerate().map(|(i, (sources, sinks, repartition))| {
            let names = |list: &[usize], word: &str| list.iter().map(|n| format!("{word}{n}")).collect::<Vec<_>>();
            let (sources, sinks) = (names(sources, "in"), names(sinks, "r"));
            // One in three topics has a count that the client prescribes.
            let fixed = |n: usize, fix: i32| if fix == 2 { i32::try_from(n).unwrap() + 11 } else { 0 };
            let repartition: Vec<_> = repartition.iter().map(|(n, fix)| topic(&format!("r{n}"), fixed(*n, *fix))).collect();
            Subtopology { source_topics: sources, repartition_sink_topics: sinks, ..sub(&i.to_string(), &[], &[], &repartition, &[]) }
        }).collect();
        match (by_rounds(&subtopologies, &topics), configured(subtopologies, &topics)) {
            (None, result) => proptest::prop_assert_eq!(result, Err(Refusal::RepartitionLoop)),
            (Some(_), Err(refusal)) => {
                proptest::prop_assert!(matches!(refusal, Refusal::RepartitionNeverSink | Refusal::NoSourceTopics(_)), "{refusal:?}");
            }
            (Some(decided), Ok(result)) => {
                for topic in result.subtopologies.unwrap().values().flat_map(|s| &s.repartition_source_topics) {
                    proptest::prop_assert_eq!(topic.partitions, decided[&topic.name], "{}", topic.name);
                }
            }
        }
    }
}

#[test]
fn s4_4_a_chain_in_the_wrong_order_takes_no_time() {
    let link = |i: usize, last: bool| {
        let from = topic(&format!("r{}", i + 1), if last { 3 } else { 0 });
        sub(&format!("{i:06}"), &[], &[&format!("r{i}")], &[from], &[])
    };
    let chain: Vec<_> = (0..20_000).map(|i| link(i, i == 19_999)).collect();
    let many: Vec<String> = (0..20_000).map(|i| format!("s{i}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let sources: Vec<_> = many.iter().map(|name| topic(&format!("q{name}"), 3)).collect();
    let began = std::time::Instant::now();
    let result = configured(chain, &[]).unwrap();
    assert_eq!(result.subtopologies.unwrap()["000000"].repartition_source_topics[0].partitions, 3);
    assert!(configured(vec![sub("0", &[], &many, &sources, &[])], &[]).is_ok());
    // Seconds, in the slowest build on a busy machine; by rounds it would be hours.
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn h8_a_topology_has_so_many_tasks_and_no_more() {
    let subtopologies = |n: usize| (0..n).map(|i| sub(&i.to_string(), &["in"], &[], &[], &[])).collect::<Vec<_>>();
    let most = i32::try_from(MAX_TASKS / 100).unwrap();
    assert_eq!(configured(subtopologies(100), &[("in", most)]).unwrap().trouble, None);
    let refusal = configured(subtopologies(100), &[("in", most + 1)]).unwrap_err();
    let text = "The topology has 200100 tasks; at most 200000 are accepted.";
    assert_eq!((refusal.code().0, refusal.client_message().as_deref()), (130, Some(text)));
    assert_eq!(refusal.limit(), Some("tasks"));
}

/// Subtopology 1 joins source `in` (if any) with repartition topics r1 and r2 that subtopology 0 writes.
fn joined(source: Option<&str>, r1: i32, r2: i32) -> Vec<Subtopology> {
    let sources: Vec<&str> = source.into_iter().collect();
    let mut reader = sub("1", &sources, &[], &[topic("r1", r1), topic("r2", r2)], &[]);
    reader.copartition_groups = vec![CopartitionGroup {
        source_topics: if source.is_some() { vec![0] } else { vec![] },
        repartition_source_topics: vec![0, 1],
        ..CopartitionGroup::default()
    }];
    vec![sub("0", &["big"], &["r1"], &[], &[]), reader, sub("2", &["small"], &["r2"], &[], &[])]
}

fn decided(result: Result<Configured, Refusal>) -> Vec<(String, i32)> {
    let subtopologies = result.unwrap().subtopologies.unwrap();
    subtopologies["1"].repartition_source_topics.iter().map(|t| (t.name.clone(), t.partitions)).collect()
}

#[test]
fn t38_copartitioned_repartition_topics_follow_the_source_topic() {
    let topics = [("big", 8), ("small", 2), ("in", 5)];
    assert_eq!(decided(configured(joined(Some("in"), 0, 5), &topics)), [("r1".into(), 5), ("r2".into(), 5)]);
    let text = "Number of partitions [4] of repartition topic [r2] doesn't match number of partitions [5] of the source \
                topic.";
    assert_eq!(trouble(configured(joined(Some("in"), 0, 4), &topics)), (2, text.to_owned()));
}

#[test]
fn t38_copartitioned_repartition_topics_alone_follow_the_fixed_one_or_the_largest() {
    let topics = [("big", 8), ("small", 2)];
    assert_eq!(decided(configured(joined(None, 0, 0), &topics)), [("r1".into(), 8), ("r2".into(), 8)]);
    assert_eq!(decided(configured(joined(None, 0, 3), &topics)), [("r1".into(), 3), ("r2".into(), 3)]);
    let text = "Following topics do not have the same number of partitions: [{r1=4, r2=3}]";
    assert_eq!(trouble(configured(joined(None, 4, 3), &topics)), (2, text.to_owned()));
}

#[test]
fn d6_fixed_topics_elsewhere_in_the_topology_do_not_count() {
    let mut subtopologies = joined(None, 0, 3);
    subtopologies.push(sub("3", &["small"], &["f"], &[], &[]));
    subtopologies.push(sub("4", &[], &[], &[topic("f", 7)], &[]));
    let topics = [("big", 8), ("small", 2)];
    assert_eq!(decided(configured(subtopologies.clone(), &topics)), [("r1".into(), 3), ("r2".into(), 3)]);
    // The text names the group's topics, whichever ones differ.
    let text = "Following topics do not have the same number of partitions: [{r1=8, r2=3}]";
    assert_eq!(trouble(configured_as(Compat::Kafka, subtopologies, &topics)), (2, text.to_owned()));
}

#[test]
fn s4_4_the_count_of_a_fixed_topic_is_that_of_the_topic_that_exists() {
    // Both are to have other counts than they have: the group agrees, the topics are then found wrong.
    let found = [("big", 8), ("small", 2), ("r1", 3), ("r2", 3)];
    let text = "Existing topic r1 has different number of partitions: expected 6, found 3";
    assert_eq!(trouble(configured(joined(None, 6, 3), &found)), (2, text.to_owned()));
    // Where two subtopologies read a topic, the last word counts.
    let mut subtopologies = joined(None, 6, 3);
    subtopologies.push(sub("3", &["small"], &[], &[topic("r1", 0)], &[]));
    assert_eq!(configured(subtopologies, &found).unwrap().trouble, None);
}

#[test]
fn s4_3_internal_topics_are_looked_at_in_the_order_of_kafkas_table() {
    let wanted = |compat| {
        let subtopologies = vec![sub("0", &["in"], &[], &[], &["g-l0", "g-l1", "g-b", "g-a"])];
        trouble(configured_as(compat, subtopologies, &[("in", 3)])).1
    };
    assert_eq!(wanted(Compat::Streamside), "Internal topics are missing: g-a, g-b, g-l0 and 1 additional topics");
    assert_eq!(wanted(Compat::Kafka), "Internal topics are missing: g-l1, g-l0, g-a and 1 additional topics");
}

#[test]
fn t39_changelogs_have_one_partition_a_task() {
    let stateless = configured(vec![sub("0", &["in"], &[], &[], &[])], &[("in", 3)]).unwrap().subtopologies.unwrap();
    assert_eq!((stateless["0"].stateful, stateless["0"].state_changelog_topics.len()), (false, 0));
    // A source topic that serves as its own changelog.
    let reused = configured(vec![sub("0", &["in", "more"], &[], &[], &["in"])], &[("in", 3), ("more", 2)]).unwrap();
    assert_eq!(reused.trouble, None);
    let refusal = configured(vec![sub("0", &[], &[], &[], &["c"])], &[]).unwrap_err();
    assert_eq!(
        (refusal.code().0, refusal.client_message().as_deref()),
        (130, Some("No source topics found for subtopology 0"))
    );
}

#[test]
fn t34_t35_topics_that_change_are_looked_at_again() {
    let mut lab = Lab::with(&[("foo", 3)]);
    lab.beat(&joining("m", topology(&[("0", &["foo"])])));
    lab.config.topics.insert("unrelated".into(), 1);
    lab.groups.topics_changed();
    assert_eq!(lab.beat(&steady("m", 2)).member_epoch, 2);
    assert_eq!(kinds(&lab.records), Vec::<String>::new());
    lab.config.topics.insert("foo".into(), 6);
    lab.groups.topics_changed();
    assert_eq!(lab.beat(&steady("m", 2)).member_epoch, 3);
    assert_eq!(lab.metadata().epoch, 3);
    lab.config.topics.remove("foo");
    lab.groups.topics_changed();
    let answer = lab.beat(&steady("m", 3));
    assert_eq!((statuses(&answer), lab.state(), lab.metadata().epoch), (vec![1], "NotReady", 4));
}

#[test]
fn s4_5_a_topology_that_cannot_work_makes_no_group() {
    let mut lab = Lab::with(&[("in", 1)]);
    let topology =
        Topology { subtopologies: vec![sub("0", &["in"], &[], &[topic("r", 0)], &[])], ..Topology::default() };
    assert_eq!(lab.beat(&joining("m", topology)).error_code, 130);
    assert!(lab.groups.is_empty());
}
