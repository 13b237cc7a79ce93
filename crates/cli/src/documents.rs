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
    clap_mangen::generate_to(command.clone(), &pages).map_err(system("write the manual"))?;
    for (shell, place) in COMPLETIONS {
        let path = arguments.share.join(place);
        make(path.parent().unwrap_or(Path::new("/")))?;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "longshore", &mut script);
        std::fs::write(&path, script).map_err(system("write the completions"))?;
    }
    Ok(())
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
        let page = read("man/man1/longshore-run.1");
        assert!(
            page.contains("--expose") || page.contains("\\-\\-expose"),
            "{page}"
        );
        assert!(page.contains("Exit status"), "{page}");
        for (_, place) in COMPLETIONS {
            let script = read(place);
            assert!(script.contains("expose"), "{script}");
            assert!(!script.contains("documents"), "hidden commands in {place}");
        }
        let file = share.path().join("man/man1/longshore.1");
        let below_a_file = DocumentsArguments { share: file };
        assert!(write(&below_a_file).is_err());
    }
}
