//! Whether this process may make the TAP devices over which most experiments run.
//!
//! An experiment that has nothing to show without one asks with [`needed`]; one that has counts
//! beside leaves out what needs it (`of_tap`).

use crate::experiment::{ExperimentError, Outcome};
use longshore_ports::tap::{DRIVER, open_driver};

/// Makes sure that there can be one.
///
/// # Errors
/// [`ExperimentError::Tap`] if there can be none.
pub fn needed() -> Result<(), ExperimentError> {
    open_driver()
        .map(drop)
        .map_err(|error| ExperimentError::Tap {
            driver: DRIVER,
            source: error.into(),
        })
}

/// Adds to `outcome` what `measure` finds, which needs a TAP device; without one it is `part`
/// that is left out.
pub(super) fn of_tap(
    outcome: &mut Outcome,
    part: &str,
    measure: impl FnOnce(&mut Outcome) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    match needed() {
        Ok(()) => measure(outcome),
        Err(none) => {
            outcome.leave_part_out(part, &none);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said_and_makes_an_outcome_partial() {
        let mut outcome = Outcome::new("path", "none", true);
        outcome.leave_parts_out([]);
        assert!(!outcome.partial);
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let driver = DRIVER;
        outcome.leave_part_out("real traffic", &ExperimentError::Tap { driver, source });
        assert!(outcome.partial);
        let said = "real traffic: it runs over a TAP device, and /dev/net/tun cannot be opened: \
                    permission denied";
        assert_eq!(outcome.left_out, [said]);
    }
}
