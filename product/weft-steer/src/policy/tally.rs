//! Sums of flows by class, queue and processor: the input of policies.

use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// Number of a class in [`Tally::classes`]; 0 is that of flows without a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassId(pub u16);

/// A flow's contribution to the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its class.
    pub class: ClassId,
    /// Its load, in the policy's measure.
    pub load: u64,
    /// The processor of its application.
    pub core: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cell {
    flows: u32,
    load: u64,
}

impl Cell {
    fn add(&mut self, load: u64) {
        self.flows += 1;
        self.load += load;
    }

    fn take(&mut self, load: u64) {
        self.flows -= 1;
        self.load -= load;
    }
}

/// Sums over flows. A change takes time logarithmic in processors times queues, independent of the number of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct Tally {
    queues: Vec<RxQueueId>,
    classes: Vec<String>,
    /// By class, then by queue, over all of the NIC's queues.
    cells: Vec<Vec<Cell>>,
    /// By class: flows with spread packets.
    spread: Vec<Cell>,
    /// By class: all flows.
    all: Vec<Cell>,
    /// Number of indirection table entries by queue, and their sum.
    entries: (Vec<u32>, u32),
    /// Number of flows by processor and queue; the queue is `None` for spread flows.
    cores: BTreeMap<(u32, Option<RxQueueId>), u32>,
    width: usize,
}

impl Tally {
    /// Creates empty sums. `queues` are usable for flows; `width` is the number of all of the NIC's queues.
    pub fn new(queues: Vec<RxQueueId>, width: u32) -> Self {
        let width = queues.iter().map(|queue| queue.index() + 1).max().unwrap_or(1).max(width as usize);
        let mut tally = Self {
            queues,
            classes: Vec::new(),
            cells: Vec::new(),
            spread: Vec::new(),
            all: Vec::new(),
            entries: (vec![0; width], 0),
            cores: BTreeMap::new(),
            width,
        };
        tally.intern("");
        tally
    }

    /// Returns the class with a name, and creates it if necessary.
    pub fn intern(&mut self, name: &str) -> ClassId {
        if let Some(class) = self.class(name) {
            return class;
        }
        // Classes beyond the number's range count as flows without a class; no policy distinguishes 65,536 classes.
        let Ok(number) = u16::try_from(self.classes.len()) else { return ClassId::default() };
        self.classes.push(name.to_owned());
        self.cells.push(vec![Cell::default(); self.width]);
        self.spread.push(Cell::default());
        self.all.push(Cell::default());
        ClassId(number)
    }

    /// Returns the class with a name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().position(|class| class == name).map(|index| ClassId(index as u16))
    }

    /// The names of all classes that occurred; the first one is empty.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// All classes.
    pub fn class_ids(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.classes.len()).map(|index| ClassId(index as u16))
    }

    /// The queues usable for flows, ascending. A reserved catch-all is excluded.
    pub fn queues(&self) -> &[RxQueueId] {
        &self.queues
    }

    /// All queues of the NIC, unusable ones included.
    pub fn all_queues(&self) -> impl Iterator<Item = RxQueueId> + use<> {
        (0..self.width).map(RxQueueId::from_index)
    }

    /// The number of a class's flows on a queue, without spread flows.
    pub fn flows(&self, class: ClassId, queue: RxQueueId) -> u32 {
        self.cell(class, queue).flows
    }

    /// The load of a class on a queue, including its share of spread packets.
    pub fn load(&self, class: ClassId, queue: RxQueueId) -> f64 {
        let spread = self.spread.get(usize::from(class.0)).map_or(0, |cell| cell.load);
        let fixed = self.cell(class, queue).load as f64;
        if spread == 0 { fixed } else { fixed + spread as f64 * self.share(queue) }
    }

    /// The load of all classes on a queue.
    pub fn total_load(&self, queue: RxQueueId) -> f64 {
        self.class_ids().map(|class| self.load(class, queue)).sum()
    }

    /// The share of spread packets that a queue receives, 0 to 1.
    pub fn share(&self, queue: RxQueueId) -> f64 {
        let (entries, all) = &self.entries;
        if *all == 0 {
            0.0
        } else {
            f64::from(entries.get(queue.index()).copied().unwrap_or(0)) / f64::from(*all)
        }
    }

    /// The number of a class's flows.
    pub fn flows_of(&self, class: ClassId) -> u32 {
        self.all.get(usize::from(class.0)).map_or(0, |cell| cell.flows)
    }

    /// The number of a class's flows with spread packets.
    pub fn spread_of(&self, class: ClassId) -> u32 {
        self.spread.get(usize::from(class.0)).map_or(0, |cell| cell.flows)
    }

    /// The number of all flows.
    pub fn total_flows(&self) -> u32 {
        self.all.iter().map(|cell| cell.flows).sum()
    }

    /// The number of flows by processor and queue, for flows with a known processor; the queue is `None` for spread flows.
    pub fn by_core(&self) -> impl Iterator<Item = (u32, Option<RxQueueId>, u32)> + '_ {
        self.cores.iter().map(|((core, queue), flows)| (*core, *queue, *flows))
    }

    fn cell(&self, class: ClassId, queue: RxQueueId) -> Cell {
        let row = self.cells.get(usize::from(class.0));
        row.and_then(|row| row.get(queue.index())).copied().unwrap_or_default()
    }

    /// Adds a flow to a queue, or as a spread flow without one. Classes must come from [`Tally::intern`], and queues must be the
    /// NIC's.
    pub fn add(&mut self, item: Item, queue: Option<RxQueueId>) {
        let class = usize::from(item.class.0);
        self.all[class].add(item.load);
        match queue {
            Some(queue) => self.cells[class][queue.index()].add(item.load),
            None => self.spread[class].add(item.load),
        }
        if let Some(core) = item.core {
            *self.cores.entry((core, queue)).or_default() += 1;
        }
    }

    /// Removes a flow that was added.
    pub fn remove(&mut self, item: Item, queue: Option<RxQueueId>) {
        let class = usize::from(item.class.0);
        self.all[class].take(item.load);
        match queue {
            Some(queue) => self.cells[class][queue.index()].take(item.load),
            None => self.spread[class].take(item.load),
        }
        if let Some(core) = item.core
            && let Some(flows) = self.cores.get_mut(&(core, queue))
        {
            *flows -= 1;
            if *flows == 0 {
                self.cores.remove(&(core, queue));
            }
        }
    }

    /// Moves an indirection table entry between queues; `None` means that the entry is not set.
    pub fn move_entry(&mut self, from: Option<RxQueueId>, to: Option<RxQueueId>) {
        let (entries, all) = &mut self.entries;
        if let Some(from) = from {
            entries[from.index()] -= 1;
            *all -= 1;
        }
        if let Some(to) = to {
            entries[to.index()] += 1;
            *all += 1;
        }
    }
}
