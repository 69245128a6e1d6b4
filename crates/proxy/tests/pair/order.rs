//! Answers come in request order, none is lost, and nothing is left over.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    Ask, CHANGED, Decider, EXCHANGE, FILTERED, FOLLOWED, LATER, LOCAL, Log, PRODUCE, SLOW, STREAMED, WHOLE, echo,
    options, piped, soon,
};
use streamside_proxy::pair::{Ended, Stats};

/// Sends everything, reads everything, closes, and returns what came with what was left over.
async fn play(asks: &[Ask], client_pipe: usize, broker_pipe: usize, piece: usize) -> (Vec<u8>, Log, Stats) {
    let decider = Decider::default();
    let pair = piped(decider.clone(), options(), client_pipe, broker_pipe);
    let log = Log::default();
    let broker = tokio::spawn(echo(pair.broker, log.clone(), piece));
    let (mut from, mut to) = tokio::io::split(pair.client);
    let bytes: Vec<u8> = asks.iter().flat_map(Ask::frame).collect();
    let write = async {
        for part in bytes.chunks(piece.max(1)) {
            to.write_all(part).await.unwrap();
        }
        to.shutdown().await.unwrap();
    };
    let mut came = Vec::new();
    let (_, read) = soon(async { tokio::join!(write, from.read_to_end(&mut came)) }).await;
    read.unwrap();
    let (ended, stats) = soon(pair.ended).await.unwrap();
    assert_eq!(ended, Ended::Client);
    soon(broker).await.unwrap();
    (came, log, stats)
}

fn wanted(asks: &[Ask]) -> Vec<u8> {
    asks.iter().filter_map(Ask::expected).flatten().collect()
}

#[tokio::test]
async fn one_of_each_kind() {
    let kinds = [
        STREAMED, FILTERED, WHOLE, CHANGED, LOCAL, EXCHANGE, LATER, FOLLOWED, SLOW, PRODUCE, LOCAL, STREAMED, FOLLOWED,
    ];
    let mut asks: Vec<Ask> = kinds.iter().zip(1..).map(|(kind, id)| Ask::new(*kind, id)).collect();
    asks[9].count = 0;
    for piece in [1, 7, 1 << 16] {
        let (came, _, stats) = play(&asks, 64, 64, piece).await;
        assert_eq!(came, wanted(&asks));
        assert_eq!((stats.slots, stats.owed, stats.unsent_bytes), (0, 0, 0), "{stats:?}");
    }
}
