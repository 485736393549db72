//! Binaries of the other packages, which `cargo test` does not build for these tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The binary beside the directory of this test's own. It is built with these arguments of `cargo build`
/// if it is not there, or older than anything in these directories of the workspace.
pub fn binary(name: &str, build: &[&str], sources: &[&str]) -> PathBuf {
    let this = std::env::current_exe().expect("a path");
    let profile = this.ancestors().nth(2).expect("the directory of the profile");
    let binary = profile.join(name);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if binary.exists() && sources.iter().all(|dir| is_newer(&binary, &workspace.join(dir))) {
        return binary;
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--bin", name]).args(build).current_dir(workspace);
    command.env("CARGO_TARGET_DIR", profile.parent().expect("the target directory"));
    command.args(profile.ends_with("release").then_some("--release"));
    assert!(command.status().expect("cargo runs").success(), "{name} is built");
    binary
}

/// Whether the binary was written after everything in this directory.
fn is_newer(binary: &Path, dir: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).expect("a time");
    dir.read_dir().expect("sources").map(|entry| entry.expect("an entry").path()).all(|path| {
        if path.is_dir() { is_newer(binary, &path) } else { modified(binary) >= modified(&path) }
    })
}
