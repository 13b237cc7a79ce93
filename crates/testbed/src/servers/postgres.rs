//! PostgreSQL's server, as its own user, with a database in the scenario's directory.

use crate::{Host, Proc, Stack, Testbed, longshore};
use std::path::Path;

/// Where Debian has each version, below the number of it.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Where it listens.
pub const PORT: u16 = 5432;

const SHIM: &str = "liblongshore_preload.so";

/// The directory of its programs: each release of Debian has another version, and the newest that
/// is there serves.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn programs() -> String {
    newest(Path::new(VERSIONS)).unwrap_or_else(|| {
        panic!("there is no PostgreSQL below {VERSIONS}: Debian has it in the package postgresql")
    })
}

/// The directory of the newest version below `versions` that has a server.
fn newest(versions: &Path) -> Option<String> {
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let programs = |number| versions.join(format!("{number}/bin"));
    std::fs::read_dir(versions)
        .ok()?
        .flatten()
        .filter_map(number)
        .filter(|number| programs(*number).join("postgres").is_file())
        .max()
        .map(|number| programs(number).display().to_string())
}

/// PostgreSQL does not run as root.
fn as_postgres(command: &str) -> String {
    let programs = programs();
    format!("setpriv --reuid postgres --regid postgres --clear-groups -- {programs}/{command}")
}

/// Makes an empty database; its server lets everybody in.
///
/// # Panics
/// If it cannot be made.
pub fn make_database(bed: &Testbed) {
    let data = bed.directory("postgres");
    let data = data.display();
    let init = as_postgres(&format!("initdb --no-sync -A trust -D {data}"));
    let prepare = format!(
        "chown postgres {data} && {init} >/dev/null && \
         echo 'host all all all trust' >> {data}/pg_hba.conf"
    );
    bed.peer().cmd("sh").arg("-c").arg(prepare).check();
}

/// Starts the database's server on `host`.
///
/// # Panics
/// If it cannot be started.
#[must_use]
pub fn start(bed: &Testbed, host: &Host<'_>) -> Proc {
    let serve = as_postgres(&format!(
        "postgres -D {} -c listen_addresses=* -c unix_socket_directories= -c fsync=off",
        bed.path("postgres").display()
    ));
    let command = host.sh(&format!("exec {serve}"));
    if bed.stack() == Stack::Kernel {
        return command.spawn();
    }
    // Its user may not look into the directory in which the product was built.
    let shim = bed.directory("bin").join(SHIM);
    std::fs::copy(longshore().with_file_name(SHIM), &shim).expect("copy the shim");
    command.env("LONGSHORE_PRELOAD", shim).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_with_a_server_is_found() {
        let directory = tempfile::tempdir().expect("make a directory");
        let versions = directory.path();
        assert_eq!(newest(&versions.join("nowhere")), None);
        assert_eq!(newest(versions), None);
        // What brings clients alone has a directory, too.
        for (version, program) in [("9", "postgres"), ("15", "postgres"), ("17", "psql")] {
            let programs = versions.join(version).join("bin");
            std::fs::create_dir_all(&programs).expect("make a directory");
            std::fs::write(programs.join(program), "").expect("write a file");
        }
        std::fs::create_dir(versions.join("common")).expect("make a directory");
        let expected = versions.join("15/bin").display().to_string();
        assert_eq!(newest(versions), Some(expected));
    }
}
