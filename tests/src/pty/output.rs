//! What a program prints, and what that does to the terminal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::screen::{Frame, Screen, lines};

/// How long an unfinished synchronized update hides what it has drawn. Terminals give up on it as well.
const HOLD: Duration = Duration::from_secs(1);

/// How long nothing is printed before the output of an ended program counts as complete although another
/// process still has the terminal open.
const QUIET: Duration = Duration::from_millis(300);

/// The private mode of synchronized updates.
const SYNCHRONIZED: u16 = 2026;

/// The private modes that the parser knows.
const KNOWN: [u16; 12] = [1, 6, 9, 25, 47, 1000, 1002, 1003, 1005, 1006, 1049, 2004];

/// What has come from the program.
pub(super) struct Output {
    pub(super) parser: vt100::Parser<Effects>,
    pub(super) raw: Vec<u8>,
    /// When each read returned, and where in `raw` it begins.
    pub(super) arrivals: Vec<(Instant, usize)>,
    pub(super) ended: bool,
}

/// What the parser tells beside its screen.
#[derive(Default)]
pub(super) struct Effects {
    /// The base64 of what was to be copied.
    pub(super) copied: Vec<Vec<u8>>,
    modes: BTreeSet<u16>,
    /// The screen before the synchronized update that is going on, and when that began.
    held: Option<(Instant, vt100::Screen)>,
    pub(super) frames: Option<Vec<Frame>>,
    reply: Vec<u8>,
}

impl Output {
    pub(super) fn new(columns: u16, rows: u16) -> Self {
        let parser = vt100::Parser::new_with_callbacks(rows, columns, 0, Effects::default());
        Self { parser, raw: Vec::new(), arrivals: Vec::new(), ended: false }
    }

    /// Draws what was read, and returns what the terminal answers to it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.arrivals.push((Instant::now(), self.raw.len()));
        self.raw.extend_from_slice(bytes);
        self.parser.process(bytes);
        let screen = self.shown().clone();
        let effects = self.parser.callbacks_mut();
        effects.frame(&screen);
        let reply = std::mem::take(&mut effects.reply);
        (!reply.is_empty()).then_some(reply)
    }

    pub(super) fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.screen_mut().set_size(rows, columns);
        if let Some((_, held)) = &mut self.parser.callbacks_mut().held {
            held.set_size(rows, columns);
        }
    }

    pub(super) fn shown(&self) -> &vt100::Screen {
        match &self.parser.callbacks().held {
            Some((since, held)) if since.elapsed() < HOLD && !self.ended => held,
            _ => self.parser.screen(),
        }
    }

    pub(super) fn screen(&self) -> Screen {
        Screen::new(self.shown().clone(), self.parser.callbacks().modes.clone())
    }

    /// Whether nothing more is to come from a program that has ended at this moment.
    pub(super) fn is_complete(&self, exit: Instant) -> bool {
        let last = self.arrivals.last().map_or(exit, |(at, _)| exit.max(*at));
        self.ended || last.elapsed() >= QUIET
    }
}

impl Effects {
    fn frame(&mut self, screen: &vt100::Screen) {
        let Some(frames) = &mut self.frames else { return };
        let lines = lines(screen);
        if frames.last().is_none_or(|last| last.lines != lines) {
            frames.push(Frame { at: Instant::now(), lines });
        }
    }
}

impl vt100::Callbacks for Effects {
    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        self.copied.push(data.to_vec());
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        // The parser has looked at the characters already: this is no base64.
        if let [b"52", .., data] = params {
            self.copied.push(data.to_vec());
        }
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        last: char,
    ) {
        let synchronized = params.iter().any(|param| *param == [SYNCHRONIZED]);
        // The parser calls this once for each parameter it does not know, but with all of them.
        let modes = params.iter().flat_map(|param| param.iter().copied());
        let modes = modes.filter(|mode| !KNOWN.contains(mode));
        match (first, last) {
            (Some(b'?'), 'h') => {
                self.modes.extend(modes);
                let holding = self.held.as_ref().is_some_and(|(since, _)| since.elapsed() < HOLD);
                if synchronized && !holding {
                    self.frame(screen);
                    self.held = Some((Instant::now(), screen.clone()));
                }
            }
            (Some(b'?'), 'l') => {
                modes.for_each(|mode| _ = self.modes.remove(&mode));
                if synchronized && self.held.take().is_some() {
                    self.frame(screen);
                }
            }
            (None, 'n') if params == [[6]] => {
                let (row, column) = screen.cursor_position();
                self.reply.extend(format!("\x1b[{};{}R", row + 1, column + 1).bytes());
            }
            (None, 'c') => self.reply.extend(b"\x1b[?62;22c"),
            _ => {}
        }
    }
}
