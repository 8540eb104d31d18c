//! A client of one generic netlink family.

use std::io;

use netlink_sys::{Socket, protocols};
use rustix::io::Errno;

use crate::netlink::{Attributes, Netlink, Refusal, attributes, exchange, u16_at, u32_at};

/// `NLA_F_NESTED`: set in the type of an attribute that contains attributes. ethtool requires it in requests.
pub(crate) const NESTED: u16 = 0x8000;
/// The mask of an attribute's type, without its flags.
pub(crate) const TYPE_MASK: u16 = 0x3fff;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY` and the attributes of its answer: `include/uapi/linux/genetlink.h`.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const OPS: u16 = 6;
const OP_ID: u16 = 1;
const OP_FLAGS: u16 = 2;
/// `GENL_CMD_CAP_DO` and `GENL_CMD_CAP_DUMP`.
const CAN_DO: u32 = 0x02;
const CAN_DUMP: u32 = 0x04;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const HEADER_LEN: usize = 16;
/// `struct genlmsghdr`.
const GENL_HEADER_LEN: usize = 4;

/// A refusal by netlink: the error, and the kernel's explanation if it gave one.
#[derive(Debug)]
pub struct Refused {
    /// The error.
    pub error: io::Error,
    /// The kernel's explanation.
    pub says: Option<String>,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused { error, says: None }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Refused { error: refusal.error, says: refusal.says }
    }
}

/// The form of a generic netlink command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// A request for one object.
    Request,
    /// A dump of all objects.
    Dump,
}

/// A family, and the commands that this kernel supports.
pub(crate) struct Family {
    socket: Socket,
    sequence: u32,
    id: u16,
    /// Command and flags.
    commands: Vec<(u8, u32)>,
}

impl Family {
    /// Looks the family up in the namespace of the calling thread; `None` if the kernel lacks it.
    pub(crate) fn open(name: &str) -> Result<Option<Family>, Refused> {
        let mut family = Family {
            socket: Netlink::socket(protocols::NETLINK_GENERIC)?,
            sequence: 0,
            id: CONTROLLER,
            commands: Vec::new(),
        };
        let name = [name.as_bytes(), b"\0"].concat();
        let body = Attributes::default().with(FAMILY_NAME, &name).bytes();
        let answers = match family.request(GET_FAMILY, &body, Ask::Request) {
            Err(e) if Errno::from_io_error(&e.error) == Some(Errno::NOENT) => return Ok(None),
            answers => answers?,
        };
        for (kind, value) in answers.iter().flat_map(|answer| attributes(answer)) {
            match kind & TYPE_MASK {
                FAMILY_ID => family.id = u16_at(value, 0),
                OPS => family.commands = commands(value),
                _ => {}
            }
        }
        Ok(Some(family))
    }

    /// Whether this kernel supports the command in the form `ask`.
    pub(crate) fn has(&self, command: u8, ask: Ask) -> bool {
        let need = match ask {
            Ask::Request => CAN_DO,
            Ask::Dump => CAN_DUMP,
        };
        self.commands.iter().any(|(known, flags)| *known == command && flags & need != 0)
    }

    /// Sends a request; returns the attributes of each answer.
    pub(crate) fn request(&mut self, command: u8, body: &[u8], ask: Ask) -> Result<Vec<Vec<u8>>, Refused> {
        /// The version of both families: `ETHTOOL_GENL_VERSION`. The controller ignores it.
        const VERSION: u8 = 1;
        self.sequence += 1;
        let length = (HEADER_LEN + GENL_HEADER_LEN + body.len()) as u32;
        let flags = NLM_F_REQUEST
            | match ask {
                Ask::Request => NLM_F_ACK,
                Ask::Dump => NLM_F_DUMP,
            };
        let mut message = Vec::with_capacity(length as usize);
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&self.id.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(&[command, VERSION, 0, 0]);
        message.extend_from_slice(body);
        let answers = exchange(&self.socket, &message, self.sequence)?;
        Ok(answers
            .into_iter()
            .map(|(_, answer)| answer.get(GENL_HEADER_LEN..).unwrap_or_default().to_vec())
            .collect())
    }
}

/// The commands in an array attribute: each element has a number and flags.
fn commands(array: &[u8]) -> Vec<(u8, u32)> {
    attributes(array)
        .map(|(_, element)| {
            let (mut command, mut flags) = (0, 0);
            for (kind, value) in attributes(element) {
                match kind & TYPE_MASK {
                    OP_ID => command = u32_at(value, 0) as u8,
                    OP_FLAGS => flags = u32_at(value, 0),
                    _ => {}
                }
            }
            (command, flags)
        })
        .collect()
}
