//! Configurations for the servers that scenarios run, all their files in the
//! scenario's own directory.

pub mod postgres;

use crate::Testbed;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Debian's Python: another one may stand before it in the PATH.
pub const PYTHON: &str = "/usr/bin/python3";

/// How nginx is to run.
#[derive(Debug, Clone)]
pub struct Nginx<'a> {
    /// Its files have this prefix, so that one scenario can have several.
    pub name: &'a str,
    /// `daemon on`.
    pub daemon: bool,
    /// `worker_processes`.
    pub workers: u32,
    /// Where it listens.
    pub listen: &'a str,
    /// The directory that it serves; the testbed's `www`, if it is not set.
    pub root: Option<&'a Path>,
    /// `worker_connections`.
    pub connections: u32,
    /// Further lines before everything else.
    pub top: &'a str,
    /// Further lines for its `server` block.
    pub server: &'a str,
}

impl Default for Nginx<'_> {
    fn default() -> Self {
        Nginx {
            name: "nginx",
            daemon: false,
            workers: 1,
            listen: "80",
            root: None,
            connections: 1024,
            top: "",
            server: "",
        }
    }
}

impl Nginx<'_> {
    /// Writes the configuration, gives its path.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn config(&self, bed: &Testbed) -> PathBuf {
        let state = bed.directory(&format!("{}-state", self.name));
        let state = state.display();
        let root = self
            .root
            .map_or_else(|| bed.directory("www"), Path::to_path_buf);
        let mut text = format!(
            "user www-data;\n{}\nworker_processes {};\ndaemon {};\npid {};\nerror_log {} info;\n",
            self.top,
            self.workers,
            if self.daemon { "on" } else { "off" },
            self.pid_file(bed).display(),
            bed.path(&format!("logs/{}-error.log", self.name)).display(),
        );
        let _ = writeln!(
            text,
            "events {{ worker_connections {}; }}\nhttp {{\n  access_log off;",
            self.connections
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let _ = writeln!(text, "  {kind}_temp_path {state}/{kind};");
        }
        let _ = writeln!(
            text,
            "  sendfile on;\n  tcp_nopush on;\n  keepalive_requests 1000000;\n  server {{\n    \
             listen {};\n    root {};\n    {}\n  }}\n}}",
            self.listen,
            root.display(),
            self.server
        );
        bed.file(&format!("{}.conf", self.name), text)
    }

    /// Where its master's pid will stand.
    #[must_use]
    pub fn pid_file(&self, bed: &Testbed) -> PathBuf {
        bed.path(&format!("{}.pid", self.name))
    }
}

/// HAProxy in TCP-friendly HTTP mode in front of `backends`, to which it passes bodies on by
/// `splice`.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn haproxy_config(bed: &Testbed, port: u16, backends: &[String]) -> PathBuf {
    let mut text = format!(
        "global\n  maxconn 1000\n  stats socket {} level admin\ndefaults\n  mode http\n  \
         option splice-request\n  option splice-response\n  \
         timeout connect 60s\n  timeout client 120s\n  timeout server 120s\n\
         frontend in\n  bind :{port}\n  default_backend out\nbackend out\n  balance roundrobin\n",
        bed.path("haproxy.sock").display()
    );
    for (i, backend) in backends.iter().enumerate() {
        // Checks come often, but one that takes longer on a busy machine means nothing.
        let _ = writeln!(text, "  server s{i} {backend} check inter 200ms fall 1000");
    }
    bed.file("haproxy.cfg", text)
}

/// An SSH server with keys of its own: gives its configuration and the client's
/// private key.
///
/// # Panics
/// If the files or keys cannot be made.
#[must_use]
pub fn sshd_config(bed: &Testbed, port: u16) -> (PathBuf, PathBuf) {
    let directory = bed.directory("ssh");
    let key = |name: &str| {
        let path = directory.join(name);
        let status = std::process::Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&path)
            .status()
            .expect("ssh-keygen is installed");
        assert!(status.success(), "ssh-keygen failed");
        path
    };
    let (host_key, user_key) = (key("host"), key("user"));
    std::fs::copy(user_key.with_extension("pub"), directory.join("authorized"))
        .expect("copy a key");
    // Its child without privileges lives in this directory, which is part of
    // Debian's service and may be missing where that never ran.
    std::fs::create_dir_all("/run/sshd").expect("make /run/sshd");
    let config = format!(
        "Port {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
         StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         Subsystem sftp /usr/lib/openssh/sftp-server\nUseDNS no\nLogLevel VERBOSE\n",
        host_key.display(),
        directory.join("authorized").display()
    );
    (bed.file("sshd.conf", config), user_key)
}
