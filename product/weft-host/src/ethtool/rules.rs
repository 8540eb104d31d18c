//! The table of receive rules: read, insert, delete.

use std::collections::BTreeSet;
use std::io;

use rustix::io::Errno;

use super::codec::{LOC_SPECIAL, decode_rule, encode_rule};
use super::error::{EthtoolError, Result};
use super::layout::{self, put_u32, rxnfc};
use super::nic::{Nic, command, is};
use super::rule::{Location, RxRule};
use super::transport::Transport;
use crate::error::errno_text;
use crate::netlink::{u32_at, u64_at};

/// The most attempts at reading the list of locations while rules are being added.
const LIST_TRIES: usize = 4;

/// The rules of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTable {
    /// The most rules that fit, if the driver reports it.
    pub capacity: Option<u32>,
    /// Whether the driver itself chooses locations for [`Location::Any`], `First` and `Last` (`RX_CLS_LOC_SPECIAL`).
    pub finds_places: bool,
    /// The rules, by location.
    pub rules: Vec<RxRule>,
}

/// An answer to GRXCLSRLCNT.
struct Count {
    rules: u32,
    capacity: Option<u32>,
    finds_places: bool,
}

impl<T: Transport> Nic<T> {
    /// All rules. A driver that does not support rules returns an error even if none was ever inserted.
    ///
    /// # Errors
    /// [`EthtoolError::NoRules`] if the driver does not support them; [`EthtoolError::BadRule`] if one cannot be decoded.
    pub fn rules(&mut self) -> Result<RuleTable> {
        let count = self.count_rules("read the receive rules")?;
        let mut rules = Vec::new();
        for location in self.locations(count.rules)? {
            match self.rule(location) {
                Ok(rule) => rules.push(rule),
                // Deleted since the list was read.
                Err(EthtoolError::NoSuchRule { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(RuleTable { capacity: count.capacity, finds_places: count.finds_places, rules })
    }

    /// The rule at a location.
    ///
    /// # Errors
    /// [`EthtoolError::NoSuchRule`] if none exists; otherwise as [`Nic::rules`].
    pub fn rule(&mut self, location: u32) -> Result<RxRule> {
        let mut buffer = command::<{ rxnfc::LEN }>(layout::GRXCLSRULE);
        put_u32(&mut buffer, rxnfc::LOCATION, location);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| {
            self.rule_refused(&format!("read the receive rule at location {location}"), location, e)
        })?;
        decode_rule(&buffer).map_err(|source| EthtoolError::BadRule {
            device: self.device.clone(),
            driver: self.driver_name(),
            source,
        })
    }

    /// Inserts a rule and returns its location. A rule at a location that the new rule names is replaced.
    ///
    /// If the driver chooses no locations itself, `Any` and `Last` take the highest free location and `First` the lowest, as
    /// in ethtool.
    ///
    /// # Errors
    /// [`EthtoolError::NoRules`] or [`EthtoolError::NtupleOff`] if rules are unavailable, [`EthtoolError::Full`], and the
    /// driver's refusal: drivers accept certain fields and masks only, and do not say which.
    pub fn insert_rule(&mut self, rule: &RxRule) -> Result<u32> {
        let action = format!("insert the receive rule \"{rule}\"");
        let mut rule = *rule;
        if !matches!(rule.location, Location::At(_)) {
            let count = self.count_rules(&action)?;
            if !count.finds_places {
                rule.location = Location::At(self.free_location(rule.location, &count)?);
            }
        }
        let mut buffer = encode_rule(&rule);
        put_u32(&mut buffer, 0, layout::SRXCLSRLINS);
        match self.transport.ioctl(&self.device, &mut buffer) {
            Ok(()) => Ok(u32_at(&buffer, rxnfc::LOCATION)),
            Err(e) => Err(self.insert_refused(&action, e)),
        }
    }

    /// Deletes the rule at a location.
    ///
    /// # Errors
    /// [`EthtoolError::NoSuchRule`] if none exists.
    pub fn delete_rule(&mut self, location: u32) -> Result<()> {
        let mut buffer = command::<{ rxnfc::LEN }>(layout::SRXCLSRLDEL);
        put_u32(&mut buffer, rxnfc::LOCATION, location);
        self.transport.ioctl(&self.device, &mut buffer).map_err(|e| {
            self.rule_refused(&format!("delete the receive rule at location {location}"), location, e)
        })
    }

    fn count_rules(&mut self, action: &str) -> Result<Count> {
        let mut buffer = command::<{ rxnfc::LEN }>(layout::GRXCLSRLCNT);
        if let Err(e) = self.transport.ioctl(&self.device, &mut buffer) {
            return Err(self.rules_refused(action, e));
        }
        let data = u64_at(&buffer, rxnfc::DATA) as u32;
        let capacity = Some(data & !LOC_SPECIAL).filter(|capacity| *capacity != 0);
        let finds_places = data & LOC_SPECIAL != 0;
        Ok(Count { rules: u32_at(&buffer, rxnfc::RULE_CNT), capacity, finds_places })
    }

    /// The locations of all rules, ascending.
    fn locations(&mut self, expected: u32) -> Result<BTreeSet<u32>> {
        let action = "list the receive rules";
        // No NIC has that many; such a number is a driver's error.
        let mut room = expected.min(1 << 20);
        for _ in 0..LIST_TRIES {
            let mut buffer = vec![0; rxnfc::LEN.max(rxnfc::RULE_LOCS + 4 * room as usize)];
            put_u32(&mut buffer, 0, layout::GRXCLSRLALL);
            put_u32(&mut buffer, rxnfc::RULE_CNT, room);
            match self.transport.ioctl(&self.device, &mut buffer) {
                Ok(()) => {
                    let there = u32_at(&buffer, rxnfc::RULE_CNT).min(room) as usize;
                    return Ok((0..there).map(|n| u32_at(&buffer, rxnfc::RULE_LOCS + 4 * n)).collect());
                }
                // There are more rules than the buffer holds.
                Err(e) if is(&e, Errno::MSGSIZE) => room += 16,
                Err(e) => return Err(self.rules_refused(action, e)),
            }
        }
        Err(self
            .failed(action, Errno::MSGSIZE.into())
            .remedy("somebody adds rules all the time; try again")
            .into())
    }

    fn free_location(&mut self, wanted: Location, count: &Count) -> Result<u32> {
        let full =
            EthtoolError::Full { device: self.device.clone(), rules: count.rules, capacity: count.capacity };
        let taken = self.locations(count.rules)?;
        let mut places = 0..count.capacity.unwrap_or(0);
        let free = match wanted {
            Location::First => places.find(|place| !taken.contains(place)),
            _ => places.rev().find(|place| !taken.contains(place)),
        };
        free.ok_or(full)
    }

    /// The error of a refused read or deletion of one rule.
    fn rule_refused(&mut self, action: &str, location: u32, error: io::Error) -> EthtoolError {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::INVAL) => {
                EthtoolError::NoSuchRule { device: self.device.clone(), location }
            }
            _ => self.rules_refused(action, error),
        }
    }

    /// The error of a refused call for rules: unsupported, turned off, or another reason.
    fn rules_refused(&mut self, action: &str, error: io::Error) -> EthtoolError {
        let off = is(&error, Errno::OPNOTSUPP) || is(&error, Errno::INVAL);
        match self.ntuple() {
            Ok(feature) if off && !feature.active && feature.changeable != Some(false) => {
                EthtoolError::NtupleOff {
                    device: self.device.clone(),
                    action: action.to_string(),
                    errno: errno_text(&error),
                }
            }
            Ok(feature) if is(&error, Errno::OPNOTSUPP) && !feature.active => self.no_rules(),
            _ => self.failed(action, error).into(),
        }
    }

    fn insert_refused(&mut self, action: &str, error: io::Error) -> EthtoolError {
        let errno = Errno::from_io_error(&error);
        if errno == Some(Errno::NOSPC)
            && let Ok(count) = self.count_rules(action)
        {
            return EthtoolError::Full {
                device: self.device.clone(),
                rules: count.rules,
                capacity: count.capacity,
            };
        }
        let (device, driver) = (self.device.clone(), self.driver_name());
        let remedy = match errno {
            Some(Errno::INVAL) => format!(
                "the driver {driver} does not take these fields, masks or queue beside the rules that are there (many \
                 NICs compare the same fields and bits in all rules); compare with: ethtool -n {device}"
            ),
            Some(Errno::OPNOTSUPP) => format!("the driver {driver} does not take rules of this kind"),
            Some(Errno::EXIST) => format!("the same rule exists already; see: ethtool -n {device}"),
            Some(Errno::BUSY) => {
                format!("something else of {device} uses its rules, such as tc, ADQ or aRFS")
            }
            Some(Errno::PERM | Errno::ACCESS) => return self.failed(action, error).into(),
            _ => format!("see: ethtool -n {device}"),
        };
        match self.rules_refused(action, error) {
            EthtoolError::Os(os) => EthtoolError::Os(os.remedy(remedy)),
            other => other,
        }
    }
}
