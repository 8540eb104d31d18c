//! One shuffle: servers, transfers, accounting.

use super::error::ShuffleError;
use super::settings::ShuffleSettings;
use super::testbed::{Accounting, Network};
use super::transfer::{Connections, Watch};
use core::time::Duration;
use weft_facts::stats;
use weft_run::accounting::conservation;
use weft_units::Nanos;

/// Time for the ends of the streams and their acknowledgements to pass before the NICs are stopped.
const SETTLE: Duration = Duration::from_millis(100);

/// The outcome of a shuffle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ShuffleOutcome {
    /// Times of each server's flows, by sending server: from the common start until the receiver has read the last
    /// byte.
    pub completions: Vec<Vec<Nanos>>,
    /// Packets dropped at full queues: rings, the backlogs before them, and the switch's queues.
    pub dropped: u64,
    /// Segments that the servers retransmitted.
    pub retransmitted: u64,
    /// The fraction of the time until the last completion that the worst server's link lost, because no processor was
    /// free: 0 on a machine that carries the rates.
    pub link_lost: f64,
}

impl ShuffleOutcome {
    fn new(completions: Vec<Vec<Nanos>>, accounting: &[Accounting]) -> Self {
        let lost = accounting.iter().map(|book| book.nic.link_lost.as_secs_f64()).fold(0.0, f64::max);
        let drops = accounting.iter().map(|book| book.nic.drops.total() + book.switch_drops);
        let retransmitted = accounting.iter().map(|book| book.retransmitted).sum();
        let mut outcome = Self { completions, dropped: drops.sum(), retransmitted, link_lost: 0.0 };
        outcome.link_lost = outcome.slowest().map_or(0.0, |slowest| lost / slowest);
        outcome
    }

    /// Returns, for each server that sent something, the seconds from its first to its last completion (Figure 7).
    pub fn spreads(&self) -> Vec<f64> {
        let spread = |times: &Vec<Nanos>| {
            let (first, last) = (times.iter().min()?, times.iter().max()?);
            Some(last.saturating_sub(*first).as_secs_f64())
        };
        self.completions.iter().filter_map(spread).collect()
    }

    /// Returns the seconds of each flow of all servers (Figure 8).
    pub fn times(&self) -> Vec<f64> {
        self.completions.iter().flatten().map(|time| time.as_secs_f64()).collect()
    }

    /// Returns the seconds of the slowest flow.
    pub fn slowest(&self) -> Option<f64> {
        stats::max(&self.times())
    }
}

/// Makes the servers, lets each send to every other, and removes all again. Leaves nothing behind.
///
/// # Errors
/// Fails without rights, when the machine is too slow, when a NIC's accounting does not balance, and when `stopped`
/// returns true.
pub fn run(
    settings: &ShuffleSettings,
    stopped: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(f64),
) -> Result<ShuffleOutcome, ShuffleError> {
    settings.check()?;
    let network = Network::create(settings, stopped)?;
    let connections = Connections::open(settings, &network.servers, stopped)?;
    let is_running = || network.is_running();
    let mut watch = Watch { is_running: &is_running, stopped, progress };
    let completions = connections.transfer(settings, &mut watch)?;
    drop(connections);
    std::thread::sleep(SETTLE);
    let accounting = network.stop()?;
    check(&accounting)?;
    Ok(ShuffleOutcome::new(completions, &accounting))
}

/// Fails unless every packet and byte of every NIC is accounted for.
fn check(accounting: &[Accounting]) -> Result<(), ShuffleError> {
    for (server, book) in accounting.iter().enumerate() {
        let violations = conservation(&book.nic).violations();
        if !violations.is_empty() {
            return Err(ShuffleError::Accounting { server, what: violations.join("; ") });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_nic::nic::{Arrivals, PortTotals, Totals};

    #[test]
    fn a_spread_is_of_one_server() {
        let seconds = |times: &[u64]| times.iter().copied().map(Nanos::from_secs).collect();
        let completions = vec![seconds(&[7, 3, 5]), seconds(&[10]), Vec::new(), seconds(&[2, 2])];
        let outcome = ShuffleOutcome { completions, ..ShuffleOutcome::default() };
        assert_eq!(outcome.spreads(), [4.0, 0.0, 0.0]);
        assert_eq!(outcome.times(), [7.0, 3.0, 5.0, 10.0, 2.0, 2.0]);
        assert_eq!(outcome.slowest(), Some(10.0));
    }

    #[test]
    fn a_packet_that_nothing_counts_is_an_error() {
        let book = |sent: u64| {
            let mut class = weft_nic::nic::ClassTotals::default();
            for (count, packets) in [
                (&mut class.posted, 3),
                (&mut class.fetched, 3),
                (&mut class.sent, sent),
                (&mut class.wire, sent),
            ] {
                *count = weft_units::Counted::new(packets, packets * 100);
            }
            Accounting {
                // A NIC without classes has no count at the port's far end.
                nic: Totals {
                    ports: PortTotals {
                        classes: vec![class],
                        arrivals: Arrivals { unseen_ports: 1, ..Arrivals::default() },
                        ..PortTotals::default()
                    },
                    ..Totals::default()
                },
                switch_drops: 0,
                retransmitted: 0,
            }
        };
        assert!(check(&[book(3), book(3)]).is_ok());
        let wrong = check(&[book(3), book(2)]).expect_err("a packet is missing");
        assert!(matches!(wrong, ShuffleError::Accounting { server: 1, .. }), "{wrong}");
    }
}
