//! Counts what a piece of code takes from the heap. Counting needs an allocator, and an allocator needs `unsafe`; it is
//! the only place.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;

use bytes::BytesMut;
use streamside_wire::frame;
use streamside_wire::header::RequestHeader;
use streamside_wire::messages::streams_group_heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use streamside_wire::{Message, Reader};

struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(calls: usize, bytes: isize) {
    CALLS.set(CALLS.get() + calls);
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches plain thread-local numbers only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may stand side by side.
        count(1, size as isize);
        let moved = unsafe { System.realloc(memory, layout, size) };
        count(0, -(layout.size() as isize));
        moved
    }
}

/// What `run` took on this thread: allocations, and the most bytes that it held at once.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let (calls, live) = (CALLS.get(), LIVE.get());
    PEAK.set(live);
    let result = run();
    (result, CALLS.get() - calls, (PEAK.get() - live) as usize)
}

#[test]
fn a_steady_heartbeat_takes_no_heap() {
    let beat = StreamsGroupHeartbeatRequest {
        group_id: Cow::Borrowed("orders-application"),
        member_id: Cow::Borrowed("8VhE0l4RSjCyMSVqGM8DUw"),
        member_epoch: 17,
        ..Default::default()
    };
    let header = RequestHeader {
        api_key: 88,
        api_version: 1,
        correlation_id: 5,
        client_id: Some(Cow::Borrowed("orders-application-StreamThread-1")),
        ..Default::default()
    };
    let mut frame = BytesMut::new();
    frame::encode_request(&mut frame, &header, &beat).unwrap();

    let mut out = BytesMut::with_capacity(256);
    let (answered, calls, _) = measure(|| {
        let mut r = Reader::new(&frame[4..]);
        let header = RequestHeader::decode(&mut r).unwrap();
        let request = StreamsGroupHeartbeatRequest::decode(&mut r, header.api_version).unwrap();
        let answer = StreamsGroupHeartbeatResponse {
            member_id: Cow::Borrowed(&request.member_id),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 5000,
            status: None,
            ..Default::default()
        };
        frame::encode_response(&mut out, header.correlation_id, header.api_version, &answer).unwrap();
        request == beat
    });
    assert!(answered);
    assert_eq!(calls, 0);
    assert_eq!(out.len(), 4 + 5 + 4 + 2 + 1 + 23 + 4 + 4 + 4 + 8 + 1 + 3 + 1 + 4 + 1 + 1);
}
