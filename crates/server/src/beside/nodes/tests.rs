use super::*;

/// A port whose neighbours are probably free: the system's own choice is above what tests use.
async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

struct Lab {
    folder: tempfile::TempDir,
    listener: SocketAddr,
    ports: NodePorts,
}

impl Lab {
    fn new(listener: SocketAddr, ports: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), listener, ports: NodePorts::parse(ports).unwrap() }
    }

    fn open(&self) -> Result<(Arc<Nodes>, mpsc::UnboundedReceiver<Opened>), NodesError> {
        let setup = Setup {
            file: super::super::node_file::path(self.folder.path()),
            ports: self.ports.clone(),
            listener: self.listener,
            host: "gate.example".into(),
            advertised_port: self.listener.port(),
            bootstrap: vec![HostPort { host: "kafka".to_owned(), port: 9092 }],
        };
        Nodes::open(setup, Arc::default(), Arc::new(Metrics::new("beside", None, "none")))
    }
}

async fn is_open(port: u16) -> bool {
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

#[tokio::test]
async fn a_port_is_open_when_it_is_named_and_the_map_survives_a_restart() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, mut opened) = lab.open().unwrap();
    let reach = nodes.reach(Some("c1"), 1, "kafka-1", 9092).unwrap();
    assert_eq!(&*reach.host, "gate.example");
    assert!(is_open(reach.port).await);
    let first = opened.try_recv().unwrap();
    assert_eq!((first.node, first.listener.local_addr().unwrap().port()), (1, reach.port));
    assert_eq!(nodes.reach(Some("c1"), 1, "kafka-1", 9092), Some(reach.clone()), "asked again");
    assert!(opened.try_recv().is_err());
    assert_eq!(nodes.route(1).unwrap().upstream.to_string(), "kafka-1:9092");
    assert!(nodes.route(2).is_none());
    drop((nodes, opened, first));
    assert!(!is_open(reach.port).await);

    let (again, _opened) = lab.open().unwrap();
    assert!(is_open(reach.port).await, "before anything was asked");
    assert_eq!(again.cluster().as_deref(), Some("c1"));
    assert_eq!(again.route(1).unwrap().upstream.to_string(), "kafka-1:9092");
}

#[tokio::test]
async fn a_moved_node_keeps_its_port_and_new_connections_follow() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, _opened) = lab.open().unwrap();
    let before = nodes.reach(None, 4, "10.0.0.1", 9092).unwrap();
    let old = nodes.route(4).unwrap();
    let after = nodes.reach(None, 4, "10.0.0.2", 9093).unwrap();
    assert_eq!(before, after);
    assert_eq!(old.upstream.to_string(), "10.0.0.1:9092");
    assert_eq!(nodes.route(4).unwrap().upstream.to_string(), "10.0.0.2:9093");
    drop((nodes, _opened));
    assert_eq!(lab.open().unwrap().0.route(4).unwrap().upstream.to_string(), "10.0.0.2:9093");
}

#[tokio::test]
async fn a_taken_port_gives_way_to_the_next_and_the_choice_is_kept() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let wanted = at.port() + 1;
    let blocker = TcpListener::bind(("127.0.0.1", wanted)).await;
    let (nodes, opened) = lab.open().unwrap();
    let port = nodes.reach(None, 0, "kafka", 9092).unwrap().port;
    assert!(port > wanted);
    drop((nodes, opened, blocker));
    let (nodes, _opened) = lab.open().unwrap();
    assert_eq!(nodes.reach(None, 0, "kafka", 9092).unwrap().port, port, "free again, but clients know the other");
}

#[tokio::test]
async fn ports_that_were_written_down_stop_the_start_and_later_give_way() {
    let (_held, at) = listener().await;
    let blocked = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = blocked.local_addr().unwrap().port();
    let lab = Lab::new(at, &format!("1:{taken}=kafka:9092"));
    assert!(matches!(lab.open(), Err(NodesError::Taken { node: 1, port, .. }) if port == taken));
    let lab = Lab::new(at, &format!("1:{taken}"));
    let (nodes, _opened) = lab.open().unwrap();
    let known = [(1, "kafka".to_owned(), 9092)];
    assert!(matches!(nodes.learn(None, &known), Err(NodesError::Taken { .. })), "known at the start");
    assert_ne!(nodes.reach(None, 1, "kafka", 9092).unwrap().port, taken, "learnt later");
    let lab = Lab::new(at, "65000+id");
    let (nodes, _opened) = lab.open().unwrap();
    assert!(matches!(nodes.learn(None, &[(600, "kafka".to_owned(), 1)]), Err(NodesError::Overflow { node: 600 })));
    assert!(nodes.reach(None, 600, "kafka", 1).is_some());
    assert!(nodes.reach(None, i32::MAX, "kafka", 1).is_some());
}

#[tokio::test]
async fn a_pinned_node_stays_where_it_was_put() {
    let (_held, at) = listener().await;
    let (_free, free) = {
        let (listener, address) = listener().await;
        drop(listener);
        ((), address.port())
    };
    let lab = Lab::new(at, &format!("7:{free}=inside.example:1234"));
    let (nodes, _opened) = lab.open().unwrap();
    assert!(is_open(free).await);
    assert_eq!(nodes.reach(None, 7, "elsewhere", 9092).unwrap().port, free);
    assert_eq!(nodes.route(7).unwrap().upstream.to_string(), "inside.example:1234");
    nodes.seen(None, &[]);
    assert!(!nodes.list()[0].gone);
}

#[tokio::test]
async fn gone_nodes_close_once_nobody_is_connected_and_come_back_on_their_port() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, mut opened) = lab.open().unwrap();
    let one = nodes.reach(None, 1, "a", 1).unwrap();
    nodes.reach(None, 2, "b", 1).unwrap();
    let mut listeners = [opened.try_recv().unwrap(), opened.try_recv().unwrap()];
    nodes.seen(None, &[(2, "b".to_owned(), 1)]);
    let long_after = Instant::now() + GONE_AFTER;
    let connected = nodes.route(1).unwrap();
    nodes.sweep_at(long_after);
    assert!(listeners[0].closed.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty), "in use");
    drop(connected);
    nodes.sweep_at(Instant::now());
    assert!(nodes.list()[0].open, "a restart of the broker is no reason");
    nodes.sweep_at(long_after);
    assert!(listeners[0].closed.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
    assert!(nodes.list()[1].open);
    drop(listeners);
    assert_eq!(nodes.reach(None, 1, "a", 1), Some(one));
    assert!(opened.try_recv().is_ok_and(|opened| opened.node == 1));
    assert!(!nodes.list()[0].gone);
}

#[tokio::test]
async fn another_cluster_takes_the_place_of_the_known_one() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, _opened) = lab.open().unwrap();
    nodes.reach(Some("c1"), 1, "a", 1).unwrap();
    nodes.reach(Some("c1"), 2, "a", 2).unwrap();
    nodes.reach(None, 3, "a", 3).unwrap();
    assert_eq!(nodes.list().len(), 3);
    nodes.reach(Some("c2"), 1, "z", 1).unwrap();
    assert_eq!(
        nodes.list().iter().map(|n| (n.id, n.upstream.to_string())).collect::<Vec<_>>(),
        [(1, "z:1".to_owned())]
    );
}

#[tokio::test]
async fn our_own_address_is_no_nodes_and_neither_is_nonsense() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, _opened) = lab.open().unwrap();
    assert_eq!(nodes.reach(None, 1, "gate.example", i32::from(at.port())), None);
    assert!(nodes.ourselves().unwrap().contains("leads back to this process"));
    let one = nodes.reach(None, 1, "kafka", 9092).unwrap();
    assert_eq!(nodes.ourselves(), None);
    assert_eq!(nodes.reach(None, 2, "GATE.example", i32::from(one.port)), None, "a node's port of ours");
    for (node, host, port) in
        [(-1, "a", 1), (5, "", 1), (5, "a", 0), (5, "a", 65_536), (5, "a", -1), (5, "a b", 1), (5, "0.0.0.0", 1)]
    {
        assert_eq!(nodes.reach(None, node, host, port), None, "{node} {host}:{port}");
    }
    assert_eq!(nodes.list().len(), 1);
}

#[tokio::test]
async fn no_port_of_ours_is_one_that_brokers_listen_on() {
    let (_held, at) = listener().await;
    let lab = Lab::new(at, "");
    let (nodes, _opened) = lab.open().unwrap();
    let [first, second, third] = [1, 2, 3].map(|n| at.port() + n);
    let own = nodes.reach(None, 0, "kafka", i32::from(first)).unwrap().port;
    assert!(own > first, "its own");
    nodes.seen(None, &[(0, "kafka".to_owned(), first.into()), (1, "kafka".to_owned(), third.into())]);
    for node in 2..5 {
        let port = nodes.reach(None, node, "kafka", 9).unwrap().port;
        assert!(![first, third].contains(&port), "one of the cluster's last list");
    }
    assert!(nodes.list().iter().any(|n| n.port == second) || TcpListener::bind(("127.0.0.1", second)).await.is_err());
}

#[tokio::test]
async fn ports_move_with_the_listener_that_they_are_counted_from() {
    let (_held, at) = listener().await;
    let mut lab = Lab::new(at, "");
    let (nodes, opened) = lab.open().unwrap();
    let before = nodes.reach(None, 1, "kafka", 9092).unwrap().port;
    drop((nodes, opened));
    let (_other, elsewhere) = listener().await;
    lab.listener = elsewhere;
    let (nodes, _opened) = lab.open().unwrap();
    assert_eq!(nodes.list().len(), 1, "the node is still known");
    let after = nodes.reach(None, 1, "kafka", 9092).unwrap().port;
    assert!(after != before && after > elsewhere.port(), "{before} {after} {elsewhere}");
}
