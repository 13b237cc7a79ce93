//! The parts of a packet's way whose instructions are counted, each a function called
//! `counted_...`, with what it needs made before. They call the code of the engine.
//!
//! `longshore __program parts`, under callgrind, runs all of them; [`super::measure`] reads
//! what was counted. `crates/engine/benches/instructions.rs` counts more of them for those who
//! change the code.

use longshore_engine::bench::segments::{Ends, FULL, MSS, PORTS, bytes_of, ip_header, packet};
use longshore_engine::bench::{Lookup, Placing, Sending, Timers};
use longshore_hostif::Geometry;
use longshore_hostif::adapter::AdapterSession;
use longshore_net::template::Ipv4Template;
use longshore_ring::EventfdSignaler;
use longshore_tcp::{Instant, Tcb};
use longshore_wire::checksum::Partial;
use longshore_wire::tcp::PLAIN_LEN;
use longshore_wire::tcp4::{CachedHeaders4, Flow4, Tcp4};
use std::hint::black_box;
use std::io;
use std::sync::Arc;

/// The parts in the order in which a round calls them. Their functions have names alike, but
/// those with the same code may be one.
pub(super) const ORDER: [&str; 17] = [
    "tcp_input_data",
    "tcp_output_ack",
    "tcp_input_ack",
    "tcp_output_data",
    "ip_input",
    "ip_input_cached",
    "ip_output",
    "connection_lookup",
    "timer_set",
    "timer_reset",
    "timer_clear",
    "buffer_receive",
    "buffer_send",
    "buffer_ack",
    "copy",
    "checksum",
    "copy_and_checksum",
];

#[inline(never)]
fn counted_tcp_input_data(end: &mut Tcb, segment: &[u8], now: Instant) {
    if let Some(predicted) = end.predicts(segment, FULL as u32) {
        predicted.take(|| 0, now);
    }
}

#[inline(never)]
fn counted_tcp_input_ack(end: &mut Tcb, segment: &[u8], now: Instant) {
    if let Some(predicted) = end.predicts(segment, 0) {
        predicted.take(|| 0, now);
    }
}

fn output(end: &mut Tcb, segment: &mut [u8; PLAIN_LEN], now: Instant) {
    if let Some(plain) = end.poll_plain(now, FULL) {
        plain.header.write(segment, PORTS);
    }
}

#[inline(never)]
fn counted_tcp_output_data(end: &mut Tcb, segment: &mut [u8; PLAIN_LEN], now: Instant) {
    output(end, segment, now);
}

#[inline(never)]
fn counted_tcp_output_ack(end: &mut Tcb, segment: &mut [u8; PLAIN_LEN], now: Instant) {
    output(end, segment, now);
}

#[inline(never)]
fn counted_ip_input(packet: &[u8]) -> Option<(Flow4, usize)> {
    Tcp4::read(packet).map(|p| (p.flow(), p.segment.len()))
}

#[inline(never)]
fn counted_ip_input_cached(packet: &[u8], cached: &mut CachedHeaders4) -> Option<usize> {
    cached.segment_of(packet, true).map(|segment| segment.len())
}

#[inline(never)]
fn counted_ip_output(template: &Ipv4Template, packet: &mut [u8; 20]) {
    template.write(packet, 1480, 7);
}

#[inline(never)]
fn counted_connection_lookup(table: &mut Lookup, flow: &Flow4) -> Option<u32> {
    table.find(flow)
}

#[inline(never)]
fn counted_timer_set(timers: &mut Timers) {
    timers.set();
}

#[inline(never)]
fn counted_timer_reset(timers: &mut Timers) {
    timers.set();
}

#[inline(never)]
fn counted_timer_clear(timers: &mut Timers) {
    timers.clear();
}

#[inline(never)]
fn counted_buffer_receive(stream: &mut Placing, byte: &[u8]) -> bool {
    stream.place(byte)
}

#[inline(never)]
fn counted_buffer_send(stream: &mut Sending, len: u64) -> Option<usize> {
    stream.find(len)
}

#[inline(never)]
fn counted_buffer_ack(stream: &mut Sending, len: u64) {
    stream.acknowledge(len);
}

#[inline(never)]
fn counted_copy(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[inline(never)]
fn counted_checksum(bytes: &[u8]) -> Partial {
    Partial::of(bytes)
}

#[inline(never)]
fn counted_copy_and_checksum(to: &mut [u8], from: &[u8]) -> Partial {
    Partial::of_copy(to, from)
}

/// A session's.
const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 512,
    workers: 1,
};

/// A receive stream of the engine's, in a session of its own.
pub(in crate::experiments) fn stream() -> Option<Placing> {
    let session = AdapterSession::create(GEOMETRY, Arc::new(EventfdSignaler::for_one()));
    Some(Placing::new(session.ok()?))
}

/// Runs every part twice.
///
/// # Errors
/// If a part does not do what it is there for.
pub(crate) fn run() -> io::Result<()> {
    for _ in 0..2 {
        tcp().ok_or_else(|| io::Error::other("TCP did not take its common path"))?;
        below_tcp().map_err(|part| io::Error::other(format!("{part} did not do its work")))?;
    }
    Ok(())
}

fn tcp() -> Option<()> {
    let mut ends = Ends::connected()?;
    // The second of two: the first is acknowledged with it.
    let first = ends.send()?;
    ends.receive(&first);
    let data = bytes_of(&ends.send()?);
    counted_tcp_input_data(&mut ends.far, &data, ends.now);
    // What was taken is not predicted again.
    ends.far
        .predicts(&data, FULL as u32)
        .is_none()
        .then_some(())?;
    let edge = ends.far.rcv_edge();
    ends.far.set_rcv_consumed(edge, ends.now);
    let mut segment = [0; PLAIN_LEN];
    counted_tcp_output_ack(&mut ends.far, &mut segment, ends.now);
    segment.starts_with(&PORTS.to_be_bytes()).then_some(())?;
    // Of all that is in flight.
    ends.near.predicts(&segment, 0).is_some().then_some(())?;
    counted_tcp_input_ack(&mut ends.near, &segment, ends.now);
    ends.near.predicts(&segment, 0).is_none().then_some(())?;
    // With a segment in flight before it.
    ends.send()?;
    ends.write();
    let mut segment = [0; PLAIN_LEN];
    counted_tcp_output_data(&mut ends.near, &mut segment, ends.now);
    segment.starts_with(&PORTS.to_be_bytes()).then_some(())
}

fn below_tcp() -> Result<(), &'static str> {
    let mut packet = packet();
    let (_, len) = counted_ip_input(black_box(&packet)).ok_or("IP input")?;
    let mut cached = Tcp4::read(&packet).ok_or("IP input")?.cached([0; 14]);
    let again = counted_ip_input_cached(black_box(&packet), &mut cached);
    check(again == Some(len), "IP input of the next packet")?;
    let header = packet.first_chunk_mut().ok_or("a packet")?;
    counted_ip_output(&Ipv4Template::new(&ip_header(0)), header);
    let mut table = Lookup::with_connections(10_000);
    let flow = table.flow_at_once(4711);
    counted_connection_lookup(&mut table, &flow).ok_or("finding a connection")?;
    let mut timers = Timers::new();
    counted_timer_set(&mut timers);
    check(timers.is_set(), "setting a timer")?;
    timers.next = 4_300_000;
    counted_timer_reset(&mut timers);
    counted_timer_clear(&mut timers);
    black_box(&timers);
    let mut stream = stream().ok_or("a session")?;
    let placed = counted_buffer_receive(&mut stream, black_box(&[1]));
    check(placed, "placing a byte")?;
    buffers_of_sent().ok_or("the buffers of what is sent")?;
    let (from, mut to) = (vec![1_u8; MSS.into()], vec![0_u8; MSS.into()]);
    counted_copy(black_box(&mut to), black_box(&from));
    let sum = counted_checksum(black_box(&from)).finish();
    let same = counted_copy_and_checksum(black_box(&mut to), black_box(&from)).finish() == sum;
    check(same, "copy and checksum")
}

/// A full segment of what a program has written, and its acknowledgment.
fn buffers_of_sent() -> Option<()> {
    let full = FULL as u64;
    let mut stream = Sending::new(GEOMETRY, &[1; 4 * FULL], full)?;
    // Of one chunk.
    let pieces = counted_buffer_send(&mut stream, black_box(full))?;
    counted_buffer_ack(&mut stream, black_box(full));
    (pieces == 1 && stream.acknowledged() == Some(2 * full)).then_some(())
}

fn check(is_well: bool, part: &'static str) -> Result<(), &'static str> {
    if is_well { Ok(()) } else { Err(part) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_part_does_its_work() {
        super::run().unwrap();
    }
}
