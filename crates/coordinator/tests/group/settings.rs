//! Spec kip1071 §7.2: settings of a single group. Texts and codes are what Kafka 4.4.0 answered.

use streamside_coordinator::group::Setting;
use streamside_coordinator::{Compat, Durable, SettingBounds};
use streamside_wire::messages::incremental_alter_configs::AlterableConfig;
use streamside_wire::messages::streams_group_heartbeat::{KeyValue, TopicInfo};

use crate::lab::*;

const STANDBYS: &str = "streams.num.standby.replicas";
const SESSION: &str = "streams.session.timeout.ms";
const HEARTBEAT: &str = "streams.heartbeat.interval.ms";
const TAGS: &str = "streams.rack.aware.assignment.tags";

/// The recorded broker: least session 1000, least heartbeat interval 100.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.config.session_timeout_ms = 8_000;
    lab.config.heartbeat_interval_ms = 1_000;
    lab.config.setting_bounds = SettingBounds {
        session_timeout_ms: (1_000, 60_000),
        heartbeat_interval_ms: (100, 15_000),
        ..SettingBounds::default()
    };
    lab.groups.retune(&lab.config);
    lab
}

fn refused(changes: &[AlterableConfig]) -> (i16, String) {
    let lab = lab();
    let refusal = lab.groups.decide_alter(&lab.config, "g", changes, false).unwrap_err();
    (refusal.code().0, refusal.client_message())
}

fn tags(request: Request, tags: &[(&str, &str)]) -> Request {
    let tags = tags.iter().map(|(key, value)| KeyValue {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
        ..KeyValue::default()
    });
    Request { client_tags: Some(tags.collect()), ..request }
}

#[test]
fn s7_2_values_are_held_to_kafkas_bounds_in_kafkas_words() {
    let at_least = |name: &str, value: &str, least: i32| {
        format!("Invalid value {value} for configuration {name}: Value must be at least {least}")
    };
    let no_number = |name: &str, value: &str, of: &str| {
        format!("Invalid value {value} for configuration {name}: Not a number of type {of}")
    };
    let lag = "streams.acceptable.recovery.lag";
    for (name, value, text) in [
        (SESSION, "999", "streams.session.timeout.ms must be in the range 1000 to 60000 inclusive.".to_owned()),
        (SESSION, "60001", "streams.session.timeout.ms must be in the range 1000 to 60000 inclusive.".to_owned()),
        (SESSION, "1000", "streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms".to_owned()),
        (SESSION, "abc", no_number(SESSION, "abc", "INT")),
        (SESSION, "", no_number(SESSION, "", "INT")),
        (HEARTBEAT, "0", at_least(HEARTBEAT, "0", 1)),
        (HEARTBEAT, "99", "streams.heartbeat.interval.ms must be in the range 100 to 15000 inclusive.".to_owned()),
        (HEARTBEAT, "8000", "streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms".to_owned()),
        (STANDBYS, "-1", at_least(STANDBYS, "-1", 0)),
        (STANDBYS, "3", "streams.num.standby.replicas must be less than or equal to 2".to_owned()),
        (STANDBYS, "2147483648", no_number(STANDBYS, "2147483648", "INT")),
        (
            "streams.assignment.interval.ms",
            "15001",
            "streams.assignment.interval.ms must be in the range 0 to 15000 inclusive.".to_owned(),
        ),
        ("streams.initial.rebalance.delay.ms", "-1", at_least("streams.initial.rebalance.delay.ms", "-1", 0)),
        (TAGS, "zone,zone", "streams.rack.aware.assignment.tags must not contain duplicate tag keys.".to_owned()),
        (TAGS, "a,,b", "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.".to_owned()),
        (
            "streams.assignor.name",
            "none",
            "streams.assignor.name 'none' is not a registered task assignor. Registered assignors are: [sticky]."
                .to_owned(),
        ),
        (
            "streams.task.offset.interval.ms",
            "14999",
            "streams.task.offset.interval.ms must be greater than or equal to 15000".to_owned(),
        ),
        (
            "streams.num.warmup.replicas",
            "21",
            "streams.num.warmup.replicas must be less than or equal to 20".to_owned(),
        ),
        (lag, "9223372036854775808", no_number(lag, "9223372036854775808", "LONG")),
        (
            "streams.assignor.offload.enable",
            "maybe",
            "Invalid value maybe for configuration streams.assignor.offload.enable: Expected value to be either true \
             or false"
                .to_owned(),
        ),
        ("nope", "1", "Unknown group config name: nope".to_owned()),
    ] {
        assert_eq!(refused(&[change(name, Some(value))]), (40, text), "{name}={value}");
    }
}

#[test]
fn s7_2_malformed_changes_are_refused_before_names_and_values() {
    let operation = |config_operation| AlterableConfig { config_operation, ..change(TAGS, Some("a")) };
    let double = "Error due to duplicate config keys".to_owned();
    assert_eq!(refused(&[change(STANDBYS, Some("1")), change(STANDBYS, None)]), (42, double));
    let null = AlterableConfig { config_operation: 0, ..change(STANDBYS, None) };
    assert_eq!(refused(&[null]), (42, format!("Null value not supported for : {STANDBYS}")));
    let not_list = |word| (40, format!("Can't {word} to key {TAGS} because its type is not LIST."));
    assert_eq!(refused(&[operation(2)]), not_list("APPEND"));
    assert_eq!(refused(&[operation(3)]), not_list("SUBTRACT"));
    assert_eq!(refused(&[operation(9)]), (42, "Unknown config operation 9".to_owned()));
    // What a client wrote is cut, or the answer would not fit into a string of the protocol.
    let (code, text) = refused(&[change(&"é".repeat(16_000), Some("1"))]);
    assert_eq!((code, text.chars().count()), (40, "Unknown group config name: ".len() + 201));
}

#[test]
fn s7_2_an_alter_is_all_or_nothing_and_normalises() {
    let mut lab = lab();
    assert!(lab.alter(&[(HEARTBEAT, Some("2000")), (STANDBYS, Some("9"))]).is_err());
    assert!(lab.groups.settings("g").is_none());
    // A name that nobody knows may be taken away.
    lab.alter(&[("nope", None)]).unwrap();
    assert!(lab.records.is_empty());
    lab.alter(&[(STANDBYS, Some(" +01 ")), (TAGS, Some(" a , b "))]).unwrap();
    let own = lab.groups.settings("g").unwrap().clone();
    assert_eq!(
        (own.get(Setting::NumStandbyReplicas), own.get(Setting::RackAwareAssignmentTags)),
        (Some("1"), Some("a,b"))
    );
    // Told again: nothing to write.
    lab.alter(&[(STANDBYS, Some("1"))]).unwrap();
    assert!(lab.records.is_empty());
    // Session and heartbeat are held against each other whichever of them changes, or goes.
    lab.alter(&[(SESSION, Some("20000")), (HEARTBEAT, Some("9000"))]).unwrap();
    assert!(lab.alter(&[(SESSION, None)]).is_err());
    lab.alter(&[(SESSION, None), (HEARTBEAT, None), (STANDBYS, None), (TAGS, None)]).unwrap();
    assert_eq!(kinds(&lab.records), ["1025-"]);
    assert_eq!(lab.groups.settings_len(), 0);
}

#[test]
fn s7_2_validate_only_changes_nothing() {
    let lab = lab();
    let alter = |value| lab.groups.decide_alter(&lab.config, "g", &[change(STANDBYS, Some(value))], true);
    assert!(alter("1").unwrap().is_empty());
    assert!(alter("3").is_err());
}

#[test]
fn t53_standby_replicas_and_tags_bump_and_timers_do_not() {
    for compat in [Compat::Kafka, Compat::Streamside] {
        let mut lab = lab();
        lab.config.compat = compat;
        assert_eq!(lab.beat(&join("m")).member_epoch, 2);
        let unbumped = [
            (HEARTBEAT, "700"),
            (SESSION, "30000"),
            ("streams.acceptable.recovery.lag", "5"),
            ("streams.task.offset.interval.ms", "20000"),
            ("streams.assignment.interval.ms", "1"),
            ("streams.assignor.name", "sticky"),
        ];
        for (name, value) in unbumped {
            lab.alter(&[(name, Some(value))]).unwrap();
            let answer = lab.beat(&steady("m", 2));
            assert_eq!((answer.error_code, answer.member_epoch), (0, 2), "{name}");
            assert!(lab.records.is_empty());
        }
        lab.alter(&[("streams.assignment.interval.ms", None)]).unwrap();
        let answer = lab.beat(&steady("m", 2));
        assert_eq!((answer.heartbeat_interval_ms, answer.task_offset_interval_ms), (700, 20_000));
        assert_eq!(answer.acceptable_recovery_lag, 5);
        lab.alter(&[(STANDBYS, Some("1"))]).unwrap();
        assert_eq!(lab.beat(&steady("m", 2)).member_epoch, 3);
        assert_eq!(lab.beat(&steady("m", 3)).member_epoch, 3);
        lab.alter(&[(TAGS, Some("b,a"))]).unwrap();
        assert_eq!(lab.beat(&steady("m", 3)).member_epoch, 4);
        // Another order is another value.
        lab.alter(&[(TAGS, Some("a,b"))]).unwrap();
        assert_eq!(lab.beat(&steady("m", 4)).member_epoch, 5);
        lab.alter(&[(TAGS, None), (STANDBYS, None)]).unwrap();
        assert_eq!(lab.beat(&steady("m", 5)).member_epoch, 6);
    }
}

#[test]
fn s7_2_standby_replicas_of_the_group_are_assigned() {
    let mut lab = Lab::with(&[("foo", 2)]);
    lab.alter(&[(STANDBYS, Some("1"))]).unwrap();
    let mut stateful = topology(&[("a", &["foo"])]);
    stateful.subtopologies[0].state_changelog_topics =
        vec![TopicInfo { name: "log".to_owned(), ..TopicInfo::default() }];
    lab.config.topics.insert("log".to_owned(), 2);
    for member in ["m1", "m2"] {
        lab.beat(&Request { topology: Some(stateful.clone()), ..join(member) });
    }
    let described = lab.groups.describe(&lab.config, "g").unwrap();
    let standbys: usize =
        described.members.iter().flat_map(|m| &m.target_assignment.standby_tasks).map(|t| t.partitions.len()).sum();
    assert_eq!(standbys, 2);
}

#[test]
fn s3_3_missing_client_tags_are_told_to_version_1_only() {
    let mut lab = lab();
    lab.alter(&[(TAGS, Some("b,a"))]).unwrap();
    let text = |missing: &str| {
        format!(
            "Missing required client tags for rack-aware standby assignment: [{missing}]. Configure them via \
             'client.tag.<tagKey>' in your Streams config."
        )
    };
    let answer = lab.beat(&join("m"));
    assert_eq!((statuses(&answer), status_text(&answer)), (vec![6], text("b, a").as_str()));
    assert_eq!(status_text(&lab.beat(&steady("m", 2))), text("b, a"));
    assert_eq!(statuses(&lab.beat_at(&steady("m", 2), 0)), [0_i8; 0]);
    assert_eq!(status_text(&lab.beat(&tags(steady("m", 2), &[("a", "1")]))), text("b"));
    // An empty value counts.
    assert_eq!(statuses(&lab.beat(&tags(join("n"), &[("a", "1"), ("b", "")]))), [0_i8; 0]);
    // The broker's key serves groups without tags of their own; an empty list of their own is one.
    let mut lab = self::lab();
    lab.config.rack_aware_assignment_tags = vec!["zone".to_owned()];
    assert_eq!(status_text(&lab.beat(&join("m"))), text("zone"));
    lab.alter(&[(TAGS, Some(""))]).unwrap();
    let answer = lab.beat(&steady("m", 2));
    assert_eq!((statuses(&answer), answer.member_epoch), (vec![], 3));
}

#[test]
fn s7_2_session_and_delay_of_the_group_hold() {
    let mut lab = lab();
    lab.alter(&[(SESSION, Some("30000")), ("streams.initial.rebalance.delay.ms", Some("2000"))]).unwrap();
    let answer = lab.beat(&join("m"));
    assert_eq!((answer.member_epoch, statuses(&answer)), (1, vec![5]));
    lab.pass(2_000);
    assert_eq!(lab.beat(&steady("m", 1)).member_epoch, 2);
    lab.pass(29_999);
    assert_eq!(lab.groups.member_count(), 1);
    lab.pass(1);
    assert_eq!(lab.groups.member_count(), 0);
    // So after a start, where all sessions begin anew.
    lab.beat(&join("m"));
    lab.restart();
    lab.pass(29_999);
    assert_eq!(lab.groups.member_count(), 1);
    lab.pass(1);
    assert_eq!(lab.groups.member_count(), 0);
}

#[test]
fn s7_2_what_the_broker_no_longer_allows_is_capped() {
    let mut lab = lab();
    lab.alter(&[(HEARTBEAT, Some("200")), (STANDBYS, Some("2"))]).unwrap();
    lab.config.setting_bounds.heartbeat_interval_ms = (1_000, 15_000);
    lab.config.setting_bounds.max_standby_replicas = 0;
    let answer = lab.beat(&join("m"));
    assert_eq!(answer.heartbeat_interval_ms, 1_000);
    assert_eq!(lab.metadata().last_assignment_configs["num.standby.replicas"], "0");
}

#[test]
fn s7_2_settings_outlive_their_group_and_a_restart() {
    let mut lab = lab();
    lab.alter(&[(HEARTBEAT, Some("700")), (TAGS, Some("zone"))]).unwrap();
    assert_eq!(kinds(&lab.journal), ["1025"]);
    assert!(lab.groups.is_empty(), "settings make no group");
    lab.beat(&join("m"));
    lab.restart();
    // Whichever of the two was read first.
    lab.journal.rotate_left(1);
    lab.restart();
    let answer = lab.beat(&steady("m", 2));
    assert_eq!((answer.heartbeat_interval_ms, answer.member_epoch, statuses(&answer)), (700, 2, vec![6]));
    lab.beat(&steady("m", -1));
    lab.delete("g").unwrap();
    assert!(lab.groups.is_empty());
    assert_eq!(lab.groups.settings_len(), 1);
    assert_eq!(lab.beat(&join("m")).heartbeat_interval_ms, 700);
}

#[test]
fn d2_settings_of_groups_are_bounded_in_number_and_size() {
    let mut lab = lab();
    lab.config.limits.max_groups = 2;
    let mut alter = |group: &str, value: Option<&str>| {
        let records = lab.groups.decide_alter(&lab.config, group, &[change(TAGS, value)], false)?;
        lab.apply_all(records);
        Ok::<_, streamside_coordinator::group::settings::SettingRefusal>(lab.groups.settings_len())
    };
    assert_eq!(alter("g1", Some("a")).unwrap(), 1);
    assert_eq!(alter("g2", Some("a")).unwrap(), 2);
    let refusal = alter("g3", Some("a")).unwrap_err();
    assert_eq!((refusal.code().0, refusal.limit()), (44, Some("group_settings")));
    // Those that there are may change, and make room.
    assert_eq!(alter("g2", Some("b")).unwrap(), 2);
    assert_eq!(alter("g1", None).unwrap(), 1);
    assert_eq!(alter("g3", Some("a")).unwrap(), 2);
    assert!(alter("g3", Some(&"x".repeat(1_025))).is_err());
    for _ in 0..100 {
        alter("g2", None).unwrap();
        alter("g2", Some("a")).unwrap();
    }
    assert_eq!(lab.groups.settings_len(), 2);
    let stored = lab.journal.iter().filter(|r| matches!(r, Durable::Settings { value: Some(_), .. })).count();
    assert_eq!(stored, 104);
}
