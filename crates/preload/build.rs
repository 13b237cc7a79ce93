//! How the shim is linked: its calls of its own functions are its own, and it has the unwinder
//! that is an archive, where the compiler has one.
//!
//! A program may have functions of libc's names itself (Erlang has a `sigaction`), from which it
//! goes on to the next one, which is the shim's: that is not to come back to the program's.
//!
//! The shared unwinder, `libgcc_s`, is a library more to find, map and relocate in every program
//! that is started, and when it is loaded it asks the processor for its features with CPUID.
//! In a virtual machine each such question goes to the hypervisor, which takes longer than
//! all the rest of loading the shim.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler's archive of its unwinder, if there is one.
fn archive() -> Option<PathBuf> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let said = Command::new(compiler)
        .arg("-print-file-name=libgcc_eh.a")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim_end());
    // A compiler that has none repeats the name.
    path.is_absolute().then_some(path).filter(|p| p.exists())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    let target = std::env::var("TARGET").unwrap_or_default();
    let native = std::env::var("HOST").is_ok_and(|host| host == target);
    let Some(archive) = archive().filter(|_| native && target.ends_with("-linux-gnu")) else {
        return;
    };
    // What the linker finds under the shared one's name, before that: a script that names
    // the archive.
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let script = format!("INPUT(\"{}\")\n", archive.display());
    if std::fs::write(Path::new(&out).join("libgcc_s.so"), script).is_ok() {
        println!("cargo::rustc-link-search=native={out}");
    }
}
