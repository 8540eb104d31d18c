//! The file of a machine's costs, as `weft profile fit --machine` writes it.

use std::path::Path;
use weft_profile::level::Level;
use weft_report::profile::predict::Figures;

/// A machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Machine {
    /// The file's name.
    pub name: String,
    /// The file's text.
    pub costs: String,
    /// The cells to which the costs were fitted; empty if the file does not say.
    pub fitted_cells: Vec<String>,
    /// The means of these cells; `None` if the file does not have them.
    pub null_model: Option<Figures>,
}

/// The reason that a machine's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// It cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// Its path.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// It is not TOML.
    #[error("{path} is no file of costs: {reason}; `weft profile fit --machine` writes one")]
    Invalid {
        /// Its path.
        path: String,
        /// The parser's message.
        reason: String,
    },
}

impl Machine {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not TOML.
    pub fn read(path: &Path) -> Result<Self, MachineError> {
        let name = path.display().to_string();
        let costs = std::fs::read_to_string(path)
            .map_err(|error| MachineError::File { path: name.clone(), error })?;
        Self::parse(&name, costs)
    }

    /// The costs at a level, as the text of a file. GRO is only passed where the sender's device has no TSO
    /// (`veth_skb_is_eligible_for_gro` in drivers/net/veth.c), so that elsewhere nothing pays for it; the fit counts likewise.
    pub(super) fn costs_at(&self, level: Level) -> String {
        const GRO: &str = "receive_packet";
        let Ok(mut table) = self.costs.parse::<toml::Table>() else { return self.costs.clone() };
        if level == Level::Gro || table.remove(GRO).is_none() {
            return self.costs.clone();
        }
        if let Some(toml::Value::Array(sources)) = table.get_mut("source") {
            for keys in sources.iter_mut().filter_map(|source| source.get_mut("keys")?.as_array_mut()) {
                keys.retain(|key| key.as_str() != Some(GRO));
            }
            let empty = |source: &toml::Value| {
                source.get("keys").and_then(toml::Value::as_array).is_some_and(Vec::is_empty)
            };
            sources.retain(|source| !empty(source));
        }
        table.to_string()
    }

    /// Parses a file's text. The simulator's reader judges the costs when a scenario takes them.
    pub(super) fn parse(name: &str, costs: String) -> Result<Self, MachineError> {
        let table: toml::Table = costs.parse().map_err(|error: toml::de::Error| MachineError::Invalid {
            path: name.to_owned(),
            reason: error.message().to_owned(),
        })?;
        let fitted = table.get("fitted").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let cells = fitted.get("cells").and_then(toml::Value::as_array).into_iter().flatten();
        let number = |key: &str| {
            let value = fitted.get(key)?;
            value.as_float().or_else(|| Some(value.as_integer()? as f64))
        };
        let null_model = || {
            Some(Figures {
                sender_ns_per_byte: number("sender_ns_per_byte")?,
                receiver_ns_per_byte: number("receiver_ns_per_byte")?,
                bps: number("bps")?,
            })
        };
        Ok(Self {
            name: name.to_owned(),
            fitted_cells: cells.filter_map(toml::Value::as_str).map(str::to_owned).collect(),
            null_model: null_model(),
            costs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_that_pass_gro_pay_for_it() {
        let text = "[receive_packet]\nnetdev = 300\n[poll]\nnetdev = 9\n[[source]]\nkeys = [\"receive_packet\", \"poll\"]\n\
                    assumed = \"a machine invented for tests\"\n";
        let machine = Machine::parse("m.toml", text.to_owned()).expect("a file");
        assert_eq!(machine.costs_at(Level::Gro), text);
        let without = machine.costs_at(Level::NoOpt);
        assert!(!without.contains("receive_packet") && without.contains("poll"), "{without}");
        let kind = weft_sim::scenario::SourcedFile::Costs;
        weft_sim::scenario::sources(&without, "m.toml", kind).expect("every cost has a source");
        let alone = text.replace(", \"poll\"", "").replace("[poll]\nnetdev = 9\n", "");
        let alone = Machine::parse("m.toml", alone).expect("a file").costs_at(Level::Tso);
        weft_sim::scenario::sources(&alone, "m.toml", kind).expect("no cost is left");
    }

    #[test]
    fn a_file_says_what_it_was_fitted_to() {
        let text = "[fitted]\ncells = [\"single 1x noopt\"]\nsender_ns_per_byte = 0.5\nreceiver_ns_per_byte = 1\nbps = 8000\n";
        let machine = Machine::parse("m.toml", text.to_owned()).expect("a file");
        assert_eq!(machine.fitted_cells, ["single 1x noopt"]);
        let null = Figures { sender_ns_per_byte: 0.5, receiver_ns_per_byte: 1.0, bps: 8000.0 };
        assert_eq!(machine.null_model, Some(null));
        let older = Machine::parse("m.toml", String::new()).expect("a file without it");
        assert_eq!((older.fitted_cells.len(), older.null_model), (0, None));
        assert_eq!(machine.costs_at(Level::TsoGro), machine.costs, "nothing to leave out");
        let error = Machine::parse("m.toml", "{".to_owned()).expect_err("no TOML").to_string();
        assert!(error.contains("m.toml") && error.contains("weft profile fit"), "{error}");
    }
}
