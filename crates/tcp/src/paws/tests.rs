//! The bound for timestamps behind a hole; what it is for is in `input/tests.rs`.

use super::*;

#[test]
fn a_timestamp_may_be_as_old_as_the_bound() {
    for bound in [0, 5, u32::MAX] {
        let mut p = PawsBound::new();
        p.bound = bound;
        assert!(p.admits(bound) && p.admits(bound.wrapping_add(1)));
        assert!(!p.admits(bound.wrapping_sub(1)));
        assert!(p.admits(bound.wrapping_add(i32::MAX as u32)));
        assert!(!p.admits(bound.wrapping_add(1 << 31)));
    }
}

/// It follows TS.Recent a window behind, and at once if nothing was missing for longer.
#[test]
fn the_bound_follows_a_window_behind() {
    let mut p = PawsBound::new();
    p.follow(100, 0, 1_000);
    assert_eq!((p.bound, p.next, p.until), (100, 100, 1_000));
    p.follow(200, 999, 2_000);
    assert_eq!((p.bound, p.next, p.until), (100, 100, 1_000));
    p.follow(300, 1_000, 2_000);
    assert_eq!((p.bound, p.next, p.until), (100, 300, 2_000));
    p.follow(400, 2_500, 3_000);
    assert_eq!((p.bound, p.next, p.until), (300, 400, 3_000));
    // Two windows later it is long ago.
    p.follow(500, 3_501, 4_000);
    assert_eq!((p.bound, p.next, p.until), (500, 500, 4_000));
}
