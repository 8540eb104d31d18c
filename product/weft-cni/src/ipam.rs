//! Address management, delegated to a plugin such as `host-local`: the same variables and the same configuration.

use crate::environment::Environment;
use crate::error::{CniError, ErrorCode};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use weft_text::quoted;

/// The plugin that manages a network's addresses.
#[derive(Clone, Copy, Debug)]
pub struct Ipam<'a> {
    /// Its name.
    pub kind: &'a str,
    /// The environment of the call.
    pub environment: &'a Environment,
    /// The network configuration, as it came.
    pub config: &'a [u8],
}

/// The error that a delegated plugin printed, or its output.
fn refused(kind: &str, output: &[u8]) -> CniError {
    let error: Value = serde_json::from_slice(output).unwrap_or_default();
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok());
    let said = match text("msg") {
        "" => String::from_utf8_lossy(output.get(..200).unwrap_or(output)).into_owned(),
        message => message.to_owned(),
    };
    let refused = CniError::new(ErrorCode::Failed, format!("{kind}: {said}")).details(text("details"));
    CniError { code: code.filter(|code| *code > 0).unwrap_or(refused.code), ..refused }
}

impl Ipam<'_> {
    fn program(&self) -> Result<PathBuf, CniError> {
        let folders = &self.environment.path;
        folders.iter().map(|folder| folder.join(self.kind)).find(|path| path.is_file()).ok_or_else(|| {
            CniError::new(ErrorCode::InvalidConfig, format!("no plugin {} in CNI_PATH", quoted(self.kind)))
                .details("Debian's package containernetworking-plugins has host-local, static and dhcp")
        })
    }

    /// Runs the plugin with a command that version 1.1.0 added. A plugin of an older version refuses it, which is no
    /// error: it has nothing to collect or to report.
    ///
    /// # Errors
    /// As [`call`](Self::call), but for a refusal of the version or the command.
    pub fn optional(&self, command: &str) -> Result<(), CniError> {
        const OLDER: [u32; 2] = [ErrorCode::IncompatibleVersion as u32, ErrorCode::InvalidEnvironment as u32];
        match self.call(command) {
            Err(error) if OLDER.contains(&error.code) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Runs the plugin with `command`; returns its result, or null if it prints none.
    ///
    /// # Errors
    /// When it is not installed, cannot be run, or refuses the call.
    pub fn call(&self, command: &str) -> Result<Value, CniError> {
        let program = self.program()?;
        let failed = |error: &dyn std::fmt::Display| {
            CniError::new(ErrorCode::Io, format!("cannot run {}", program.display())).details(error)
        };
        let mut child = Command::new(&program)
            .env("CNI_COMMAND", command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(&e))?;
        if let Some(mut input) = child.stdin.take() {
            // A plugin that refuses the call may not read its input; its own error says more than a broken pipe.
            let _ = input.write_all(self.config);
        }
        let output = child.wait_with_output().map_err(|e| failed(&e))?;
        match output.status.success() {
            false => Err(refused(self.kind, &output.stdout)),
            true if output.stdout.trim_ascii().is_empty() => Ok(Value::Null),
            true => serde_json::from_slice(&output.stdout).map_err(|error| {
                CniError::new(ErrorCode::Decoding, format!("the result of {} is not JSON", self.kind))
                    .details(error)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_plugin_is_passed_on() {
        let error =
            refused("host-local", br#"{"code": 11, "msg": "no addresses left", "details": "10.1.0.0/16"}"#);
        assert_eq!(error.code, 11);
        assert_eq!(error.to_string(), "host-local: no addresses left: 10.1.0.0/16");
        assert_eq!(refused("x", b"Segmentation fault").to_string(), "x: Segmentation fault");
        assert_eq!(refused("x", br#"{"code": 0, "msg": "odd"}"#).code, 100);
    }
}
