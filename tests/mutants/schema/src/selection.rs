//! What is not to be changed (`.cargo/mutants.toml`), and which mutants were asked for.

use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeSet;

/// What is left out.
pub struct Excluded {
    files: Vec<Regex>,
    names: Vec<Regex>,
    /// Functions of which a call is not to be deleted.
    pub calls: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    exclude_globs: Vec<String>,
    exclude_re: Vec<String>,
    skip_calls: Vec<String>,
}

impl Excluded {
    /// Reads the file's text.
    pub fn read(text: &str) -> Result<Self, String> {
        let words: Words = toml::from_str(text).map_err(|error| error.to_string())?;
        let all = |of: &[String]| -> Result<Vec<Regex>, String> {
            of.iter()
                .map(|word| Regex::new(word).map_err(|error| format!("{word}: {error}")))
                .collect()
        };
        Ok(Self {
            files: words.exclude_globs.iter().map(|word| glob(word)).collect(),
            names: all(&words.exclude_re)?,
            calls: words.skip_calls.into_iter().collect(),
        })
    }

    /// Whether the mutant of this name, in this file, is left out.
    pub fn excludes(&self, file: &str, name: &str) -> bool {
        self.files.iter().any(|of| of.is_match(file))
            || self.names.iter().any(|of| of.is_match(name))
    }
}

/// A pattern of file names: `**` is any, `*` any but `/`.
pub fn glob(pattern: &str) -> Regex {
    let mut text = String::from("^");
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let (word, len) = match first {
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            other => (regex_lite::escape(&other.to_string()), other.len_utf8()),
        };
        text.push_str(&word);
        rest = &rest[len..];
    }
    text.push('$');
    Regex::new(&text).expect("a pattern of escaped characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_files_keep_to_directories_unless_they_say_otherwise() {
        assert!(glob("crates/*/src/bench.rs").is_match("crates/stack/src/bench.rs"));
        assert!(!glob("crates/*/src/bench.rs").is_match("crates/stack/src/a/bench.rs"));
        assert!(glob("crates/tcp/src/recovery/**").is_match("crates/tcp/src/recovery/a/b.rs"));
        assert!(!glob("crates/stack/src/a.rs").is_match("crates/stack/src/a_rs"));
    }

    #[test]
    fn what_is_left_out_goes_by_file_and_by_name() {
        let text = r#"
            exclude_globs = ["crates/*/src/bench.rs"]
            exclude_re = ["impl (fmt::)?Debug for"]
            skip_calls = ["log"]
        "#;
        let excluded = Excluded::read(text).unwrap();
        assert!(excluded.excludes("crates/tcp/src/bench.rs", "anything"));
        assert!(excluded.excludes("a.rs", "a.rs: replace <impl fmt::Debug for A>::fmt with x"));
        assert!(!excluded.excludes("a.rs", "a.rs: replace f with ()"));
        assert!(excluded.calls.contains("log"));
        assert!(Excluded::read("exclude_globs = []\nexclude_re = ['(']\nskip_calls = []").is_err());
    }
}
