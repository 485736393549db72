//! How the program ends: an exit code, and a line for stderr where something is wrong.

use std::error::Error;
use std::process::ExitCode;

use lock_recipes::ConnectError;
use lock_recipes::observe::ObserveError;

use crate::connect;

/// Why the program does not end with 0.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What stderr says; nothing if it was said already.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    /// Something that only the exit code tells.
    pub(crate) const fn silent(code: u8) -> Self {
        Self { code, message: None }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// An error with everything that caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match error {
            ConnectError::ConnectString(_) | ConnectError::Setting { .. } => 2,
            _ => 3,
        };
        Self::new(code, chain(&error))
    }
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        match connect::advice(&error) {
            Some(advice) => Self::new(2, advice),
            None => Self::new(3, chain(&error)),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // Whoever read our output has gone: that is how `| head` ends.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::silent(0)
        } else {
            Self::new(1, error.to_string())
        }
    }
}
