//! The slow, obvious scheduler: a pointer that goes from member to member one by one, active or not, round after round.

use weft_sched::queues::{FAIR_QUANTUM, Inner, Service};

#[derive(Clone, Debug)]
struct Member {
    credit: i64,
    quantum: i64,
    active: bool,
}

#[derive(Clone, Debug)]
struct Wheel {
    members: Vec<Member>,
    at: usize,
}

impl Wheel {
    fn new(count: usize, quantum: i64) -> Self {
        Self { members: vec![Member { credit: 0, quantum, active: false }; count], at: 0 }
    }

    /// One step. Who is idle pays its debt and banks nothing.
    fn step(&mut self) {
        self.at = (self.at + 1) % self.members.len();
        let member = &mut self.members[self.at];
        member.credit += member.quantum;
        if !member.active {
            member.credit = member.credit.min(0);
        }
    }

    fn any(&self) -> bool {
        self.members.iter().any(|m| m.active)
    }

    fn by_credit(&mut self) -> usize {
        while !(self.members[self.at].active && self.members[self.at].credit > 0) {
            self.step();
        }
        self.at
    }

    fn in_turns(&mut self) -> usize {
        loop {
            self.at = (self.at + 1) % self.members.len();
            if self.members[self.at].active {
                return self.at;
            }
        }
    }

    fn stop(&mut self, index: usize) {
        self.members[index].active = false;
        self.members[index].credit = self.members[index].credit.min(0);
    }
}

/// The two levels. A flow is named by its queue and its position there.
#[derive(Debug)]
pub(crate) struct Reference {
    service: Service,
    outer: Wheel,
    inner: Vec<Wheel>,
    weights: Vec<u64>,
}

impl Reference {
    pub(crate) fn new(queues: usize, per_queue: usize, service: Service, inner: Inner) -> Self {
        let per_queue = if inner == Inner::Fifo { 1 } else { per_queue };
        let mut made = Self {
            service,
            outer: Wheel::new(queues, 1),
            inner: vec![Wheel::new(per_queue, FAIR_QUANTUM.get() as i64); queues],
            weights: vec![0; queues],
        };
        made.requantify();
        made
    }

    fn requantify(&mut self) {
        for (member, weight) in self.outer.members.iter_mut().zip(&self.weights) {
            member.quantum = match self.service {
                Service::RoundRobin => 1,
                Service::Deficit { credit } => (credit.get() * (*weight).max(1)) as i64,
            };
        }
    }

    pub(crate) fn set_weight(&mut self, queue: usize, weight: u64) {
        self.weights[queue] = weight;
        self.requantify();
    }

    pub(crate) fn set_service(&mut self, service: Service) {
        if service != self.service {
            self.service = service;
            self.outer.members.iter_mut().for_each(|m| m.credit = 0);
            self.requantify();
        }
    }

    pub(crate) fn activate(&mut self, queue: usize, slot: usize) {
        self.inner[queue].members[slot].active = true;
        self.outer.members[queue].active = true;
    }

    pub(crate) fn next(&mut self) -> Option<(usize, usize)> {
        if !self.outer.any() {
            return None;
        }
        let queue = match self.service {
            Service::RoundRobin => self.outer.in_turns(),
            Service::Deficit { .. } => self.outer.by_credit(),
        };
        Some((queue, self.inner[queue].by_credit()))
    }

    pub(crate) fn finish(&mut self, (queue, slot): (usize, usize), sent: u64, backlogged: bool) {
        self.inner[queue].members[slot].credit -= sent as i64;
        if self.service != Service::RoundRobin {
            self.outer.members[queue].credit -= sent as i64;
        }
        if !backlogged {
            self.inner[queue].stop(slot);
            if !self.inner[queue].any() {
                self.outer.stop(queue);
            }
        }
    }
}
