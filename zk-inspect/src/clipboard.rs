//! Copying to the clipboard of the terminal, wherever that runs: OSC 52. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What xterm takes, in base64; others take more.
const LONGEST: usize = 74_994;

/// The sequence that asks the terminal to copy `text`; `None` if it is too long. tmux takes it for
/// itself and passes it on if its option `set-clipboard` is `on` or `external`, which is its default.
pub(crate) fn sequence(text: &str) -> Option<String> {
    let encoded = STANDARD.encode(text);
    (encoded.len() <= LONGEST).then(|| format!("\x1b]52;c;{encoded}\x07"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_so_that_nothing_in_it_is_obeyed() {
        assert_eq!(sequence("/locks/a\x07").as_deref(), Some("\x1b]52;c;L2xvY2tzL2EH\x07"));
        assert!(sequence(&"x".repeat(60_000)).is_none());
    }
}
