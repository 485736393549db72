//! The loop of the screen: everything that has happened is taken note of, and then drawn once.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::Event;
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use tokio::sync::mpsc;

use crate::args::{Global, PanicIn};
use crate::exit::Failure;
use crate::input::Input;
use crate::model::Model;
use crate::row::Now;
use crate::source::{self, Feed};
use crate::term::{self, Outside, Screen, Signals};
use crate::theme::Theme;
use crate::update::{Effect, Msg, update};
use crate::{clipboard, connect, list, view};

/// Between two frames: 60 in a second are enough for anybody.
const FRAME: Duration = Duration::from_millis(16);

/// How much is taken note of before the next frame.
const AT_ONCE: usize = 4_096;

/// How long closing the session may hold up the end.
const FAREWELL: Duration = Duration::from_millis(500);

/// What has happened.
enum News {
    Outside(Outside),
    Input(Option<io::Result<Event>>),
    Feed(Option<Feed>),
    Time,
}

/// Shows the screen until it is left, or for so long.
pub(crate) async fn run(global: &Global, length: Option<Duration>) -> Result<(), Failure> {
    let log = crate::log::start(global.log.as_deref(), true)?;
    let charset = list::charset(global);
    let now = Now::read();
    let mut model = Model::new(global.connect.clone(), connect::roots(global), charset, now);
    model.log = log.map(|path| path.display().to_string());
    let theme = Theme::choose(global.no_color, std::env::var_os("NO_COLOR").as_deref());

    let mut signals = Signals::new()?;
    let mut screen = Screen::enter()?;
    let (sender, feed) = mpsc::channel(AT_ONCE);
    let source = tokio::spawn(source::run(global.clone(), sender));
    if let Some(place) = global.panic_in {
        panic_soon(place);
    }
    let done = tokio::select! {
        done = show(&mut screen, &mut signals, &mut model, theme, feed) => done,
        () = tokio::time::sleep(length.unwrap_or(Duration::MAX)) => Ok(()),
    };
    // The terminal first: whoever quits wants the prompt.
    drop(screen);
    let _ = tokio::time::timeout(FAREWELL, source).await;
    done
}

static PANIC_IN_DRAW: AtomicBool = AtomicBool::new(false);

/// For trying what a panic does to the terminal.
fn panic_soon(place: PanicIn) {
    let wait = Duration::from_secs(2);
    match place {
        PanicIn::Thread => {
            std::thread::spawn(move || {
                std::thread::sleep(wait);
                give_up();
            });
        }
        PanicIn::Draw | PanicIn::Task => {
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                if place == PanicIn::Task {
                    give_up();
                }
                PANIC_IN_DRAW.store(true, Ordering::Relaxed);
            });
        }
    }
}

#[expect(clippy::panic, reason = "that is what was asked for")]
fn give_up() {
    panic!("asked for by --panic-in");
}

async fn show(
    screen: &mut Screen,
    signals: &mut Signals,
    model: &mut Model,
    theme: Theme,
    mut feed: mpsc::Receiver<Feed>,
) -> Result<(), Failure> {
    // None while the terminal is the shell's.
    let mut input = Some(Input::start()?);
    let mut drawn = Instant::now().checked_sub(FRAME).unwrap_or_else(Instant::now);
    let size = screen.terminal.size()?;
    update(model, Msg::Resize(size.width, size.height), Now::read());
    loop {
        if input.is_none() {
            // The shell may have brought us to the foreground, of which nobody tells.
            screen.take_again()?;
            if term::is_entered() {
                input = Some(Input::start()?);
                let size = screen.terminal.size()?;
                update(model, Msg::Resize(size.width, size.height), Now::read());
            }
        }
        let now = Now::read();
        model.arrange(now);
        if drawn.elapsed() >= FRAME {
            draw(screen, model, theme, now)?;
            drawn = Instant::now();
        }
        let mut news = wait(&mut input, signals, &mut feed, model).await;
        // Everything that is there, and then one frame.
        for _ in 0..AT_ONCE {
            let effect = match news {
                News::Outside(Outside::End(signal)) => return Err(Failure::silent(128 + signal)),
                News::Outside(happened @ (Outside::Continued | Outside::Resized)) => {
                    if happened == Outside::Continued && input.is_some() {
                        screen.take_again()?;
                        input = input.filter(|_| term::is_entered());
                    }
                    let size = screen.terminal.size()?;
                    update(model, Msg::Resize(size.width, size.height), Now::read())
                }
                // It was reported, or there is no terminal to report it to.
                News::Outside(Outside::Panicked) | News::Input(None) => {
                    return Err(Failure::silent(1));
                }
                News::Input(Some(event)) => {
                    message(event?).and_then(|msg| update(model, msg, Now::read()))
                }
                News::Feed(None) => {
                    return Err(Failure::new(1, "the observation has ended; start again"));
                }
                News::Feed(Some(Feed::Msg(msg))) => update(model, msg, Now::read()),
                News::Feed(Some(Feed::Fatal(failure))) => return Err(failure),
                News::Time => None,
            };
            match effect {
                None => {}
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Fail(error)) => return Err(error.into()),
                Some(Effect::Repaint) => screen.repaint()?,
                Some(Effect::Copy(text)) => {
                    let in_tmux = std::env::var_os("TMUX").is_some_and(|tmux| !tmux.is_empty());
                    match clipboard::copy_sequence(&text, in_tmux) {
                        Ok(sequence) => screen.control(&sequence)?,
                        Err(error) => model.notify(error.to_string(), Now::read()),
                    }
                }
                Some(Effect::Suspend) => {
                    // It reads the keys, which are the shell's now.
                    drop(input.take());
                    screen.suspend()?;
                    if term::is_entered() {
                        input = Some(Input::start()?);
                    }
                    let size = screen.terminal.size()?;
                    update(model, Msg::Resize(size.width, size.height), Now::read());
                }
            }
            news = match input.as_mut().map(Input::try_next) {
                Some(Ok(event)) => News::Input(Some(event)),
                Some(Err(_)) | None => match feed.try_recv() {
                    Ok(told) => News::Feed(Some(told)),
                    Err(_) => break,
                },
            };
        }
        // Not more frames than can be seen, however much happens.
        let wait = FRAME.saturating_sub(drawn.elapsed());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

async fn wait(
    input: &mut Option<Input>,
    signals: &mut Signals,
    feed: &mut mpsc::Receiver<Feed>,
    model: &Model,
) -> News {
    let pause = model.next_change(Now::read()).unwrap_or(Duration::from_secs(1));
    tokio::select! {
        biased;
        outside = signals.next() => News::Outside(outside),
        event = typed(input) => News::Input(event),
        told = feed.recv() => News::Feed(told),
        () = tokio::time::sleep(pause.max(Duration::from_millis(5))) => News::Time,
    }
}

async fn typed(input: &mut Option<Input>) -> Option<io::Result<Event>> {
    match input {
        Some(input) => input.next().await,
        None => std::future::pending().await,
    }
}

fn message(event: Event) -> Option<Msg> {
    match event {
        Event::Key(key) => Some(Msg::Key(key)),
        Event::Paste(text) => Some(Msg::Paste(text)),
        // The signal has told it already.
        Event::Resize(..) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

/// One frame, in one piece where the terminal can.
fn draw(screen: &mut Screen, model: &Model, theme: Theme, now: Now) -> io::Result<()> {
    // In one piece for other threads too: the one that panics gives the terminal back.
    let _alone = io::stdout().lock();
    if !term::is_entered() {
        return Ok(());
    }
    queue!(io::stdout(), BeginSynchronizedUpdate)?;
    screen.terminal.draw(|frame| {
        let area = frame.area();
        if PANIC_IN_DRAW.load(Ordering::Relaxed) {
            give_up();
        }
        view::draw(model, theme, now, area, frame.buffer_mut());
    })?;
    queue!(io::stdout(), EndSynchronizedUpdate)?;
    io::Write::flush(&mut io::stdout())
}
