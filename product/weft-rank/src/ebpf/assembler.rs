//! eBPF instructions (RFC 9669), as far as programs need them.

/// A register. The lowering passes nothing to functions, so all but the frame pointer are its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    /// The frame pointer.
    Frame = 10,
}

/// An instruction on 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Rem = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// The class of instructions on 64 bits.
const ALU64: u8 = 0x07;
/// The source is a register, not the immediate.
const REGISTER: u8 = 0x08;
const LOAD_WORD: u8 = 0x79;
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF_WORD: u8 = 0x61;
const STORE_WORD: u8 = 0x7b;
const LOAD_IMMEDIATE: u8 = 0x18;
const EXIT: u8 = 0x95;
/// The source of a 64-bit immediate that is an address within a map's value.
const PSEUDO_MAP_VALUE: u8 = 2;

/// The bytes of an instruction.
pub const INSTRUCTION_BYTES: usize = 8;

/// Instructions as bytes.
#[derive(Clone, Default, Debug)]
pub(super) struct Assembler(Vec<u8>);

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        // The first register is the lower half of its byte on little-endian machines, and the upper one on others.
        let (to, from) = (to as u8, from);
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        self.0.extend([code, registers]);
        self.0.extend(offset.to_ne_bytes());
        self.0.extend(immediate.to_ne_bytes());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// `to = to OP from`.
    pub(super) fn alu(&mut self, alu: Alu, to: Register, from: Register) {
        self.push(ALU64 | REGISTER | alu as u8, to, from as u8, 0, 0);
    }

    /// `to = to OP immediate`, with the immediate's sign extended.
    pub(super) fn alu_with(&mut self, alu: Alu, to: Register, immediate: i32) {
        self.push(ALU64 | alu as u8, to, 0, 0, immediate);
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.alu(Alu::Move, to, from);
    }

    /// `to = value`.
    pub(super) fn constant(&mut self, to: Register, value: u64) {
        match i32::try_from(value as i64) {
            Ok(short) => self.alu_with(Alu::Move, to, short),
            Err(_) => self.wide(to, 0, value as u32 as i32, (value >> 32) as u32 as i32),
        }
    }

    /// `to =` the address of the value of a map with one element.
    pub(super) fn map_value(&mut self, to: Register, map: i32) {
        self.wide(to, PSEUDO_MAP_VALUE, map, 0);
    }

    fn wide(&mut self, to: Register, source: u8, low: i32, high: i32) {
        self.push(LOAD_IMMEDIATE, to, source, 0, low);
        self.push(0, Register::R0, 0, 0, high);
    }

    /// `to =` the word at `from + offset`.
    pub(super) fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(LOAD_WORD, to, from as u8, offset, 0);
    }

    /// `to =` the byte at `from + offset`.
    pub(super) fn load_byte(&mut self, to: Register, from: Register, offset: i16) {
        self.push(LOAD_BYTE, to, from as u8, offset, 0);
    }

    /// `to =` the four bytes at `from + offset`.
    pub(super) fn load_half(&mut self, to: Register, from: Register, offset: i16) {
        self.push(LOAD_HALF_WORD, to, from as u8, offset, 0);
    }

    /// The word at `to + offset` becomes `from`.
    pub(super) fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(STORE_WORD, to, from as u8, offset, 0);
    }

    pub(super) fn exit(&mut self) {
        self.push(EXIT, Register::R0, 0, 0, 0);
    }
}
