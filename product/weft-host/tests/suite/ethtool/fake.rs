//! An emulated NIC behind the transport. It stores tables and rules as bytes, and refuses requests that real drivers refuse.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use weft_host::ethtool::{Ask, Nic, RULE_LEN, Refused, Transport};

pub(crate) const QUEUES: u32 = 8;
pub(crate) const ENTRIES: usize = 16;
pub(crate) const KEY: [u8; 40] = [0x6d; 40];

/// The interface of the emulated kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Age {
    /// ioctls only.
    Old,
    /// Also the netlink commands.
    New,
}

pub(crate) struct Fake {
    pub(crate) age: Age,
    /// Context 0 is the device's own table.
    pub(crate) tables: BTreeMap<u32, Vec<u32>>,
    pub(crate) key: Vec<u8>,
    pub(crate) function: u8,
    pub(crate) symmetry: u8,
    pub(crate) contexts_max: usize,
    pub(crate) fields: BTreeMap<u32, u64>,
    pub(crate) rules: BTreeMap<u32, Vec<u8>>,
    pub(crate) capacity: u32,
    pub(crate) finds_places: bool,
    pub(crate) ntuple: bool,
    pub(crate) ntuple_fixed: bool,
    /// Like ixgbe: all rules compare the same bits.
    pub(crate) one_mask: bool,
    /// Commands that are refused, with the error.
    pub(crate) refuse: BTreeMap<u32, Errno>,
    /// The numbers of the ioctls made, plus 1000 for netlink commands.
    pub(crate) calls: Vec<u32>,
    /// Rules that another process adds before each read of the list, and the number of times it does so.
    pub(crate) intruders: u32,
}

impl Fake {
    pub(crate) fn new(age: Age) -> Fake {
        Fake {
            age,
            tables: BTreeMap::from([(0, (0..ENTRIES as u32).map(|entry| entry % QUEUES).collect())]),
            key: KEY.to_vec(),
            function: 1,
            symmetry: 2,
            contexts_max: 2,
            fields: BTreeMap::from([(0x01, 0xf0), (0x02, 0x30)]),
            rules: BTreeMap::new(),
            capacity: 4,
            finds_places: false,
            ntuple: true,
            ntuple_fixed: false,
            one_mask: false,
            refuse: BTreeMap::new(),
            calls: Vec::new(),
            intruders: 0,
        }
    }

    pub(crate) fn nic(self) -> Nic<Fake> {
        Nic::over(self, "eth7").expect("the driver is shown")
    }

    fn insert(&mut self, buffer: &mut [u8]) -> Result<(), Errno> {
        let mask_of = |rule: &[u8]| (rule[92..164].to_vec(), u32_at(rule, 16));
        if u64_at(buffer, 168) < u64::from(u32::MAX) && u32_at(buffer, 168) >= QUEUES {
            return Err(Errno::INVAL);
        }
        let mut location = u32_at(buffer, 176);
        if location & 0x8000_0000 != 0 {
            if !self.finds_places {
                return Err(Errno::INVAL);
            }
            location = (0..self.capacity).find(|at| !self.rules.contains_key(at)).ok_or(Errno::NOSPC)?;
        }
        let mut others = self.rules.iter().filter(|(at, _)| **at != location);
        if self.one_mask && others.any(|(_, rule)| mask_of(rule) != mask_of(buffer)) {
            return Err(Errno::INVAL);
        }
        if location >= self.capacity {
            return Err(Errno::NOSPC);
        }
        buffer[176..180].copy_from_slice(&location.to_ne_bytes());
        self.rules.insert(location, buffer[..RULE_LEN].to_vec());
        Ok(())
    }

    fn list(&mut self, buffer: &mut [u8]) -> Result<(), Errno> {
        if self.intruders > 0 {
            self.intruders -= 1;
            let last = self.rules.keys().max().map_or(0, |last| last + 1);
            self.rules.insert(last, self.rules.values().next().expect("a rule").clone());
        }
        if self.rules.len() > u32_at(buffer, 184) as usize {
            return Err(Errno::MSGSIZE);
        }
        put(buffer, 184, &(self.rules.len() as u32).to_ne_bytes());
        put(buffer, 8, &u64::from(self.capacity).to_ne_bytes());
        for (n, location) in self.rules.keys().enumerate() {
            put(buffer, 188 + 4 * n, &location.to_ne_bytes());
        }
        Ok(())
    }

    fn get_table(&self, buffer: &mut [u8]) -> Result<(), Errno> {
        let table = self.tables.get(&u32_at(buffer, 4)).ok_or(Errno::NOENT)?;
        let (entries, key) = (u32_at(buffer, 8) as usize, u32_at(buffer, 12) as usize);
        put(buffer, 8, &(table.len() as u32).to_ne_bytes());
        put(buffer, 12, &(self.key.len() as u32).to_ne_bytes());
        put(buffer, 16, &[self.function, self.symmetry]);
        match (entries, key) {
            (0, 0) => Ok(()),
            sizes if sizes == (table.len(), self.key.len()) => {
                put(buffer, 24, &bytes_of(table));
                put(buffer, 24 + 4 * entries, &self.key);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// The relevant part of `ethtool_set_rxfh`.
    fn set_table(&mut self, buffer: &mut [u8]) -> Result<(), Errno> {
        let (mut context, entries, key) = (u32_at(buffer, 4), u32_at(buffer, 8), u32_at(buffer, 12) as usize);
        if context != 0 && entries == 0 {
            return self.delete(context);
        }
        let given = if entries == u32::MAX { 0 } else { entries as usize };
        let table = (given > 0).then(|| numbers(&buffer[24..24 + 4 * given]));
        if context == u32::MAX {
            context = self.create()?;
            put(buffer, 4, &context.to_ne_bytes());
        }
        self.symmetry = buffer[17];
        self.change(context, table, Some(&buffer[24 + 4 * given..]).filter(|_| key > 0), buffer[16])
    }

    fn change(
        &mut self,
        context: u32,
        table: Option<Vec<u32>>,
        key: Option<&[u8]>,
        function: u8,
    ) -> Result<(), Errno> {
        let now = self.tables.get_mut(&context).ok_or(Errno::NOENT)?;
        if let Some(table) = table {
            *now = table;
        }
        if let Some(key) = key {
            if key.len() != self.key.len() {
                return Err(Errno::INVAL);
            }
            self.key = key.to_vec();
        }
        if function != 0 {
            self.function = function;
        }
        Ok(())
    }

    fn create(&mut self) -> Result<u32, Errno> {
        if self.contexts_max == 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if self.tables.len() > self.contexts_max {
            return Err(Errno::NOSPC);
        }
        let context = (1..).find(|n| !self.tables.contains_key(n)).expect("a free number");
        self.tables.insert(context, self.tables[&0].clone());
        Ok(context)
    }

    fn delete(&mut self, context: u32) -> Result<(), Errno> {
        let used = |rule: &Vec<u8>| u32_at(rule, 16) & 0x2000_0000 != 0 && u32_at(rule, 184) == context;
        if self.rules.values().any(used) {
            return Err(Errno::BUSY);
        }
        self.tables.remove(&context).map(drop).ok_or(Errno::NOENT)
    }

    fn rss_answer(&self, context: u32) -> Result<Vec<u8>, Errno> {
        let table = self.tables.get(&context).ok_or(Errno::NOENT)?;
        let mut answer = attribute(0x8001, &attribute(2, b"eth7\0"));
        if context != 0 {
            answer.extend(attribute(2, &context.to_ne_bytes()));
        }
        answer.extend(attribute(4, &bytes_of(table)));
        // Unknown attributes must be ignored.
        answer.extend(attribute(77, b"of the future"));
        answer.extend(attribute(3, &u32::from(self.function).to_ne_bytes()));
        answer.extend(attribute(6, &u32::from(self.symmetry).to_ne_bytes()));
        answer.extend(attribute(5, &self.key));
        Ok(answer)
    }

    /// The features, in the format of net/ethtool/features.c and bitset.c.
    fn features(&self) -> Vec<u8> {
        let name = attribute(2, b"rx-ntuple-filter\0");
        let other = attribute(0x8001, &[attribute(2, b"rx-hashing\0"), attribute(3, b"")].concat());
        let set = |marked: bool| [name.clone(), if marked { attribute(3, b"") } else { vec![] }].concat();
        let hardware = attribute(0x8001, &set(!self.ntuple_fixed));
        let active = if self.ntuple { attribute(0x8001, &name) } else { vec![] };
        [
            attribute(0x8002, &attribute(0x8003, &[other.clone(), hardware].concat())),
            attribute(0x8004, &[attribute(1, b""), attribute(0x8003, &[other, active].concat())].concat()),
            attribute(0x8005, &attribute(1, b"")),
        ]
        .concat()
    }
}

impl Transport for Fake {
    fn ioctl(&mut self, device: &str, buffer: &mut [u8]) -> io::Result<()> {
        assert_eq!(device, "eth7");
        let command = u32_at(buffer, 0);
        self.calls.push(command);
        if let Some(errno) = self.refuse.get(&command) {
            return Err((*errno).into());
        }
        let about_rules = (0x2e..=0x32).contains(&command);
        if about_rules && !self.ntuple {
            return Err(Errno::OPNOTSUPP.into());
        }
        let location = if about_rules { u32_at(buffer, 176) } else { 0 };
        match command {
            0x03 => put(buffer, 4, b"fakenic\0"),
            0x25 => put(buffer, 4, &((u32::from(self.ntuple) << 27) | 0x8000).to_ne_bytes()),
            0x26 if u32_at(buffer, 4) & 0x8000 == 0 => panic!("another feature was changed"),
            0x26 if self.ntuple_fixed => {}
            0x26 => self.ntuple = u32_at(buffer, 4) & (1 << 27) != 0,
            0x29 => {
                let fields = self.fields.get(&u32_at(buffer, 4)).ok_or(Errno::INVAL)?;
                put(buffer, 8, &fields.to_ne_bytes());
            }
            0x2a => drop(self.fields.insert(u32_at(buffer, 4), u64_at(buffer, 8))),
            0x2d => put(buffer, 8, &u64::from(QUEUES).to_ne_bytes()),
            0x2e => {
                let special = if self.finds_places { 0x8000_0000 } else { 0 };
                put(buffer, 8, &u64::from(self.capacity | special).to_ne_bytes());
                put(buffer, 184, &(self.rules.len() as u32).to_ne_bytes());
            }
            0x2f => {
                let rule = self.rules.get(&location).ok_or(Errno::NOENT)?;
                put(buffer, 16, &rule[16..]);
            }
            0x30 => self.list(buffer)?,
            0x31 => drop(self.rules.remove(&location).ok_or(Errno::NOENT)?),
            0x32 => self.insert(buffer)?,
            0x46 => self.get_table(buffer)?,
            0x47 => self.set_table(buffer)?,
            _ => return Err(Errno::OPNOTSUPP.into()),
        }
        Ok(())
    }

    fn has(&self, command: u8, ask: Ask) -> bool {
        let known: &[u8] = match ask {
            Ask::Request => &[11, 38, 48, 49, 50],
            Ask::Dump => &[38],
        };
        self.age == Age::New && known.contains(&command)
    }

    fn netlink(
        &mut self,
        device: &str,
        command: u8,
        attributes: &[u8],
        ask: Ask,
    ) -> Result<Vec<Vec<u8>>, Refused> {
        assert_eq!((device, self.has(command, ask)), ("eth7", true));
        self.calls.push(1000 + u32::from(command));
        let asked = read_attributes(attributes);
        let context = asked.get(&2).map_or(0, |value| u32_at(value, 0));
        let says = |errno: Errno| Refused { error: errno.into(), says: Some("says the driver".into()) };
        if let Some(errno) = self.refuse.get(&(1000 + u32::from(command))) {
            return Err(says(*errno));
        }
        let function = asked.get(&3).map_or(0, |value| u32_at(value, 0) as u8);
        let table = asked.get(&4).map(|value| numbers(value));
        let key = asked.get(&5).map(Vec::as_slice);
        match (command, ask) {
            (11, _) => Ok(vec![self.features()]),
            (38, Ask::Request) => self.rss_answer(context).map(|answer| vec![answer]),
            (38, Ask::Dump) => self.tables.keys().map(|context| self.rss_answer(*context)).collect(),
            (48, _) => self.change(context, table, key, function).map(|()| vec![]),
            (49, _) => self.create().and_then(|made| {
                self.change(made, table, key, function)?;
                Ok(vec![[attribute(0x8001, &[]), attribute(2, &made.to_ne_bytes())].concat()])
            }),
            _ => self.delete(context).map(|()| vec![]),
        }
        .map_err(says)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, from: &[u8]) {
    bytes[at..at + from.len()].copy_from_slice(from);
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|entry| u32_at(entry, 0)).collect()
}

fn bytes_of(table: &[u32]) -> Vec<u8> {
    table.iter().flat_map(|entry| entry.to_ne_bytes()).collect()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [&(value.len() as u16 + 4).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn read_attributes(mut bytes: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let mut found = BTreeMap::new();
    while bytes.len() >= 4 {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let (length, kind) = (half(0) as usize, half(2));
        found.insert(kind & 0x3fff, bytes[4..length].to_vec());
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    found
}
