//! Many flows and lanes, whose records are fetched before they are needed: the order is that of turns, which fetch nothing.

use weft_sched::workload::{Rng, pipes_program};
use weft_sched::{Dequeue, Descriptor, LaneSpec, Next, PacketScheduler, PolicyTree, Program};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, Weight};

/// Above the numbers of flows and of lanes from which on records are fetched.
const FLOWS: usize = 9000;
const PIPES: usize = 160;

/// Serves `turns` packets by a packet scheduler and by turns, with one packet per flow, and compares each.
fn compare(program: &Program, turns: usize) {
    let mut packets = PacketScheduler::new(program).unwrap();
    let mut tree = PolicyTree::new(program).unwrap();
    let lanes = program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant());
    let lanes: Vec<usize> = lanes.map(|(at, _)| at).collect();
    let mut rng = Rng::new(11);
    let mut idle = Vec::new();
    for at in 0..FLOWS {
        let lane = LaneId::from_index(lanes[at % lanes.len()]);
        let flow = packets.add_flow(lane, Weight::ONE).unwrap();
        assert_eq!(tree.add_flow(lane, Weight::ONE), Ok(flow));
        idle.push(flow);
    }
    let mut lengths = [Bytes::ZERO; FLOWS];
    let (mut now, mut done) = (Instant::ZERO, 0);
    while done < turns {
        while idle.len() > FLOWS / 8 {
            let flow: FlowId = idle.swap_remove(rng.below(idle.len() as u32) as usize);
            let len = Bytes([64, 594, 1518, 1518, 64 + u64::from(rng.below(9000))][rng.below(5) as usize]);
            lengths[flow.index()] = len;
            packets.enqueue(flow, Descriptor { len, handle: 0 }, now).unwrap();
            assert!(tree.activate(flow));
        }
        now += Nanos(1000);
        match (packets.dequeue(now), tree.next(now)) {
            (Dequeue::Packet(packet), Next::Turn(turn)) => {
                assert_eq!((packet.flow, packet.lane), (turn.flow(), turn.lane()), "turn {done}");
                tree.finish(turn, lengths[packet.flow.index()], false, now).unwrap();
                idle.push(packet.flow);
                done += 1;
            }
            (Dequeue::Wait(until), Next::Wait(release)) => {
                assert_eq!(until, release);
                now = until;
            }
            (packet, turn) => panic!("{packet:?} {turn:?}"),
        }
    }
    packets.check_invariants().unwrap();
    tree.check_invariants().unwrap();
}

#[test]
fn pipes_without_a_limit_that_binds() {
    compare(&pipes_program(PIPES, BitsPerSec(800_000_000_000)), 30_000);
}

#[test]
fn pipes_with_limits_that_bind() {
    let mut program = pipes_program(PIPES, BitsPerSec(8_000_000_000));
    // The pipes' own limits are the third, the seventeenth and so on; some classes are slow.
    for limit in program.limits.iter_mut().skip(2).step_by(5) {
        limit.rate = BitsPerSec(50_000_000);
        limit.burst = Bytes(3000);
    }
    compare(&program, 30_000);
}

#[test]
fn lanes_that_share_a_leaf_among_lanes_that_do_not() {
    let mut program = pipes_program(PIPES, BitsPerSec(800_000_000_000));
    for at in (0..program.lanes.len()).step_by(3) {
        let lane = LaneSpec { limits: vec![LimitId(0)], ..program.lanes[at].clone() };
        program.lanes.push(lane);
    }
    compare(&program, 20_000);
}
