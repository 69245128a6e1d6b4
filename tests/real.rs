//! Unmodified Kafka 4.4.0 against the real binary: the stock `kafka-streams-groups`, the Java Admin client, brokers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`java`] | jars, tools, the probe |
//! | [`driver`] | our Java programs: Streams applications, producers, consumers, the Admin client, the stock tool in one JVM |
//! | [`broker`] | Kafka brokers and clusters of three |
//! | [`stage`] | a server of ours with groups on it |
//! | [`golden`] | what the stock tool prints of topology descriptions |
//! | [`tool`] | what the stock tool says of groups, members, offsets |
//! | [`admin`] | what the Java Admin client reads |
//! | [`recorded`] | the recorded scenarios through us in front of brokers without a plugin |
//! | [`beside`] | the binary in front of brokers |
//! | [`versions`] | every broker version behind us, with all of the following |
//! | [`plain`] | clients without Kafka Streams, direct and through us |
//! | [`librdkafka`] | a client that is not Java's, direct and through us |
//! | [`applications`] | applications that process records |
//! | [`zoo`] | what the stock tool says of applications, beside what it says of Kafka 4.4.0 |
//! | [`healing`] | groups that go and come back, in front of a broker that does not tell |
//! | [`faults`] | brokers and sidecar killed under load, coordinators that move |
//! | [`own`] | our command line against a Kafka broker, in the clear, logged in, encrypted |
//! | [`secured`] | TLS, logins and certificates through us |
//! | [`rights`] | an authorizer behind us |
//! | [`restart`] | a sidecar of a secured cluster starts again under clients of 3.7 and 4.4 |
//!
//! Needs Java 17 and Maven (`tests/real/run.sh`), so nothing of it runs in `cargo test --workspace`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

#[path = "real/admin.rs"]
mod admin;
#[path = "real/applications.rs"]
mod applications;
#[path = "real/beside.rs"]
mod beside;
#[path = "real/broker.rs"]
mod broker;
#[path = "real/driver.rs"]
mod driver;
#[path = "real/faults.rs"]
mod faults;
#[path = "real/golden.rs"]
mod golden;
#[path = "real/healing.rs"]
mod healing;
#[path = "real/java.rs"]
mod java;
#[path = "real/librdkafka.rs"]
mod librdkafka;
#[path = "real/own.rs"]
mod own;
#[path = "real/plain.rs"]
mod plain;
#[path = "real/recorded.rs"]
mod recorded;
#[path = "real/restart.rs"]
mod restart;
#[path = "real/rights.rs"]
mod rights;
#[path = "real/secured.rs"]
mod secured;
#[path = "real/stage.rs"]
mod stage;
#[path = "real/tool.rs"]
mod tool;
#[path = "real/versions.rs"]
mod versions;
#[path = "real/zoo.rs"]
mod zoo;
