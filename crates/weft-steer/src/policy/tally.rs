//! How flows lie on queues, added up by class, queue and processor: all that a policy looks at.

use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// Number of a class in [`Tally::classes`]; 0 is that of flows without a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ClassId(pub u16);

/// A flow, as far as sums go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its class.
    pub class: ClassId,
    /// Its load, in the policy's measure.
    pub load: u64,
    /// Where its application runs.
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

/// Sums over flows. Each change takes time of the order of the logarithm of processors times queues; nothing depends on the number
/// of flows.
#[derive(Clone, PartialEq, Debug)]
pub struct Tally {
    queues: Vec<RxQueueId>,
    classes: Vec<String>,
    /// By class, then queue, over all of the NIC's queues.
    cells: Vec<Vec<Cell>>,
    /// By class: flows whose packets are spread.
    spread: Vec<Cell>,
    /// By class: all flows.
    all: Vec<Cell>,
    /// Entries of the indirection table by queue, and their sum.
    entries: (Vec<u32>, u32),
    /// Flows by processor and queue; `None` is spread.
    cores: BTreeMap<(u32, Option<RxQueueId>), u32>,
    width: usize,
}

impl Tally {
    /// No flows. `queues` are those on which flows may be put, `width` is the number of all of the NIC's queues.
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

    /// The class of a name, which is made if there is none yet.
    pub fn intern(&mut self, name: &str) -> ClassId {
        if let Some(class) = self.class(name) {
            return class;
        }
        // Classes beyond the number's range have none of their own; flows with 65,536 classes are not told apart by policies.
        let Ok(number) = u16::try_from(self.classes.len()) else { return ClassId::default() };
        self.classes.push(name.to_owned());
        self.cells.push(vec![Cell::default(); self.width]);
        self.spread.push(Cell::default());
        self.all.push(Cell::default());
        ClassId(number)
    }

    /// The class of a name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        self.classes.iter().position(|class| class == name).map(|index| ClassId(index as u16))
    }

    /// The names of all classes that occurred; the first is empty.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// All classes.
    pub fn class_ids(&self) -> impl Iterator<Item = ClassId> + use<> {
        (0..self.classes.len()).map(|index| ClassId(index as u16))
    }

    /// The queues on which flows may be put, ascending. The catch-all is not among them when it is reserved.
    pub fn queues(&self) -> &[RxQueueId] {
        &self.queues
    }

    /// All queues of the NIC, also those on which flows should not be.
    pub fn all_queues(&self) -> impl Iterator<Item = RxQueueId> + use<> {
        (0..self.width).map(RxQueueId::from_index)
    }

    /// Flows of a class that are received on a queue; spread ones are not counted.
    pub fn flows(&self, class: ClassId, queue: RxQueueId) -> u32 {
        self.cell(class, queue).flows
    }

    /// Load of a class on a queue, with its part of what is spread.
    pub fn load(&self, class: ClassId, queue: RxQueueId) -> f64 {
        let spread = self.spread.get(usize::from(class.0)).map_or(0, |cell| cell.load);
        let fixed = self.cell(class, queue).load as f64;
        if spread == 0 { fixed } else { fixed + spread as f64 * self.share(queue) }
    }

    /// Load of all classes on a queue.
    pub fn total_load(&self, queue: RxQueueId) -> f64 {
        self.class_ids().map(|class| self.load(class, queue)).sum()
    }

    /// The part of spread packets that a queue receives, 0 to 1.
    pub fn share(&self, queue: RxQueueId) -> f64 {
        let (entries, all) = &self.entries;
        if *all == 0 {
            0.0
        } else {
            f64::from(entries.get(queue.index()).copied().unwrap_or(0)) / f64::from(*all)
        }
    }

    /// All flows of a class.
    pub fn flows_of(&self, class: ClassId) -> u32 {
        self.all.get(usize::from(class.0)).map_or(0, |cell| cell.flows)
    }

    /// Flows of a class whose packets are spread.
    pub fn spread_of(&self, class: ClassId) -> u32 {
        self.spread.get(usize::from(class.0)).map_or(0, |cell| cell.flows)
    }

    /// All flows.
    pub fn total_flows(&self) -> u32 {
        self.all.iter().map(|cell| cell.flows).sum()
    }

    /// Flows by processor and queue, of those whose processor is known; without a queue those that are spread.
    pub fn by_core(&self) -> impl Iterator<Item = (u32, Option<RxQueueId>, u32)> + '_ {
        self.cores.iter().map(|((core, queue), flows)| (*core, *queue, *flows))
    }

    fn cell(&self, class: ClassId, queue: RxQueueId) -> Cell {
        let row = self.cells.get(usize::from(class.0));
        row.and_then(|row| row.get(queue.index())).copied().unwrap_or_default()
    }

    /// A flow comes to a queue, or without one is spread. Classes must come from [`Tally::intern`] and queues be the NIC's.
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

    /// A flow that was added leaves.
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

    /// An entry of the indirection table goes from a queue to another; without one it was, or is, not set.
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
