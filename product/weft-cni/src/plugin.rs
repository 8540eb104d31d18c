//! A call of the plugin, from variables and configuration to its output.

use crate::chain;
use crate::config::{PluginConfig, PluginRole, version_of};
use crate::daemon::{Connected, DaemonCallError, DaemonState};
use crate::environment::{Environment, Verb};
use crate::error::{CniError, ErrorCode};
use crate::port::Call;
use crate::version::Version;
use serde_json::{Value, json};
use std::path::Path;

/// The output of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluginOutcome {
    /// The call succeeded; the text goes to standard output.
    Done(String),
    /// The call failed; the text, an error object, goes to standard output, and the exit code is 1.
    Failed(String),
}

/// A call with its configuration, before anything is done.
#[derive(Clone, PartialEq, Debug)]
pub enum PluginRequest {
    /// VERSION, which has no configuration.
    Version,
    /// Any other operation.
    Operation(Environment, Box<PluginConfig>),
}

impl PluginRequest {
    /// Reads variables by `get`, and the configuration.
    ///
    /// # Errors
    /// When one of them is invalid.
    pub fn read(get: &dyn Fn(&str) -> Option<String>, text: &[u8]) -> Result<Self, CniError> {
        let environment = Environment::read(get)?;
        if environment.verb == Verb::Version {
            return Ok(Self::Version);
        }
        let config = PluginConfig::read(text)?;
        let since = match environment.verb {
            Verb::Status | Verb::Gc => Version::V1_1_0,
            Verb::Check(_) => Version::V0_4_0,
            _ => Version::V0_3_1,
        };
        if config.version < since {
            let text = format!("this operation is of version {}", since.text());
            return Err(CniError::new(ErrorCode::IncompatibleVersion, text)
                .details(format!("the configuration's cniVersion is {}", config.version.text())));
        }
        Ok(Self::Operation(environment, Box::new(config)))
    }
}

/// The answer to VERSION.
fn versions() -> Value {
    json!({ "cniVersion": Version::default().text(), "supportedVersions": Version::ALL.map(Version::text) })
}

/// Whether ADD requests can be served. Ports live in the daemon, so without it containers have no connectivity either.
fn status(call: &Call<'_>, daemon: Connected) -> Result<(), CniError> {
    let error = |code, details: &dyn std::fmt::Display| {
        CniError::new(code, "the daemon of weftline cannot serve containers").details(details)
    };
    let state = daemon.and_then(|mut daemon| daemon.state());
    match state {
        Ok(DaemonState::Ready) => call.status(),
        Ok(DaemonState::Ended) => {
            Err(error(ErrorCode::NotAvailableLimited, &"its transmit worker has ended"))
        }
        Err(busy @ DaemonCallError::Busy(_)) => Err(error(ErrorCode::NotAvailable, &busy)),
        Err(other) => Err(error(ErrorCode::NotAvailableLimited, &other)),
    }
}

fn perform(call: &Call<'_>, connect: &mut dyn FnMut(&Path) -> Connected) -> Result<Option<Value>, CniError> {
    let config = call.config;
    let daemon = |connect: &mut dyn FnMut(&Path) -> Connected| {
        connect(&config.socket).map_err(|e| e.during("reach the daemon of weftline"))
    };
    match (&call.environment.verb, config.role) {
        (Verb::Version, _) => Ok(Some(versions())),
        (Verb::Status, _) => status(call, connect(&config.socket)).map(|()| None),
        (Verb::Add(target), PluginRole::Chained) => chain::add(config, target).map(Some),
        (Verb::Check(target), PluginRole::Chained) => chain::check(config, target).map(|()| None),
        (Verb::Del(_) | Verb::Gc, PluginRole::Chained) => Ok(None),
        (Verb::Add(target), PluginRole::Port) => call.add(target, &mut *daemon(connect)?).map(Some),
        (Verb::Check(target), PluginRole::Port) => call.check(target, &mut *daemon(connect)?).map(|()| None),
        (Verb::Gc, PluginRole::Port) => call.gc(&mut *daemon(connect)?).map(|()| None),
        (Verb::Del(attachment), PluginRole::Port) => {
            call.del(attachment, connect(&config.socket)).map(|()| None)
        }
    }
}

/// Performs a call. `get` reads a variable, `connect` connects to the daemon.
pub fn run(
    get: &dyn Fn(&str) -> Option<String>,
    text: &[u8],
    connect: &mut dyn FnMut(&Path) -> Connected,
) -> PluginOutcome {
    let done = PluginRequest::read(get, text).and_then(|request| match request {
        PluginRequest::Version => Ok(Some(versions())),
        PluginRequest::Operation(environment, config) => {
            perform(&Call { config: &config, environment: &environment, text }, connect)
        }
    });
    match done {
        Ok(result) => PluginOutcome::Done(result.map(|value| value.to_string()).unwrap_or_default()),
        Err(error) => PluginOutcome::Failed(error.to_json(version_of(text).text())),
    }
}
