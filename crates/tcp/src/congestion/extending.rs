//! The example of docs/extending.md, compiled and tried.

use super::{Ack, Algorithm, Kind, Window};

/// The state of Scalable TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalable {
    /// Bytes acknowledged that the window has not grown for.
    counted: u32,
}

impl Kind for Scalable {
    const NAME: &'static str = "scalable";

    fn new() -> Scalable {
        Scalable { counted: 0 }
    }
}

impl Algorithm for Scalable {
    fn on_ack(&mut self, w: &mut Window, ack: &Ack) {
        self.counted += ack.acked;
        w.grow(self.counted / 100);
        self.counted %= 100;
    }

    fn on_loss(&mut self, _w: &Window, window: u32) -> u32 {
        window - window / 8
    }
}

// The example ends here.

use super::list::Congestion;
use crate::time::Instant;

#[test]
fn the_document_has_this_example() {
    let document = include_str!("../../../../docs/extending.md");
    let (_, here) = include_str!("extending.rs").split_once("\n\n").unwrap();
    let (example, _) = here.split_once("\n// The example ends here.").unwrap();
    let shown = format!("```rust,ignore\n{example}```");
    assert!(document.contains(&shown), "docs/extending.md has another");
}

#[test]
fn the_example_is_scalable() {
    let ack = |acked| Ack {
        acked,
        una: 0,
        nxt: 0,
        rtt: 0,
        srtt: 1_000,
        now: Instant(0),
    };
    let mut w = Window {
        cwnd: 100_000,
        ssthresh: 50_000,
        mss: 1_000,
    };
    let mut scalable = Scalable::new();
    scalable.on_ack(&mut w, &ack(1_050));
    assert_eq!(w.cwnd, 100_010);
    scalable.on_ack(&mut w, &ack(50));
    assert_eq!(w.cwnd, 100_011);
    assert_eq!(scalable.on_loss(&w, 80_000), 70_000);
    assert_eq!(Scalable::NAME, "scalable");
    assert!(
        Congestion::by_name(Scalable::NAME).is_none(),
        "it is an example"
    );
}
