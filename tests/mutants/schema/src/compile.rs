//! Has the rewritten crate compiled, and takes out what the compiler does not accept.

use crate::point::Span;
use crate::schema::Schema;
use crate::tree::Tree;
use serde_json::Value;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of the crate that has the switch, in the repository.
const SWITCH: &str = "tests/mutants/schema/switch";
/// Each round takes out what the one before had hidden.
const MOST_ROUNDS: usize = 40;

/// A file with tests.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The program.
    pub program: PathBuf,
    /// Where its tests run.
    pub directory: PathBuf,
}

/// Compiles the tests of `packages` with all mutants in the crate `name`, in `target`.
pub fn compile(
    schema: &mut Schema,
    tree: &Tree,
    name: &str,
    packages: &[String],
    target: &Path,
) -> io::Result<Vec<Binary>> {
    let manifest = format!("crates/{name}/Cargo.toml");
    let mut text = tree.read(&manifest)?;
    text.push_str(&format!(
        "\n[dependencies.mutant-switch]\npath = \"../../{SWITCH}\"\n"
    ));
    tree.write(&manifest, &text)?;
    for round in 1..=MOST_ROUNDS {
        schema.write(tree)?;
        // To check is quicker than to build, and finds nearly all.
        let (mut errors, _) = cargo(tree, &["check", "--tests"], packages, target)?;
        if errors.is_empty() {
            let (others, binaries) = cargo(tree, &["test", "--no-run"], packages, target)?;
            if others.is_empty() {
                return Ok(binaries);
            }
            errors = others;
        }
        let dropped = blame(schema, &errors)?;
        println!(
            "  round {round}: {} errors, {dropped} mutants dropped",
            errors.len()
        );
    }
    Err(io::Error::other(format!(
        "after {MOST_ROUNDS} rounds there is still something that does not compile"
    )))
}

/// Drops what is to blame for these errors.
fn blame(schema: &mut Schema, errors: &[Value]) -> io::Result<usize> {
    let mut dropped = 0;
    for error in errors {
        let code = error["code"]["code"].as_str().unwrap_or_default();
        let said = error["message"].as_str().unwrap_or_default();
        if code == "E0015" && called(said).is_some_and(|name| schema.keep_const(&name)) {
            dropped += 1;
        } else if code != "E0015" {
            for (file, span) in places(error) {
                dropped += schema.drop_at(&file, &span);
            }
        }
    }
    if dropped == 0 {
        let said: Vec<&str> = errors
            .iter()
            .take(5)
            .filter_map(|error| error["rendered"].as_str())
            .collect();
        return Err(io::Error::other(format!(
            "this is not for a mutant:\n{}",
            said.join("\n")
        )));
    }
    Ok(dropped)
}

/// The last name of the path in "cannot call non-const associated function `A::<B>::c` in ...".
fn called(said: &str) -> Option<String> {
    let path = said.split('`').nth(1)?;
    let mut depth = 0;
    // Without what is in angle brackets.
    let plain: String = path
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<');
            let is_outside = depth == 0;
            depth -= i32::from(*c == '>');
            is_outside
        })
        .collect();
    let name = plain.rsplit("::").find(|name| !name.is_empty())?;
    Some(name.to_owned())
}

/// Where an error is: its primary places, or where a macro was called there.
fn places(error: &Value) -> Vec<(String, Span)> {
    let spans = error["spans"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let of = |span: &Value| -> Option<(String, Span)> {
        let mut span = span;
        while span["expansion"].is_object() {
            span = &span["expansion"]["span"];
        }
        let at = |key: &str| span[key].as_u64().and_then(|at| usize::try_from(at).ok());
        Some((
            span["file_name"].as_str()?.to_owned(),
            at("byte_start")?..at("byte_end")?,
        ))
    };
    spans
        .iter()
        .filter(|span| span["is_primary"] == true)
        .filter_map(of)
        .collect()
}

/// Runs cargo, and says what it found wrong, and which tests it has built.
fn cargo(
    tree: &Tree,
    words: &[&str],
    packages: &[String],
    target: &Path,
) -> io::Result<(Vec<Value>, Vec<Binary>)> {
    let mut command = Command::new(
        std::env::var_os("CARGO")
            .as_deref()
            .unwrap_or(OsStr::new("cargo")),
    );
    command
        .args(words)
        .arg("--message-format=json")
        .current_dir(&tree.root);
    for package in packages {
        command.args(["-p", package]);
    }
    command
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .env("RUSTFLAGS", "--cap-lints=allow");
    let output = command.stderr(Stdio::piped()).output()?;
    let (mut errors, mut binaries) = (vec![], vec![]);
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        match message["reason"].as_str() {
            Some("compiler-message") if is_error(&message["message"]) => {
                errors.push(message["message"].clone());
            }
            Some("compiler-artifact") if message["profile"]["test"] == true => {
                binaries.extend(binary(&message))
            }
            _ => {}
        }
    }
    if !output.status.success() && errors.is_empty() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    Ok((errors, binaries))
}

/// Whether it is an error of some place: the last one only says how many there were.
fn is_error(message: &Value) -> bool {
    let spans = message["spans"].as_array();
    message["level"] == "error" && spans.is_some_and(|spans| !spans.is_empty())
}

fn binary(message: &Value) -> Option<Binary> {
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Binary {
        program: PathBuf::from(message["executable"].as_str()?),
        directory: manifest.parent()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_in_a_macro_is_where_the_macro_is_called() {
        let outer =
            json!({ "file_name": "src/a.rs", "byte_start": 5, "byte_end": 9, "expansion": null });
        let error = json!({ "spans": [
            { "file_name": "core.rs", "byte_start": 1, "byte_end": 2, "is_primary": true, "expansion": { "span": outer } },
            { "file_name": "src/a.rs", "byte_start": 50, "byte_end": 60, "is_primary": false, "expansion": null },
        ]});
        assert_eq!(places(&error), [("src/a.rs".to_owned(), 5..9)]);
    }

    #[test]
    fn the_function_that_is_to_stay_const_is_named_in_the_error() {
        let of = |said| called(said).unwrap_or_default();
        assert_eq!(
            of("cannot call non-const associated function `Seq::new` in constants"),
            "new"
        );
        assert_eq!(
            of("cannot call non-const function `crate::f::<3>` in statics"),
            "f"
        );
        assert_eq!(
            of("cannot call non-const associated function `List::<a::Place>::new` in statics"),
            "new"
        );
        assert_eq!(of("something else"), "");
    }
}
