//! What a steady heartbeat costs: `cargo run --release -p streamside-coordinator --example steady [members]`.

use std::borrow::Cow;
use std::time::Instant;

use streamside_coordinator::group::Groups;
use streamside_coordinator::{ClientContext, Config, Coordinator, Input, Membership, Now, Record, Volatile};
use streamside_wire::messages::streams_group_heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology,
};

fn apply(groups: &mut Groups, records: impl IntoIterator<Item = Record>) {
    for record in records {
        match record {
            Record::Durable(record) => groups.apply_durable(&record),
            Record::Volatile(Volatile::Group(change)) => groups.apply_volatile(&change),
            Record::Volatile(_) => {}
        }
    }
}

fn main() {
    let members: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let config = Config { initial_rebalance_delay_ms: 0, assignment_interval_ms: 0, ..Config::default() };
    let mut groups = Groups::new(&config);
    let mut now = Now { at: 1_700_000_000_000, jitter: 0 };
    let client = ClientContext { client_id: "client", client_host: "/127.0.0.1" };
    let ids: Vec<String> = (0..members).map(|i| format!("{i:08}-3d5e-4a4e-9d5b-6f6f2f6d2c1a")).collect();
    let mut epochs = vec![0_i32; members];
    let request = |id: &'_ str, epoch: i32| StreamsGroupHeartbeatRequest {
        group_id: Cow::Borrowed("an-application"),
        member_id: Cow::Owned(id.to_owned()),
        member_epoch: epoch,
        ..StreamsGroupHeartbeatRequest::default()
    };
    let begun = Instant::now();
    for (id, epoch) in ids.iter().zip(&mut epochs) {
        let join = StreamsGroupHeartbeatRequest {
            rebalance_timeout_ms: 300_000,
            topology: Some(Topology::default()),
            active_tasks: Some(Vec::new()),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            process_id: Some(Cow::Borrowed("process")),
            ..request(id, 0)
        };
        let decision = groups.decide_heartbeat(&config, now, &join, 1, client);
        *epoch = decision.response.member_epoch;
        let records = decision.records;
        apply(&mut groups, records);
    }
    println!("{members} joins: {:?} each", begun.elapsed() / u32::try_from(members).unwrap_or(1));
    for (id, epoch) in ids.iter().zip(&mut epochs) {
        let beat = request(id, *epoch);
        let decision = groups.decide_heartbeat(&config, now, &beat, 1, client);
        *epoch = decision.response.member_epoch;
        let records = decision.records;
        apply(&mut groups, records);
    }
    let requests: Vec<_> = ids.iter().zip(&epochs).map(|(id, epoch)| request(id, *epoch)).collect();
    println!("a record takes {} bytes", std::mem::size_of::<Record>());
    let rounds = 2_000_000 / members.max(1);
    let begun = Instant::now();
    let mut records = 0;
    for _ in 0..rounds {
        now.at += 5;
        for beat in &requests {
            let decision = groups.decide_heartbeat(&config, now, beat, 1, client);
            assert_eq!(decision.response.error_code, 0);
            records += decision.records.len();
            let decided = decision.records;
            apply(&mut groups, decided);
        }
    }
    let beats = u32::try_from(rounds * members).unwrap_or(1);
    println!("{beats} steady heartbeats: {:?} each, {records} records", begun.elapsed() / beats);
    beside_a_broker(&ids, rounds);
}

/// The same where a broker answered them and we look on.
fn beside_a_broker(ids: &[String], rounds: usize) {
    let mut coordinator = Coordinator::new(Config { membership: Membership::Broker, ..Config::default() });
    let mut now = Now { at: 1_700_000_000_000, jitter: 0 };
    let request = |id: &'_ str, epoch: i32| StreamsGroupHeartbeatRequest {
        group_id: Cow::Borrowed("an-application"),
        member_id: Cow::Owned(id.to_owned()),
        member_epoch: epoch,
        topology: (epoch == 0).then(Topology::default),
        ..StreamsGroupHeartbeatRequest::default()
    };
    let answer = StreamsGroupHeartbeatResponse {
        member_epoch: 1,
        heartbeat_interval_ms: 5_000,
        ..StreamsGroupHeartbeatResponse::default()
    };
    let mut tell = |now: Now, request: &StreamsGroupHeartbeatRequest<'_>| {
        let input = Input::Beat { request, version: 1, answer: &answer, connection: 1 };
        let decision = coordinator.decide(now, input);
        for record in decision.records {
            coordinator.apply(record);
        }
    };
    for id in ids {
        tell(now, &request(id, 0));
    }
    let requests: Vec<_> = ids.iter().map(|id| request(id, 1)).collect();
    let begun = Instant::now();
    for _ in 0..rounds {
        now.at += 5;
        for beat in &requests {
            tell(now, beat);
        }
    }
    let beats = u32::try_from(rounds * ids.len()).unwrap_or(1);
    println!("{beats} steady heartbeats beside a broker: {:?} each", begun.elapsed() / beats);
}
