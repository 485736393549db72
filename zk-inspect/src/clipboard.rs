//! Copying to the clipboard of the terminal, wherever that runs: OSC 52. Pure.
//!
//! What is copied will be pasted into a shell: copy what was cleaned, or what cannot have line ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The longest text, in bytes: with it the sequence has the 100,000 bytes that terminals commonly
/// take (99,992 of base64, and 8 around them).
const LONGEST: usize = 74_994;

/// A text that terminals would throw away instead of copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too long to be copied: {bytes} bytes, terminals take {LONGEST}")]
pub(crate) struct TooLong {
    bytes: usize,
}

/// The sequence that asks the terminal to copy `text`. Nobody answers: whether it does is unknown.
///
/// tmux obeys only if `set-clipboard` is `on`, and passes on what is wrapped for the terminal outside
/// only if `allow-passthrough` is (always before 3.3). By default both are not, and nothing helps;
/// which one the user has set cannot be asked, so inside tmux (`$TMUX` is set) it is sent both ways.
/// What one way was good for already does no harm again.
pub(crate) fn copy_sequence(text: &str, in_tmux: bool) -> Result<String, TooLong> {
    if text.len() > LONGEST {
        return Err(TooLong { bytes: text.len() });
    }
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    if !in_tmux {
        return Ok(plain);
    }
    let doubled = plain.replace('\x1b', "\x1b\x1b");
    Ok(format!("{plain}\x1bPtmux;{doubled}\x1b\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_so_that_nothing_in_it_is_obeyed() {
        let copied = copy_sequence("/locks/a\x07", false).unwrap();
        assert_eq!(copied, "\x1b]52;c;L2xvY2tzL2EH\x07");
        assert_eq!(copy_sequence("", false).unwrap(), "\x1b]52;c;\x07");
    }

    #[test]
    fn tmux_gets_it_both_ways() {
        assert_eq!(
            copy_sequence("a", true).unwrap(),
            "\x1b]52;c;YQ==\x07\x1bPtmux;\x1b\x1b]52;c;YQ==\x07\x1b\\"
        );
    }

    #[test]
    fn what_terminals_would_throw_away_is_an_error() {
        let longest = "x".repeat(LONGEST);
        assert_eq!(copy_sequence(&longest, false).unwrap().len(), 100_000);
        assert_eq!(copy_sequence(&(longest + "x"), true), Err(TooLong { bytes: LONGEST + 1 }));
    }
}
