//! `longshore __documents`: manual pages and shell completions, made from the definition
//! of the command line, so that they say what `--help` says.
//!
//! `scripts/install.sh` calls it; users do not, so `--help` does not name it.

use crate::args::{Arguments, DocumentsArguments};
use crate::errors::{Error, system};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::path::Path;

/// Where below the directory for shared files each shell looks for completions.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/longshore"),
    (Shell::Zsh, "zsh/site-functions/_longshore"),
    (Shell::Fish, "fish/vendor_completions.d/longshore.fish"),
];

/// Writes all of them below `arguments.share`, the directory that is `/usr/local/share`
/// or its like; fails if something cannot be written.
pub(crate) fn write(arguments: &DocumentsArguments) -> Result<(), Error> {
    let command = visible();
    let pages = arguments.share.join("man/man1");
    make(&pages)?;
    let mut built = without_help(command.clone());
    built.build();
    for one in with_subcommands(&built) {
        let name = one.get_display_name().unwrap_or(one.get_name());
        let page = pages.join(format!("{name}.1"));
        let text = manual(one).map_err(system("write the manual"))?;
        std::fs::write(page, text).map_err(system("write the manual"))?;
    }
    for (shell, place) in COMPLETIONS {
        let path = arguments.share.join(place);
        make(path.parent().unwrap_or(Path::new("/")))?;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "longshore", &mut script);
        std::fs::write(&path, script).map_err(system("write the completions"))?;
    }
    Ok(())
}

/// A command and all below it.
fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|c| c.get_name() != "help");
    std::iter::once(command)
        .chain(below.flat_map(with_subcommands))
        .collect()
}

/// The command without `help`, which has no page.
fn without_help(command: Command) -> Command {
    command
        .disable_help_subcommand(true)
        .mut_subcommands(without_help)
}

/// What all pages say of files.
const FILES: &str = "\
/etc/longshore/engine.toml
    the configuration of the service longshore.service
/run/longshore/engine.sock
    where programs find a shared engine, unless its configuration says otherwise
/run/longshore/PID, $XDG_RUNTIME_DIR/longshore/PID, /tmp/longshore-UID/PID
    of each engine: where its programs join it, and where stat and ss ask it
../lib/longshore/liblongshore_preload.so, from the program's directory
    what goes into programs; LONGSHORE_PRELOAD names another";

/// A page: what clap makes of the command, with a section for each part of the text that
/// follows its options in `--help`.
fn manual(command: &Command) -> std::io::Result<Vec<u8>> {
    // What `-h` leaves out has no description otherwise.
    let whole = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let man = clap_mangen::Man::new(whole);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    for (heading, body) in sections(&text) {
        section(&mut page, &heading, &body);
    }
    section(&mut page, "Files", FILES);
    let own = command.get_display_name().unwrap_or_default();
    let others = [
        "longshore",
        "longshore-run",
        "longshore-engine",
        "longshore-stat",
        "longshore-ss",
        "longshore-measure",
        "longshore-measure-bus",
        "longshore-measure-predict",
        "longshore-measure-host",
        "longshore-measure-path",
        "longshore-measure-sweep",
        "longshore-measure-latency",
        "longshore-measure-cpu",
        "longshore-measure-characterize",
        "longshore-measure-immediate",
        "longshore-measure-port",
        "longshore-measure-all",
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|other| **other != own)
        .map(|other| format!("{other}(1)"))
        .collect();
    section(&mut page, "See also", &others.join(", "));
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// The parts of a text: headings begin a line and end with a colon; what stands before the
/// first is notes.
fn sections(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|h| !h.starts_with(' '));
        match heading {
            Some(heading) => all.push((heading.to_owned(), String::new())),
            None => {
                if all.is_empty() || !(line.is_empty() || line.starts_with(' ')) {
                    let inline = line.split_once(": ").filter(|(h, _)| !h.contains(' '));
                    let (heading, rest) = inline.unwrap_or(("Notes", line));
                    match all.last_mut().filter(|_| inline.is_none()) {
                        Some((last, body)) if last == "Notes" || !body.ends_with("\n\n") => {
                            body.push_str(rest);
                            body.push('\n');
                        }
                        _ => all.push((heading.to_owned(), format!("{rest}\n"))),
                    }
                } else if let Some((_, body)) = all.last_mut() {
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
    }
    all
}

/// Writes a section: its lines as they stand, or, of prose, paragraphs that are filled.
fn section(page: &mut Vec<u8>, heading: &str, body: &str) {
    let heading = heading.to_uppercase();
    let is_prose = is_prose(&heading, body);
    let escaped = body.trim_end().replace('\\', "\\\\").replace('-', "\\-");
    let mut text = format!(".SH {heading}\n");
    if !is_prose {
        text.push_str(".nf\n");
    }
    for line in escaped.lines() {
        let line = if is_prose { line.trim_start() } else { line };
        // A dot or a quote at its beginning would make it a request.
        if line.starts_with(['.', '\'']) {
            text.push_str("\\&");
        }
        text.push_str(line);
        text.push('\n');
    }
    if !is_prose {
        text.push_str(".fi\n");
    }
    page.extend_from_slice(text.as_bytes());
}

/// Whether a section has sentences alone, and no commands, files or columns.
fn is_prose(heading: &str, body: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = body.lines().filter(|line| !line.is_empty());
    !matches!(heading, "EXAMPLES" | "FILES") && lines.all(|line| indent(line) <= 2)
}

fn make(directory: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(directory).map_err(system("make a directory for documents"))
}

/// The command line without what is not for users.
fn visible() -> Command {
    let all = Arguments::command();
    let shown = all.get_subcommands().filter(|one| !one.is_hide_set());
    let mut command = Command::new("longshore").subcommands(shown.cloned());
    if let Some(about) = all.get_about() {
        command = command.about(about.clone());
    }
    if let Some(text) = all.get_after_help() {
        command = command.after_help(text.clone());
    }
    command.version(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_page_and_each_shell_its_completions() {
        let share = tempfile::tempdir().unwrap();
        let arguments = DocumentsArguments {
            share: share.path().to_owned(),
        };
        write(&arguments).unwrap();
        let read = |place: &str| std::fs::read_to_string(share.path().join(place)).unwrap();
        for command in ["run", "engine", "stat", "ss"] {
            let page = read(&format!("man/man1/longshore-{command}.1"));
            assert!(page.contains(".SH OPTIONS"), "{page}");
            assert!(read("man/man1/longshore.1").contains(&format!("longshore\\-{command}")));
        }
        for (command, sections) in [
            ("longshore", &["EXAMPLES"][..]),
            (
                "longshore-run",
                &["EXAMPLES", "ENVIRONMENT", "EXIT STATUS", "SIGNALS"],
            ),
            ("longshore-engine", &["EXAMPLES", "SIGNALS", "EXIT STATUS"]),
            ("longshore-stat", &["EXIT STATUS"]),
            ("longshore-ss", &["EXIT STATUS"]),
            ("longshore-measure", &["SUBCOMMANDS"]),
            (
                "longshore-measure-bus",
                &["EXAMPLES", "BUSES", "EXIT STATUS"],
            ),
            ("longshore-measure-predict", &["EXAMPLES", "EXIT STATUS"]),
            ("longshore-measure-host", &["EXIT STATUS"]),
            ("longshore-measure-path", &["EXIT STATUS"]),
            ("longshore-measure-sweep", &["EXIT STATUS"]),
            ("longshore-measure-latency", &["EXIT STATUS"]),
            ("longshore-measure-all", &["EXIT STATUS"]),
        ] {
            let page = read(&format!("man/man1/{command}.1"));
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "FILES", "SEE ALSO"]
                .iter()
                .chain(sections)
            {
                let one = page
                    .lines()
                    .filter(|l| l.replace('"', "") == format!(".SH {section}"));
                assert_eq!(one.count(), 1, "{section} of {command}: {page}");
            }
        }
        let page = read("man/man1/longshore-run.1");
        assert!(
            page.contains("--expose") || page.contains("\\-\\-expose"),
            "{page}"
        );
        assert!(page.contains("Spoil packets"), "hidden from -h: {page}");
        for file in std::fs::read_dir(share.path().join("man/man1")).unwrap() {
            let page = std::fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(
                !page.contains("help(1)") && !page.contains("help (1)"),
                "{page}"
            );
            assert!(!page.contains("help\\fR(1)"), "{page}");
            // As they stand, so as wide as a terminal at most.
            let as_they_stand = page.split("\n.nf\n").skip(1);
            let as_they_stand = as_they_stand.filter_map(|part| part.split("\n.fi").next());
            for line in as_they_stand.flat_map(str::lines) {
                assert!(line.replace("\\-", "-").len() <= 100, "{line}");
            }
        }
        for (_, place) in COMPLETIONS {
            let script = read(place);
            assert!(script.contains("expose"), "{script}");
            assert!(!script.contains("documents"), "hidden commands in {place}");
        }
        let file = share.path().join("man/man1/longshore.1");
        let below_a_file = DocumentsArguments { share: file };
        assert!(write(&below_a_file).is_err());
    }

    #[test]
    fn each_option_is_described() {
        let mut all = Arguments::command();
        all.build();
        for command in all.get_subcommands().filter(|c| !c.is_hide_set()) {
            for option in command.get_arguments().filter(|o| !o.is_hide_set()) {
                let help = option.get_help().map(ToString::to_string);
                assert!(help.is_some_and(|h| h.len() > 8), "{option} of {command}");
            }
        }
    }

    #[test]
    fn parts_of_a_text_are_told_apart() {
        let text = "Examples:\n  a\n      b: c\n\nWhich goes where: sockets that\nare bound.\n\nSignals: INT, TERM.\nMore of it.\n";
        let all = sections(text);
        let plain: Vec<(&str, &str)> = all.iter().map(|(h, b)| (&**h, b.trim_end())).collect();
        let expected = [
            ("Examples", "  a\n      b: c"),
            ("Notes", "Which goes where: sockets that\nare bound."),
            ("Signals", "INT, TERM.\nMore of it."),
        ];
        assert_eq!(plain, expected);
    }
}
