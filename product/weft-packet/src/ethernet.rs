//! Ethernet's overhead: in the frame, and around it on the wire (IEEE 802.3, 3.1.1, 3.2 and 4.4.2).
//!
//! The kernel and the engine count frames with their header and without their check sequence.

use weft_units::Bytes;

/// The length of a header without tags: two addresses and a type.
pub const HEADER: Bytes = Bytes(14);
/// The overhead around each frame: 8 bytes of preamble and start delimiter, 4 of frame check sequence, 12 of gap.
pub const AROUND: Bytes = Bytes(24);
/// The length of the shortest frame without its check sequence: 64 bytes with it.
pub const FRAME_MIN: Bytes = Bytes(60);
/// The usual maximum length of an IP packet.
pub const MTU: Bytes = Bytes(1500);

/// The length of an IP packet's frame.
pub const fn frame_of(packet: Bytes) -> Bytes {
    Bytes(packet.0 + HEADER.0)
}

/// The bytes that a frame occupies on the wire: padded to [`FRAME_MIN`], with [`AROUND`].
pub const fn wire_of(frame: Bytes) -> Bytes {
    Bytes(if frame.0 < FRAME_MIN.0 { FRAME_MIN.0 } else { frame.0 } + AROUND.0)
}

/// The bit of an address that says: a group, or all (IEEE 802-2014, section 8.2.2).
const GROUP: u8 = 1;

/// Whether a frame is to a group or to all.
pub fn is_to_group(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & GROUP != 0)
}

/// Puts back the group bit of the destination of a frame read from a ring, which it has carried in its source address
/// (`bpf/group.h`). Other frames are unchanged: no sender has a group's address.
pub fn show_group(frame: &mut [u8]) {
    if let Some(from) = frame.get_mut(6).filter(|from| **from & GROUP != 0) {
        *from &= !GROUP;
        frame[0] |= GROUP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_and_the_shortest() {
        assert_eq!(frame_of(MTU), Bytes(1514));
        assert_eq!(wire_of(frame_of(MTU)), Bytes(1538));
        assert_eq!(wire_of(Bytes(42)), Bytes(84));
    }

    #[test]
    fn the_group_bit_returns_to_the_destination() {
        for (read, expected) in [([0xfe, 3], [0xff, 2]), ([0xff, 2], [0xff, 2]), ([2, 6], [2, 6])] {
            let mut frame = [0; 14];
            [frame[0], frame[6]] = read;
            show_group(&mut frame);
            assert_eq!([frame[0], frame[6]], expected);
        }
        show_group(&mut []);
        show_group(&mut [0; 6]);
    }
}
