//! Parameters of a shuffle.

use core::fmt;
use weft_sched::queues::Inner;
use weft_titan::settings::{Parts, Settings as Attached};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The servers' configurations (technical report, Figure 7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ShuffleConfig {
    /// Queues by hash, first in first out inside a queue (C1).
    Vanilla,
    /// Queues by hash, SFQ inside a queue (C6).
    Optimised,
    /// DQA, DQWA and DSOS (T3), SFQ inside a queue.
    Titan,
}

impl ShuffleConfig {
    /// All configurations, in the order of the figure.
    pub const ALL: [Self; 3] = [Self::Vanilla, Self::Optimised, Self::Titan];

    /// Returns the queue discipline inside a queue.
    pub const fn inner(self) -> Inner {
        match self {
            Self::Vanilla => Inner::Fifo,
            Self::Optimised | Self::Titan => Inner::Fair,
        }
    }

    /// Returns the queue assignment at every server's port. The NIC applies changed weights at once, as the authors'
    /// driver does.
    pub fn attached(self) -> Option<Attached> {
        let parts = Parts { dqa: true, dqwa: true, dsos: true };
        let titan = || Attached { parts, update_interval: Nanos::ZERO, ..Attached::default() };
        (self == Self::Titan).then(titan)
    }
}

impl fmt::Display for ShuffleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vanilla => "vanilla",
            Self::Optimised => "optimised",
            Self::Titan => "Titan",
        })
    }
}

/// The most servers: each has two threads of its NIC, two of its transfers, and a descriptor for each ring.
pub const MOST_SERVERS: u32 = 64;
/// The default rate of all servers together.
pub const TOTAL_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// Parameters of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShuffleSettings {
    /// The servers' configuration.
    pub config: ShuffleConfig,
    /// Servers, each of which sends to every other.
    pub servers: u32,
    /// Bytes that each server sends to each other.
    pub transfer: Bytes,
    /// Rate of each server's link.
    pub rate: BitsPerSec,
    /// Queues of each server's NIC.
    pub queues: u16,
    /// Seed of the flows' ports, and so of their hashes.
    pub seed: u64,
}

impl Default for ShuffleSettings {
    fn default() -> Self {
        Self {
            config: ShuffleConfig::Vanilla,
            servers: 6,
            transfer: Bytes(4_000_000),
            rate: Self::rate_for(6),
            queues: 8,
            seed: 1,
        }
    }
}

/// The reason that a shuffle with these settings cannot run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShuffleSettingsError {
    /// Too few or too many servers.
    #[error("{0} servers are outside 2 to {MOST_SERVERS}; give --flows N")]
    Servers(u32),
    /// A transfer without bytes.
    #[error("a transfer of 0 bytes completes nothing; give --transfer SIZE")]
    EmptyTransfer,
    /// No queue, or too many.
    #[error("a NIC has 1 to 256 queues, not {0}")]
    Queues(u16),
    /// A rate below 1 Mb/s.
    #[error("a rate of {0} is below 1 Mb/s")]
    Rate(BitsPerSec),
}

impl ShuffleSettings {
    /// Returns the rate per server; all together send [`TOTAL_RATE`].
    pub fn rate_for(servers: u32) -> BitsPerSec {
        BitsPerSec(TOTAL_RATE.get() / u64::from(servers.max(1)))
    }

    /// Checks that the settings can be run.
    ///
    /// # Errors
    /// Fails for servers outside 2 to [`MOST_SERVERS`], an empty transfer, no queue or
    /// more than 256, and a rate below 1 Mb/s.
    pub fn check(&self) -> Result<(), ShuffleSettingsError> {
        if !(2..=MOST_SERVERS).contains(&self.servers) {
            return Err(ShuffleSettingsError::Servers(self.servers));
        }
        if self.transfer == Bytes(0) {
            return Err(ShuffleSettingsError::EmptyTransfer);
        }
        if !(1..=256).contains(&self.queues) {
            return Err(ShuffleSettingsError::Queues(self.queues));
        }
        if self.rate < BitsPerSec(1_000_000) {
            return Err(ShuffleSettingsError::Rate(self.rate));
        }
        Ok(())
    }

    /// Returns the payload bytes that a server sends in all.
    pub fn of_server(&self) -> Bytes {
        Bytes(self.transfer.get().saturating_mul(u64::from(self.servers.saturating_sub(1))))
    }

    /// Returns the time limit of a run: ten times the payload's time at the rate, and half a minute.
    pub fn patience(&self) -> Nanos {
        Nanos::from_secs(30) + Nanos(self.rate.time_for(self.of_server()).get().saturating_mul(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_refused() {
        let good = ShuffleSettings::default();
        assert_eq!(good.check(), Ok(()));
        for (bad, word) in [
            (ShuffleSettings { servers: 1, ..good.clone() }, "servers"),
            (ShuffleSettings { servers: MOST_SERVERS + 1, ..good.clone() }, "servers"),
            (ShuffleSettings { transfer: Bytes(0), ..good.clone() }, "--transfer"),
            (ShuffleSettings { queues: 0, ..good.clone() }, "queues"),
            (ShuffleSettings { queues: 257, ..good.clone() }, "queues"),
            (ShuffleSettings { rate: BitsPerSec(999_999), ..good.clone() }, "rate"),
        ] {
            let said = bad.check().expect_err("refused").to_string();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn a_servers_share_and_patience() {
        let settings = ShuffleSettings::default();
        assert_eq!(settings.of_server(), Bytes(20_000_000));
        // 160 Mb at a sixth of 1 Gb/s are 0.96 s.
        let ten_times = settings.patience() - Nanos::from_secs(30);
        assert!((ten_times.as_secs_f64() - 9.6).abs() < 1e-3, "{ten_times}");
    }

    #[test]
    fn only_titan_attaches_something() {
        assert!(ShuffleConfig::Vanilla.attached().is_none() && ShuffleConfig::Optimised.attached().is_none());
        assert_eq!(
            (ShuffleConfig::Vanilla.inner(), ShuffleConfig::Optimised.inner()),
            (Inner::Fifo, Inner::Fair)
        );
        let parts = ShuffleConfig::Titan.attached().expect("attached").parts;
        assert!(parts.dqa && parts.dqwa && parts.dsos && ShuffleConfig::Titan.inner() == Inner::Fair);
    }
}
