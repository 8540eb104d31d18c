//! The tenants of a running daemon's policy, and the document of `weft tenant list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{Document, Host};
use crate::table::{Cell, Column, Table};

/// A tenant of the policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusTenant {
    /// Its name in the operator's policy.
    pub tenant: String,
    /// The cgroup to which its packets are restricted; null if they are not.
    pub cgroup: Option<String>,
    /// The name of the file in force; null without one, so that its packets share one FIFO.
    pub file: Option<String>,
    /// The SHA-256 of the file's text, in hexadecimal digits.
    pub hash: Option<String>,
    /// The origin of the file, or of its absence.
    pub origin: TenantOrigin,
    /// The user who attached or detached the file; null if nobody did.
    pub owner_uid: Option<u32>,
    /// The time from which the file, or the FIFO, is in force, in seconds since 1970.
    pub since_unix_s: u64,
    /// Its quotas, with their use.
    pub quotas: Vec<StatusQuota>,
    /// The last file that was refused since the one in force was accepted.
    pub refusal: Option<StatusRefusal>,
    /// The uplink, if the configuration names its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
}

/// The text of a tenant's file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantText {
    /// The tenant's name in the operator's policy, such as `vm1` or `vm1.db`.
    pub tenant: String,
    /// The file's name in diagnostics.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The origin of a tenant's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TenantOrigin {
    /// The operator's policy came with it, or without it.
    #[default]
    Policy,
    /// It was attached while the daemon ran.
    Attached,
    /// It was detached while the daemon ran.
    Detached,
}

impl TenantOrigin {
    /// The origin in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Attached => "attached",
            Self::Detached => "detached",
        }
    }
}

/// A quota of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusQuota {
    /// The word of the language: `classes`, `nodes`, `limits`, `flows`, or `cost` in nanoseconds.
    #[schemars(extend("enum" = ["classes", "nodes", "limits", "flows", "cost"]))]
    pub quota: String,
    /// The most that the tenant may use.
    pub most: u64,
    /// The use of the file in force; 0 without one.
    pub used: u64,
}

/// A tenant's file that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusRefusal {
    /// The time, in seconds since 1970.
    pub at_unix_s: u64,
    /// The first error, in a line with its place.
    pub error: String,
}

impl StatusTenant {
    /// The file or the FIFO in force, in words: `vm1.weft (attached by user 1000)`, `FIFO (no file)`.
    pub fn in_force(&self) -> String {
        let user = self.owner_uid.map_or_else(String::new, |uid| format!(" by user {uid}"));
        match (&self.file, self.origin) {
            (Some(file), TenantOrigin::Policy) => file.clone(),
            (Some(file), origin) => format!("{file} ({}{user})", origin.as_str()),
            (None, TenantOrigin::Policy) => "FIFO (no file)".to_owned(),
            (None, TenantOrigin::Attached) => format!("FIFO (the file attached{user} is refused)"),
            (None, TenantOrigin::Detached) => format!("FIFO (detached{user})"),
        }
    }

    /// The quotas with their use in words; a dash without any.
    fn quotas(&self) -> String {
        let one = |of: &StatusQuota| {
            let unit = if of.quota == "cost" { " ns" } else { "" };
            format!("{} {} of {}{unit}", of.quota, of.used, of.most)
        };
        let all: Vec<String> = self.quotas.iter().map(one).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(", ") }
    }
}

/// The tenants as a table.
pub fn tenant_table(title: &str, tenants: &[StatusTenant]) -> Table {
    let mut table = Table::new(title.to_owned()).columns([
        Column::left("tenant"),
        Column::left("in force"),
        Column::left("since"),
        Column::left("quotas"),
        Column::left("last refusal"),
    ]);
    for of in tenants {
        table.row([
            Cell::plain(&of.tenant),
            of.in_force().as_str().into(),
            utc(of.since_unix_s).as_str().into(),
            of.quotas().as_str().into(),
            of.refusal.as_ref().map_or("-", |refusal| refusal.error.as_str()).into(),
        ]);
    }
    table
}

/// A time since 1970 as `2026-11-23 06:20:00 UTC`, by the civil calendar from days (Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`).
fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March, so that the leap day is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The document of `weft tenant list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantsReport {
    /// `weft-tenants/1`.
    pub schema: String,
    /// The host of the daemon.
    pub host: Host,
    /// The number of the policy in force; with several uplinks, of the default one.
    pub generation: u64,
    /// The tenants.
    pub tenants: Vec<StatusTenant>,
}

impl Document for TenantsReport {
    const SCHEMA: &'static str = "weft-tenants/1";

    fn tables(&self) -> Vec<Table> {
        vec![tenant_table("Tenants", &self.tenants)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // `date -u -d @N '+%F %T UTC'`.
        for (unix_s, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_413_600, "2026-11-23 06:00:00 UTC"),
        ] {
            assert_eq!(utc(unix_s), expected);
        }
    }

    #[test]
    fn a_tenant_says_what_is_in_force() {
        let none = StatusTenant::default();
        assert_eq!((none.in_force().as_str(), none.quotas().as_str()), ("FIFO (no file)", "-"));
        let quotas = vec![StatusQuota { quota: "cost".into(), most: 60, used: 41 }];
        let origin = TenantOrigin::Attached;
        let of = StatusTenant { file: Some("a".into()), origin, owner_uid: Some(7), quotas, ..none };
        assert_eq!(
            (of.in_force().as_str(), of.quotas().as_str()),
            ("a (attached by user 7)", "cost 41 of 60 ns")
        );
    }
}
