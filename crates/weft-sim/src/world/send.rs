//! `tcp_write_xmit` and what it is called from: what the sending sides of TCP connections do on a host.

use super::host::Task;
use super::qdisc_run::{Outgoing, truesize};
use super::sender::{HEADER_ROOM, Sent};
use super::transmit::TCP_HEADERS;
use super::{Ack, Body, Event, World};
use crate::congestion::{Acknowledged, Window};
use crate::cost::Operation;
use crate::ids::StreamId;
use crate::trace::Observer;
use crate::world::processor::Work;
use weft_units::{Nanos, QueueId};

/// Why nothing more is sent now, or how much.
enum Allowed {
    Segment(u32),
    Window,
    SmallQueue,
    Nothing,
}

impl<O: Observer> World<'_, O> {
    /// The largest payload of an skb of this host's stack (`tcp_xmit_size_goal`).
    pub(super) fn size_goal(&self, stream: StreamId) -> u64 {
        let sender = &self.senders[stream];
        let gso = self.scenario.hosts[self.streams[stream].from.index()].stack.gso.0;
        let packets = (gso.saturating_sub(HEADER_ROOM) / u64::from(sender.mss)).max(1);
        packets * u64::from(sender.mss)
    }

    /// What `tcp_write_xmit` would send next.
    fn allowed(&self, stream: StreamId) -> Allowed {
        let sender = &self.senders[stream];
        let stack = &self.scenario.hosts[self.streams[stream].from.index()].stack;
        let head = if sender.resend > 0 {
            sender.resend.min(self.size_goal(stream)) as u32
        } else {
            match sender.queue.front() {
                Some(&payload) => payload,
                None => return Allowed::Nothing,
            }
        };
        let in_flight = sender.in_flight();
        let quota = sender.window.cwnd.saturating_sub(in_flight);
        let room = sender.receive_window.saturating_sub(in_flight * sender.mss) / sender.mss;
        if quota.min(room) == 0 {
            return if quota == 0 { Allowed::Window } else { Allowed::Nothing };
        }
        let pacing = sender.pacing_rate();
        // `tcp_tso_autosize`: what the pacing rate sends in 1/1024 s, at least two packets.
        let autosized = ((pacing / 1024.0) as u32 / sender.mss).max(2);
        let most = autosized.min((self.size_goal(stream) / u64::from(sender.mss)) as u32).max(1);
        let mut payload = head.min(quota.min(room).min(most) * sender.mss);
        if payload < head {
            // `tso_fragment` at packet boundaries.
            payload -= payload % sender.mss;
            // `tcp_tso_should_defer`: a window that leaves room for less than a third of itself waits for more.
            let window_cuts = payload < most * sender.mss;
            if window_cuts && in_flight > 0 && quota < sender.window.cwnd / 3 {
                return Allowed::Window;
            }
        }
        if let Some(limit) = stack.small_queue {
            // `tcp_small_queue_check`: by rate, with or without the floor of two segments, at most the limit.
            let floor = if stack.small_queue_floor { 2.0 * f64::from(truesize(payload)) } else { 0.0 };
            let limit = (pacing / 1024.0).max(floor).min(limit.0 as f64);
            if self.streams[stream].charged as f64 > limit {
                return Allowed::SmallQueue;
            }
        }
        let last_is_small = payload < sender.mss && sender.resend == 0 && sender.queue.len() == 1;
        if sender.nagle && last_is_small && in_flight > 0 && sender.unwritten > 0 {
            return Allowed::Nothing;
        }
        Allowed::Segment(payload)
    }

    /// `tcp_write_xmit`: sends what windows and queues allow. With `run` unset the qdiscs are run by the caller, who is told of them.
    pub(super) fn push(&mut self, stream: StreamId, run: bool, touched: &mut Vec<QueueId>, work: &mut Work) {
        let before = self.senders[stream].next;
        let limited = loop {
            match self.allowed(stream) {
                Allowed::Segment(payload) => {
                    let queue = self.send_data(stream, payload, run, work);
                    if !run && !touched.contains(&queue) {
                        touched.push(queue);
                    }
                }
                Allowed::SmallQueue => {
                    self.senders[stream].throttled = true;
                    break false;
                }
                Allowed::Window => break true,
                Allowed::Nothing => break false,
            }
        };
        if self.senders[stream].next > before {
            self.senders[stream].validate_window(limited, work.now());
        }
    }

    /// Pushes and runs the qdiscs at once.
    pub(super) fn push_now(&mut self, stream: StreamId, work: &mut Work) {
        let mut none = Vec::new();
        self.push(stream, true, &mut none, work);
    }

    fn send_data(&mut self, stream: StreamId, payload: u32, run: bool, work: &mut Work) -> QueueId {
        self.charge(Operation::SendSegment, 1.0, work);
        self.touch(stream, work);
        let now = work.now();
        let sender = &mut self.senders[stream];
        if sender.resend > 0 {
            sender.resend -= u64::from(payload);
            sender.retransmitted += u64::from(payload.div_ceil(sender.mss));
        } else {
            sender.queued -= u64::from(payload);
            match sender.queue.front_mut() {
                Some(head) if *head > payload => *head -= payload,
                _ => {
                    sender.queue.pop_front();
                }
            }
        }
        if sender.in_flight() == 0 {
            sender.progress = now;
        }
        let (first, mss) = (sender.next, sender.mss);
        let packets = payload.div_ceil(mss).max(1);
        sender.next += u64::from(packets);
        sender.sent.push_back(Sent { first, packets, payload });
        if !sender.timer_pending {
            sender.timer_pending = true;
            let at = now + sender.probe_timeout().min(sender.timeout());
            self.queue.push(at, Event::Timer { stream });
        }
        self.send_pieces(
            Outgoing { stream, body: Body::Data { first }, payload, packet_payload: mss },
            run,
            work,
        )
    }

    /// Dynamic segmentation offload sizing: while flows share queues, a segment goes down in smaller pieces (Titan, ATC 2017, section 3.3).
    fn send_pieces(&mut self, whole: Outgoing, run: bool, work: &mut Work) -> QueueId {
        let host = work.host;
        let size = match self.scenario.hosts[host.index()].stack.dynamic_segment {
            Some(size) if self.hosts[host].shared_queues > 0 => {
                let packets = (size.0 / u64::from(whole.packet_payload + TCP_HEADERS)).max(1);
                packets as u32 * whole.packet_payload
            }
            _ => return self.emit(whole, run, work),
        };
        if whole.payload <= size {
            return self.emit(whole, run, work);
        }
        let Body::Data { first } = whole.body else { return self.emit(whole, run, work) };
        let mut queue = QueueId(0);
        let mut offset = 0;
        while offset < whole.payload {
            let payload = size.min(whole.payload - offset);
            let body = Body::Data { first: first + u64::from(offset / whole.packet_payload) };
            self.charge(Operation::ResegmentPiece, 1.0, work);
            self.counters.resegmented += 1;
            offset += payload;
            // Each but the last is enqueued with more to come, so the qdisc is run once.
            queue = self.emit(Outgoing { body, payload, ..whole }, run && offset == whole.payload, work);
        }
        queue
    }

    /// The TSQ tasklet: one flow, or, with transmit batching, all of them before any qdisc is run (Titan, section 5).
    pub(super) fn tasklet(&mut self, work: &mut Work) {
        let batching = self.scenario.hosts[work.host.index()].stack.transmit_batching;
        let mut touched = std::mem::take(&mut self.scratch_touched);
        while let Some(stream) = self.hosts[work.host].cores[work.core].tasklet.pop_front() {
            self.senders[stream].in_tasklet = false;
            self.push(stream, !batching, &mut touched, work);
            if !batching {
                break;
            }
        }
        for queue in touched.drain(..) {
            self.qdisc_run(queue, work);
        }
        self.scratch_touched = touched;
    }

    /// An acknowledgement for a stream has come through the stack.
    pub(super) fn receive_ack(&mut self, stream: StreamId, ack: Ack, work: &mut Work) {
        self.charge(Operation::ReceiveAcknowledgement, 1.0, work);
        self.touch(stream, work);
        let now = work.now();
        let sender = &mut self.senders[stream];
        sender.receive_window = ack.window;
        let in_flight = sender.in_flight();
        let packets = ack.packets.saturating_sub(sender.delivered) as u32;
        if packets > 0 || ack.top > sender.top {
            sender.progress = now;
            sender.probed = false;
            sender.backoff = 0;
        }
        let marked = ack.marked.wrapping_sub(sender.marked);
        sender.marked = ack.marked;
        sender.delivered = sender.delivered.max(ack.packets);
        sender.delivered_bytes = sender.delivered_bytes.max(ack.bytes);
        sender.advance(ack.top);
        let rtt = now.saturating_sub(ack.echo);
        if packets > 0 {
            sender.sample_rtt(rtt);
        }
        let lost = sender.below_top.saturating_sub(sender.delivered_bytes);
        let newly_lost = lost.saturating_sub(sender.lost_bytes);
        sender.resend = (sender.resend + lost).saturating_sub(sender.lost_bytes);
        sender.lost_bytes = lost;
        if sender.buffered() == 0 {
            sender.resend = 0;
        }
        let recovering = sender.top < sender.recovery_until;
        if newly_lost > 0 && !recovering {
            sender.recovery_until = sender.next;
            if let Some(control) = &mut sender.congestion {
                control.on_loss(now, &mut sender.window);
            }
        } else if !recovering && packets > 0 {
            let sample = Acknowledged {
                now,
                packets,
                marked,
                rtt: Some(rtt),
                smoothed_rtt: sender.smoothed_rtt,
                in_flight,
                sent: sender.next,
                delivered: sender.top,
                window_limited: sender.is_window_limited(),
            };
            if let Some(control) = &mut sender.congestion {
                control.on_acknowledged(&sample, &mut sender.window);
            }
        }
        self.push_now(stream, work);
        self.wake_writer(stream, work.now());
        self.acknowledged(stream, now);
    }

    /// Room in the send buffer: `sk_stream_write_space` wakes the writer when a third of it is free.
    fn wake_writer(&mut self, stream: StreamId, now: Nanos) {
        let sender = &self.senders[stream];
        if !sender.blocked || sender.unwritten == 0 || 3 * sender.buffered() > 2 * self.send_buffer(stream) {
            return;
        }
        self.senders[stream].blocked = false;
        self.wake_thread(stream, true, Task::Write { stream }, now);
    }

    /// Bytes that the send buffer takes: autotuned to the window (`tcp_sndbuf_expand`: twice the window in packets of truesize 4352),
    /// at most the configured size.
    pub(super) fn send_buffer(&self, stream: StreamId) -> u64 {
        let sender = &self.senders[stream];
        let most = self.scenario.hosts[self.streams[stream].from.index()].stack.send_buffer.0;
        most.min(2 * 4352 * u64::from(sender.window.cwnd.max(Window::INITIAL.cwnd)))
    }

    /// The timer: a tail loss probe first, then a timeout.
    pub(super) fn timer(&mut self, stream: StreamId) {
        let host = self.streams[stream].from;
        let sender = &mut self.senders[stream];
        sender.timer_pending = false;
        if sender.in_flight() == 0 && sender.resend == 0 {
            return;
        }
        let (probe_at, timeout_at) =
            (sender.progress + sender.probe_timeout(), sender.progress + sender.timeout());
        let timed_out = self.now >= timeout_at;
        let probe = !timed_out && !sender.probed && self.now >= probe_at;
        if timed_out {
            // All that is in flight counts as lost.
            sender.progress = self.now;
            sender.backoff += 1;
            sender.advance(sender.next);
            let lost = sender.below_top.saturating_sub(sender.delivered_bytes);
            sender.resend = (sender.resend + lost).saturating_sub(sender.lost_bytes);
            sender.lost_bytes = lost;
            sender.recovery_until = sender.next;
            if let Some(control) = &mut sender.congestion {
                control.on_timeout(self.now, &mut sender.window);
            }
        } else if probe {
            sender.probed = true;
        }
        let next = if sender.probed || timed_out {
            sender.progress + sender.timeout()
        } else {
            probe_at.min(timeout_at)
        };
        sender.timer_pending = true;
        self.queue.push(next.max(self.now + Nanos(1)), Event::Timer { stream });
        if timed_out || probe {
            let core = self.streams[stream].core;
            let mut work = self.work_on(host, core);
            if probe {
                self.send_probe_packet(stream, &mut work);
            } else {
                self.push_now(stream, &mut work);
            }
            self.end_work(&work);
        }
    }

    /// One packet beyond the window: its acknowledgement shows what was lost before it.
    fn send_probe_packet(&mut self, stream: StreamId, work: &mut Work) {
        let sender = &mut self.senders[stream];
        let payload = if sender.resend > 0 {
            sender.resend.min(u64::from(sender.mss)) as u32
        } else if let Some(&head) = sender.queue.front() {
            head.min(sender.mss)
        } else {
            // Nothing new: an empty packet, which takes a number and is acknowledged all the same.
            0
        };
        self.send_data(stream, payload, true, work);
    }
}
