//! What is written compiles, is on the lines where it was, and each mutant does what its name
//! says: by the compiler, and by running what it has made.

use super::*;
use crate::find::find;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints what its functions make of some arguments, with the line of a panic.
const SAMPLE: &str = r#"
#[derive(Clone, Copy, PartialEq)]
struct Place { at: u32 }

impl Place {
    fn moved(mut self, by: u32) -> Option<u32> {
        self.at += by
            * 2;
        self.note("moved");
        (self.at != 7).then_some(self.at)
    }
    fn note(&self, what: &str) {
        print!("[{what}]");
        print!("[{}]", self.at);
    }
    const fn half(at: u32) -> u32 {
        at / 2
    }
    const fn third(at: u32) -> u32 {
        at / 3
    }
}

const THIRD: u32 = Place::third(9);

fn kind(of: u32, odd: bool) -> &'static str {
    match of {
        0 => "none",
        n if n < 3 && !odd => "few",
        _ => "many",
    }
}

fn chained(of: Option<u32>, most: u32) -> bool {
    if let Some(n) = of && n <= most && n > 0 { true } else { of.is_none() || most == 9 }
}

fn main() {
    print!("{:?} {:?}", Place { at: 1 }.moved(2), Place { at: 5 }.moved(1));
    print!(" {} {}", Place::half(8), THIRD);
    for (of, odd) in [(0, false), (1, false), (1, true), (3, false)] {
        print!(" {}", kind(of, odd));
    }
    for (of, most) in [(Some(2), 2), (Some(3), 2), (Some(0), 2), (None, 2), (Some(10), 9)] {
        print!(" {}", chained(of, most));
    }
    println!(" {}", line!());
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_left_alone() {
        assert!(1 + 1 == 2);
    }
}
"#;

const UNCHANGED: &str =
    "[moved][5][moved][7]Some(5) None 4 3 none few many many true false false true true 47";

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn rustc(words: &[&str], directory: &Path) {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--cap-lints=allow"])
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn each_mutant_does_what_its_name_says_and_there_is_none_without_its_switch() {
    let directory =
        Directory(std::env::temp_dir().join(format!("longshore-rendered-{}", std::process::id())));
    fs::create_dir_all(&directory.0).unwrap();
    let found = find(SAMPLE, 0, &BTreeSet::new()).unwrap();
    let what = |id: usize| found.mutants[id].what.as_str();
    // `third` is called by the compiler, as its caller finds out.
    let stays = |function: usize| found.functions[function].0 == "third";
    let rendered = render(
        SAMPLE,
        &found.points,
        &|id| !what(id as usize).contains("Place::third"),
        &stays,
    );
    assert_eq!(rendered.text.lines().count(), SAMPLE.lines().count());
    fs::write(directory.0.join("sample.rs"), &rendered.text).unwrap();
    let switch = concat!(env!("CARGO_MANIFEST_DIR"), "/switch/src/lib.rs");
    rustc(
        &["--crate-type=rlib", "--crate-name=mutant_switch", switch],
        &directory.0,
    );
    rustc(
        &["--extern=mutant_switch=libmutant_switch.rlib", "sample.rs"],
        &directory.0,
    );
    let run = |mutant: Option<usize>| {
        let mut command = Command::new(directory.0.join("sample"));
        if let Some(id) = mutant {
            command.env("LONGSHORE_MUTANT", id.to_string());
        }
        String::from_utf8(command.output().unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(run(None), UNCHANGED);
    for (name, begins) in [
        (
            "replace Place::moved -> Option<u32> with None",
            "None None 4",
        ),
        ("replace += with -= in Place::moved", ""),
        (
            "replace * with + in Place::moved",
            "[moved][5][moved][8]Some(5) Some(8) 4",
        ),
        ("delete call of note in Place::moved", "Some(5) None 4"),
        (
            "replace != with == in Place::moved",
            "[moved][5][moved][7]None Some(7) 4",
        ),
        (
            "replace / with * in Place::half",
            "[moved][5][moved][7]Some(5) None 16 3",
        ),
        (
            "delete match arm 0 in kind",
            "[moved][5][moved][7]Some(5) None 4 3 few few many many",
        ),
        (
            "delete match arm n in kind",
            "[moved][5][moved][7]Some(5) None 4 3 none many many many",
        ),
        (
            "replace match guard n < 3 && !odd with true in kind",
            "[moved][5][moved][7]Some(5) None 4 3 none few few few",
        ),
        (
            "replace && with || in kind",
            "[moved][5][moved][7]Some(5) None 4 3 none few few few",
        ),
        (
            "delete ! in kind",
            "[moved][5][moved][7]Some(5) None 4 3 none many few many",
        ),
        (
            "replace > with >= in chained",
            "[moved][5][moved][7]Some(5) None 4 3 none few many many true false true true true 47",
        ),
        (
            "replace || with && in chained",
            "[moved][5][moved][7]Some(5) None 4 3 none few many many true false false false false 47",
        ),
    ] {
        let id = (0..found.mutants.len())
            .find(|id| what(*id) == name)
            .unwrap_or_else(|| panic!("{name} is not there"));
        let said = run(Some(id));
        assert!(
            said.starts_with(begins) && said != UNCHANGED,
            "{name}: {said}"
        );
    }
    // Nothing of the tests.
    assert!(
        !found
            .mutants
            .iter()
            .any(|mutant| mutant.what.contains("is_left_alone"))
    );
    reaches_are_written_down(
        &directory.0,
        &found
            .mutants
            .iter()
            .map(|mutant| mutant.what.as_str())
            .collect::<Vec<_>>(),
    );
}

fn reaches_are_written_down(directory: &Path, names: &[&str]) {
    let file = directory.join("reached");
    fs::write(&file, vec![0; names.len()]).unwrap();
    let status = Command::new(directory.join("sample"))
        .env("LONGSHORE_MUTANTS_REACHED", &file)
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    for (name, reached) in names.iter().zip(fs::read(&file).unwrap()) {
        assert_eq!(reached == 1, !name.contains("Place::third"), "{name}");
    }
}

#[test]
fn an_error_is_blamed_on_the_mutant_whose_words_it_touches_or_on_its_place() {
    let source = "fn f(a: u32, b: u32) -> u32 { g(a + b); a - b }";
    let found = find(source, 0, &BTreeSet::new()).unwrap();
    let rendered = render(source, &found.points, &|_| true, &|_| false);
    let at = |words: &str| {
        let start = rendered.text.find(words).unwrap();
        start..start + words.len()
    };
    let blamed = |words: &str| -> Vec<&str> {
        rendered
            .blamed(&at(words))
            .into_iter()
            .map(|id| found.mutants[id as usize].what.as_str())
            .collect()
    };
    assert_eq!(blamed("l * r"), ["replace + with * in f"]);
    assert_eq!(blamed("return 1"), ["replace f -> u32 with 1"]);
    assert_eq!(
        blamed("l + r"),
        ["replace + with - in f", "replace + with * in f"]
    );
    assert_eq!(rendered.blamed(&at("u32 {")), [] as [Id; 0]);
}
