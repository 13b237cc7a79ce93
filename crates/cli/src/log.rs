//! What this program says to the person who runs it: lines on stderr, which is a terminal or a
//! service's log.

use std::io::Write;

/// Says a line. A log that is gone or full is no reason to end.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "longshore: {text}");
}
