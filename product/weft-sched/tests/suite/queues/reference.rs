//! The obvious scheduler: a pointer that visits the members one by one, active or not, round after round.

use weft_sched::queues::{FAIR_QUANTUM, Inner, Service};

#[derive(Clone, Debug)]
struct Member {
    credit: i128,
    weight: i128,
    active: bool,
}

/// Credits are in bytes times the largest weight; a visit gives a member `unit` times its weight.
#[derive(Clone, Debug)]
struct DeficitRoundRobin {
    members: Vec<Member>,
    unit: i128,
    at: usize,
}

impl DeficitRoundRobin {
    fn new(count: usize, unit: u64) -> Self {
        let member = Member { credit: 0, weight: 1, active: false };
        Self { members: vec![member; count], unit: i128::from(unit), at: 0 }
    }

    fn heaviest(&self) -> i128 {
        self.members.iter().map(|m| m.weight).max().expect("members")
    }

    fn set_weight(&mut self, index: usize, weight: i128) {
        let before = self.heaviest();
        self.members[index].weight = weight.max(1);
        let now = self.heaviest();
        for member in &mut self.members {
            member.credit = (member.credit * now).div_euclid(before);
        }
    }

    fn any(&self) -> bool {
        self.members.iter().any(|m| m.active)
    }

    /// Advances the pointer step by step until an active member has credit. The debts bound the number of steps. An
    /// idle member repays its debt and stores no credit.
    fn by_credit(&mut self) -> usize {
        if self.members[self.at].active && self.members[self.at].credit > 0 {
            return self.at;
        }
        let count = self.members.len();
        let ahead = |index: usize| ((index + count - self.at - 1) % count + 1) as i128;
        let steps = |index: usize| {
            let Member { credit, weight, .. } = self.members[index];
            let visits = if credit > 0 { 1 } else { -credit / (self.unit * weight) + 1 };
            (visits - 1) * count as i128 + ahead(index)
        };
        let active = (0..count).filter(|&index| self.members[index].active);
        let far = active.map(steps).min().expect("somebody is active");
        let visits: Vec<i128> =
            (0..count).map(|index| (far - ahead(index)).div_euclid(count as i128) + 1).collect();
        for (member, visits) in self.members.iter_mut().zip(visits) {
            member.credit += visits * self.unit * member.weight;
            if !member.active {
                member.credit = member.credit.min(0);
            }
        }
        self.at = ((self.at as i128 + far) % count as i128) as usize;
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
    outer: DeficitRoundRobin,
    inner: Vec<DeficitRoundRobin>,
}

fn unit(service: Service) -> u64 {
    match service {
        Service::RoundRobin => 1,
        Service::Deficit { credit } => credit.get(),
    }
}

impl Reference {
    pub(crate) fn new(queues: usize, per_queue: usize, service: Service, inner: Inner) -> Self {
        let per_queue = if inner == Inner::Fifo { 1 } else { per_queue };
        Self {
            service,
            outer: DeficitRoundRobin::new(queues, unit(service)),
            inner: vec![DeficitRoundRobin::new(per_queue, FAIR_QUANTUM.get()); queues],
        }
    }

    pub(crate) fn set_weight(&mut self, queue: usize, weight: u64) {
        self.outer.set_weight(queue, i128::from(weight));
    }

    pub(crate) fn set_service(&mut self, service: Service) {
        if service != self.service {
            self.service = service;
            self.outer.unit = i128::from(unit(service));
            self.outer.members.iter_mut().for_each(|m| m.credit = 0);
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
        self.inner[queue].members[slot].credit -= i128::from(sent);
        if self.service != Service::RoundRobin {
            self.outer.members[queue].credit -= i128::from(sent) * self.outer.heaviest();
        }
        if !backlogged {
            self.inner[queue].stop(slot);
            if !self.inner[queue].any() {
                self.outer.stop(queue);
            }
        }
    }
}
