//! Where the paths of `weft reproduce --measured` come from.

use super::path::Path;
use super::settings::RunSettings;

/// Makes a path through the software NIC with [`RunSettings::queues`] queues.
///
/// # Errors
/// This build has no multiqueue NIC.
pub fn open(settings: &RunSettings) -> Result<Box<dyn Path>, String> {
    Err(format!("this build has no NIC with {} queues to measure", settings.queues))
}
