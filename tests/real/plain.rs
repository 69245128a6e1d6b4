//! Clients that know nothing of Kafka Streams: what they get through us is what they get from the broker.

use serde_json::{Value, json};

use crate::driver::Driver;

/// One round over everything at an address, in topics and groups that begin with a prefix; facts without the prefix.
fn round(driver: &mut Driver, bootstrap: &str, prefix: &str, share: bool) -> Vec<(String, Value)> {
    let mut facts = Vec::new();
    let mut ask = |what: &str, command: Value| {
        let mut command = command;
        command["bootstrap"] = bootstrap.into();
        let answer = driver.ask(command);
        let text = answer.to_string().replace(prefix, "");
        facts.push((what.to_owned(), serde_json::from_str(&text).unwrap()));
    };
    let topic = |name: &str| format!("{prefix}{name}");

    ask("admin", json!({"do": "round", "prefix": prefix}));

    for acks in ["0", "1", "all"] {
        let name = topic(&format!("acks-{acks}"));
        ask("topic", json!({"do": "topics", "topics": {name.clone(): 1}}));
        let values: Vec<String> = (0..50).map(|i| format!("k{i}={acks}")).collect();
        let config = json!({"acks": acks, "enable.idempotence": acks == "all", "linger.ms": 50});
        ask(
            &format!("produce, acks {acks}"),
            json!({"do": "produce", "topic": name, "values": values, "config": config}),
        );
        ask(&format!("read, acks {acks}"), json!({"do": "read", "topic": name, "count": 50}));
    }
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let name = topic(compression);
        ask("topic", json!({"do": "topics", "topics": {name.clone(): 2}}));
        let long = "x".repeat(900_000);
        let values = [format!("a={long}"), "b=1".to_owned(), format!("c={long}"), "d=2".to_owned()];
        let config = json!({"compression.type": compression, "linger.ms": 50});
        let produce = json!({"do": "produce", "topic": name, "values": values, "config": config});
        ask(&format!("produce, {compression}"), produce);
        // Fetched in pieces, and in one.
        for bytes in [10_000, 5_000_000] {
            let config = json!({"max.partition.fetch.bytes": bytes});
            let read = json!({"do": "read", "topic": name, "count": 4, "config": config});
            ask(&format!("read, {compression}, {bytes}"), read);
        }
    }

    let name = topic("shared");
    ask("topic", json!({"do": "topics", "topics": {name.clone(): 2}}));
    let values: Vec<String> = (0..200).map(|i| format!("k{i}={i}")).collect();
    ask("produce", json!({"do": "produce", "topic": name, "values": values, "config": {"linger.ms": 50}}));
    for protocol in ["classic", "consumer"] {
        let consume =
            json!({"do": "consume", "topic": name, "group": topic(protocol), "protocol": protocol, "count": 200});
        ask(&format!("consume, {protocol}"), consume);
    }
    if share {
        let group = topic("share");
        let key = "share.auto.offset.reset";
        ask("share config", json!({"do": "group-config", "group": group, "key": key, "value": "earliest"}));
        ask("share", json!({"do": "share", "topic": name, "group": group, "count": 200}));
    }

    let name = topic("transactions");
    ask("topic", json!({"do": "topics", "topics": {name.clone(): 2}}));
    let transactions = json!({"do": "transactions", "topic": name, "group": topic("tx-group"), "id": topic("tx")});
    ask("transactions", transactions);
    for (level, count) in [("read_committed", 2), ("read_uncommitted", 3)] {
        let config = json!({"isolation.level": level});
        ask(level, json!({"do": "read", "topic": name, "count": count, "config": config}));
    }
    facts
}

/// Producers with every acknowledgement and compression, records of a megabyte, consumers of every protocol,
/// transactions, and most of what the Admin client can ask.
pub fn play(driver: &mut Driver, broker: &str, share: bool) {
    let through = driver.bootstrap().to_owned();
    let there = round(driver, broker, "aa-", share);
    let here = round(driver, &through, "bb-", share);
    assert_eq!(there.len(), here.len());
    for (there, here) in there.iter().zip(&here) {
        let short = |fact: &(String, Value)| {
            let mut text = fact.1.to_string();
            text.truncate(2_000);
            text
        };
        assert!(there == here, "{}\ndirect: {}\nthrough: {}", there.0, short(there), short(here));
    }
    // That there was something to compare.
    let read = here.iter().find(|fact| fact.0 == "read_committed").unwrap();
    assert_eq!(read.1, json!(["a=committed-1", "b=committed-2"]));
    let consumed = here.iter().find(|fact| fact.0 == "consume, consumer").unwrap();
    assert_eq!((consumed.1["values"].as_array().unwrap().len(), &consumed.1["assigned"]), (200, &json!("1+1")));
}
