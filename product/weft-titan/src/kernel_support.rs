//! A survey of the kernel's support for queue assignment, by trials in a scratch namespace.

use crate::error::TitanError;
use crate::layout::ProgramConfig;
use crate::programs::FILTER;
use crate::programs::{Departures, Loaded};
use weft_host::NetNs;
use weft_host::doctor::{Facility, State};
use weft_host::link::{self, VethOptions};
use weft_host::tc::{Filter, FilterAction, FilterRule, Handle, TcDevice, TcObject};

/// The scratch link.
const LINK: &str = "weft-try0";
/// The other end of the scratch link.
const PEER: &str = "weft-try1";

/// Tries the programs, and the tc action that selects the queue on devices other than the software NIC.
pub fn survey() -> Vec<Facility> {
    let loaded = Loaded::load(&ProgramConfig::TRIAL, None).map_err(|error| error.to_string());
    let queues = match &loaded {
        Ok(loaded) => {
            try_action(loaded).map_or_else(|error| State::Missing(error.to_string()), |()| State::PRESENT)
        }
        Err(_) => State::Missing("could not be tried: the programs do not load".to_owned()),
    };
    vec![
        Facility {
            id: "titan.programs",
            title: "queue assignment",
            state: loaded.map_or_else(State::Missing, |loaded| programs(loaded.departures())),
            brings: "weft titan: flows spread over the queues of a multiqueue device",
            remedy: "run as root on a kernel with BTF; exact departures need fentry (CONFIG_FUNCTION_TRACER)",
        },
        Facility {
            id: "titan.queues",
            title: "queues by hash (act_skbedit)",
            state: queues,
            brings: "weft titan at other devices than the software NIC",
            remedy: "a kernel with CONFIG_NET_ACT_SKBEDIT, Linux 5.18 or newer",
        },
    ]
}

fn programs(departures: Departures) -> State {
    match departures {
        Departures::Destructors => State::Present("departures by destructors".to_owned()),
        Departures::Tracepoints => State::Limited(
            "departures by tracepoints: the kernel lets no program attach to functions; missed departures are counted out late"
                .to_owned(),
        ),
    }
}

fn try_action(loaded: &Loaded) -> Result<(), TitanError> {
    let ns = NetNs::anonymous()?;
    link::create_veth((&ns, LINK), (&ns, PEER), &VethOptions::default())?;
    let mut device = TcDevice::open(&ns, LINK)?;
    device.add(&TcObject::clsact())?;
    let rule = FilterRule::Bpf { program: loaded.classifier().as_fd(), name: FILTER, direct_action: false };
    let action = Some(FilterAction::QueueByHash(0..=1));
    Ok(device.claim_filter(&Filter { action, ..Filter::new(Handle::EGRESS, 1, 1, rule) })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::testing::privileged;

    #[test]
    fn both_are_tried_or_it_is_said_why_not() {
        let found = survey();
        assert_eq!(found.iter().map(|f| f.id).collect::<Vec<_>>(), ["titan.programs", "titan.queues"]);
        for facility in &found {
            if let State::Missing(why) | State::Limited(why) = &facility.state {
                assert!(!why.is_empty() && !facility.remedy.is_empty(), "{facility:?}");
            }
        }
    }

    #[test]
    fn with_rights_the_programs_load() {
        if !privileged("with_rights_the_programs_load") {
            return;
        }
        assert!(survey()[0].state.usable(), "{:?}", survey());
    }
}
