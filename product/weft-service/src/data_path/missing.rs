//! The data path of an uplink that does not run: its interface is not there, or its session has ended. It refuses everything
//! with the reason, so that the other uplinks of the daemon continue.

use super::{DataPath, DataPathError, PolicyPlan, PortSpec, ServiceStatus};
use crate::policy::ServicePolicy;
use weft_facts::status::WorkerState;
use weft_policy::CompiledPolicy;

/// The absence of a data path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The reason, in a line.
    pub reason: String,
}

impl Missing {
    fn error<T>(&self) -> Result<T, DataPathError> {
        Err(DataPathError::Missing(self.reason.clone()))
    }
}

impl DataPath for Missing {
    fn prepare(&mut self, _: &CompiledPolicy) -> Result<PolicyPlan, DataPathError> {
        self.error()
    }

    fn commit(&mut self, _: &ServicePolicy) -> Result<(), DataPathError> {
        self.error()
    }

    fn status(&mut self) -> Result<ServiceStatus, DataPathError> {
        Ok(ServiceStatus { worker: WorkerState::Ended, ..ServiceStatus::default() })
    }

    fn add_port(&mut self, _: &PortSpec) -> Result<Vec<String>, DataPathError> {
        self.error()
    }

    fn close_port(&mut self, _: &str) -> Result<(), DataPathError> {
        Ok(())
    }

    fn is_drained(&self, _: &str) -> bool {
        true
    }

    fn remove_port(&mut self, _: &str) -> Result<(), DataPathError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), DataPathError> {
        Ok(())
    }
}
