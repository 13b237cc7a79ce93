//! PostgreSQL's server, as its own user, with a database in the scenario's directory.

use crate::{Host, Proc, Stack, Testbed, longshore};

/// Where Debian has its programs.
pub const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Where it listens.
pub const PORT: u16 = 5432;

const SHIM: &str = "liblongshore_preload.so";

/// PostgreSQL does not run as root.
fn as_postgres(command: &str) -> String {
    format!("setpriv --reuid postgres --regid postgres --clear-groups -- {PROGRAMS}/{command}")
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
