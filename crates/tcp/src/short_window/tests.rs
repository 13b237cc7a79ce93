//! What is known of the edge by two bytes.

use super::*;

#[test]
fn the_rest_is_what_was_told_as_far_as_there_can_be_room() {
    const FAR: Pos = 1 << 40;
    let rest = |told: Pos, free| {
        let mut short = ShortWindow::NONE;
        short.tell(FAR + told);
        short.rest(FAR, free)
    };
    assert_eq!(rest(0, u32::MAX), 0);
    assert_eq!(rest(1_000, u32::MAX), 1_000);
    assert_eq!(rest(1_000, 999), 999);
    assert_eq!(rest(ROOM.into(), u32::MAX), ROOM);
    // An edge that is none: of long ago, or from before RCV.NXT.
    assert_eq!(rest(Pos::from(ROOM + UNIT), u32::MAX), 0);
    assert_eq!(rest(-4, u32::MAX), 0);
}
