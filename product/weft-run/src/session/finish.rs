//! The end of a session, and the departures that it logged.

use super::{Session, SessionError, report};
use weft_nic::departures::DepartureLog;
use weft_nic::nic::Totals;
use weft_report::run::RunReport;
use weft_units::Nanos;

impl Session {
    /// Takes the ports down, sends their packets for at most `grace`, removes everything, and returns the totals.
    ///
    /// # Errors
    /// When the NIC failed before, with the reason.
    pub fn finish(self, grace: Nanos) -> Result<RunReport, SessionError> {
        self.finish_with_log(grace).map(|(report, _)| report)
    }

    /// Finishes the session as [`finish`](Self::finish), and returns the departures that were not taken.
    ///
    /// # Errors
    /// When the NIC failed before, with the reason.
    pub fn finish_with_log(mut self, grace: Nanos) -> Result<(RunReport, DepartureLog), SessionError> {
        let duration = self.started.elapsed();
        let path = self.receive_path().map(report::path);
        let hold = self.hold.take();
        let stopped = self.nic.stop_with_log(grace);
        // Last: until then a crash leaves something that the next process can remove.
        if let Some(hold) = hold {
            hold.end();
        }
        let (totals, log): (Totals, DepartureLog) = stopped?;
        Ok((report::report(&self.names.last, &totals, duration, path), log))
    }

    /// The departures since the last call, but for the last thousands, which come later; none unless
    /// [`Settings::log`](super::Settings::log) is set. The departures that are not taken are kept in memory.
    pub fn take_departures(&self) -> DepartureLog {
        self.nic.take_departures()
    }

    /// The names of the classes by their numbers in departures; a class that is gone has its last one.
    pub fn class_names(&self) -> &[String] {
        &self.names.last
    }
}
