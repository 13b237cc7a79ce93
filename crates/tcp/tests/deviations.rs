//! Each script that says that Linux differs names the deviation in `docs/rfc.md` that has
//! the reason, and each of those is there.

use std::fs;
use std::path::Path;

#[test]
fn deviations_from_linux_have_a_number_and_a_reason() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(here.join("../../docs/rfc.md")).unwrap();
    let mut seen = 0;
    let mut folders = vec![here.join("tests/states")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|l| l.starts_with("linux: differs")) {
                let number = line
                    .rsplit_once(" (")
                    .and_then(|(_, n)| n.strip_suffix(')'));
                let number = number.unwrap_or_else(|| panic!("{path:?} names no deviation"));
                let entry = format!("- **{number}** ");
                assert!(
                    document.contains(&entry),
                    "{path:?}: no {number} in docs/rfc.md"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} were found");
}
