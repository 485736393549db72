//! Where the log goes: never to the screen while that is ours.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Starts logging; the file, if there is one. Without `RUST_LOG` and `--log` nothing is logged.
pub(crate) fn start(file: Option<&Path>, screen: bool) -> Result<Option<PathBuf>, Failure> {
    let wanted = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
    let path = match (file, &wanted) {
        (Some(file), _) => Some(file.to_owned()),
        (None, Some(_)) if screen => Some(default_file()?),
        (None, _) => None,
    };
    let filter = EnvFilter::builder().parse_lossy(wanted.as_deref().unwrap_or("info"));
    let format = tracing_subscriber::fmt().with_env_filter(filter);
    match &path {
        Some(path) => {
            let file = append(path).map_err(|error| {
                Failure::new(2, format!("cannot write the log {}: {error}", path.display()))
            })?;
            format.with_ansi(false).with_writer(Arc::new(file)).init();
        }
        None if wanted.is_some() => format.with_writer(std::io::stderr).init(),
        None => {}
    }
    Ok(path)
}

fn append(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn default_file() -> Result<PathBuf, Failure> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    state
        .map(|state| state.join("zk-inspect/zk-inspect.log"))
        .ok_or_else(|| Failure::new(2, "RUST_LOG is set, but there is no HOME: say --log FILE"))
}
