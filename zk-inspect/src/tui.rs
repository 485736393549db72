//! The loop of the screen: everything that has happened is taken note of, and then drawn once.

use std::io;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream};
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use crate::args::Global;
use crate::exit::Failure;
use crate::model::Model;
use crate::row::Now;
use crate::source::{self, Feed};
use crate::term::{Outside, Screen, Signals};
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

/// Shows the screen until it is left.
pub(crate) async fn run(global: &Global) -> Result<(), Failure> {
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
    let done = show(&mut screen, &mut signals, &mut model, theme, feed).await;
    // The terminal first: whoever quits wants the prompt.
    drop(screen);
    let _ = tokio::time::timeout(FAREWELL, source).await;
    done
}

async fn show(
    screen: &mut Screen,
    signals: &mut Signals,
    model: &mut Model,
    theme: Theme,
    mut feed: mpsc::Receiver<Feed>,
) -> Result<(), Failure> {
    let mut input = EventStream::new();
    let mut drawn = Instant::now().checked_sub(FRAME).unwrap_or_else(Instant::now);
    let mut feeds = true;
    let size = screen.terminal.size()?;
    update(model, Msg::Resize(size.width, size.height), Now::read());
    loop {
        let now = Now::read();
        model.arrange(now);
        if drawn.elapsed() >= FRAME {
            draw(screen, model, theme, now)?;
            drawn = Instant::now();
        }
        let mut news = wait(&mut input, signals, &mut feed, feeds, model).await;
        // Everything that is there, and then one frame.
        for _ in 0..AT_ONCE {
            let effect = match news {
                News::Outside(Outside::End(signal)) => return Err(Failure::silent(128 + signal)),
                News::Outside(Outside::Panicked) => return Err(Failure::silent(1)),
                News::Outside(Outside::Continued) => {
                    screen.take_again()?;
                    let size = screen.terminal.size()?;
                    update(model, Msg::Resize(size.width, size.height), Now::read())
                }
                // The terminal has gone.
                News::Input(None) => return Err(Failure::silent(1)),
                News::Input(Some(event)) => {
                    message(event?).and_then(|msg| update(model, msg, Now::read()))
                }
                News::Feed(None) => {
                    feeds = false;
                    None
                }
                News::Feed(Some(Feed::Msg(msg))) => update(model, msg, Now::read()),
                News::Feed(Some(Feed::Fatal(failure))) => return Err(failure),
                News::Time => None,
            };
            match effect {
                None => {}
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Fail(error)) => return Err(error.into()),
                Some(Effect::Repaint) => screen.terminal.clear()?,
                Some(Effect::Copy(text)) => match clipboard::sequence(&text) {
                    Some(sequence) => screen.control(&sequence)?,
                    None => model.notify("too long to be copied", Now::read()),
                },
                Some(Effect::Suspend) => {
                    // It reads the keys, which are the shell's now.
                    drop(input);
                    screen.suspend()?;
                    input = EventStream::new();
                    let size = screen.terminal.size()?;
                    update(model, Msg::Resize(size.width, size.height), Now::read());
                }
            }
            news = match input.next().now_or_never() {
                Some(event) => News::Input(event),
                None => match feed.try_recv() {
                    Ok(fed) => News::Feed(Some(fed)),
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
    input: &mut EventStream,
    signals: &mut Signals,
    feed: &mut mpsc::Receiver<Feed>,
    feeds: bool,
    model: &Model,
) -> News {
    let pause = model.next_change(Now::read()).unwrap_or(Duration::from_secs(1));
    tokio::select! {
        biased;
        outside = signals.next() => News::Outside(outside),
        event = input.next() => News::Input(event),
        fed = feed.recv(), if feeds => News::Feed(fed),
        () = tokio::time::sleep(pause.max(Duration::from_millis(5))) => News::Time,
    }
}

fn message(event: Event) -> Option<Msg> {
    match event {
        Event::Key(key) => Some(Msg::Key(key)),
        Event::Paste(text) => Some(Msg::Paste(text)),
        Event::Resize(columns, rows) => Some(Msg::Resize(columns, rows)),
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

/// One frame, in one piece where the terminal can.
fn draw(screen: &mut Screen, model: &Model, theme: Theme, now: Now) -> io::Result<()> {
    queue!(io::stdout(), BeginSynchronizedUpdate)?;
    screen.terminal.draw(|frame| {
        let area = frame.area();
        view::draw(model, theme, now, area, frame.buffer_mut());
    })?;
    queue!(io::stdout(), EndSynchronizedUpdate)?;
    io::Write::flush(&mut io::stdout())
}
