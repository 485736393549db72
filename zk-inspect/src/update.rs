//! What happens, and what it does to the model: the only place where the model changes. Pure.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use lock_recipes::observe::{ObserveError, Update};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use crate::filter::Filter;
use crate::keys::{self, Action};
use crate::model::{CALM, Connection, Model, Screen};
use crate::row::{self, Now};
use crate::view;

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Msg {
    Key(KeyEvent),
    Paste(String),
    Resize(u16, u16),
    /// A try to connect has failed; others follow.
    NotConnected(String),
    Connected,
    Observed(Update),
}

/// What is to be done about it.
#[derive(Debug)]
pub(crate) enum Effect {
    Quit,
    Fail(ObserveError),
    Suspend,
    Repaint,
    Copy(String),
}

/// Takes note of what has happened.
pub(crate) fn update(model: &mut Model, msg: Msg, now: Now) -> Option<Effect> {
    match msg {
        Msg::Key(key) => {
            if key.kind == KeyEventKind::Release {
                return None;
            }
            return press(model, key, now);
        }
        Msg::Paste(text) => {
            if let Some(prompt) = &mut model.prompt {
                for c in text.chars().filter(|c| !c.is_control()) {
                    prompt.handle(tui_input::InputRequest::InsertChar(c));
                }
                set_filter(model);
            }
        }
        Msg::Resize(columns, rows) => {
            model.size = (columns, rows);
            model.settle();
        }
        Msg::NotConnected(error) => {
            if let Connection::Connecting { error: last, .. } = &mut model.connection {
                *last = Some(error);
            }
        }
        Msg::Connected => {
            if matches!(model.connection, Connection::Connecting { .. }) {
                model.connection = Connection::Listing;
            }
        }
        Msg::Observed(update) => return observed(model, update, now),
    }
    None
}

fn observed(model: &mut Model, update: Update, now: Now) -> Option<Effect> {
    match update {
        Update::Lock(lock) => {
            model.locks.insert(lock.path.clone(), lock);
            model.unsorted = true;
        }
        Update::Gone(path) => {
            model.locks.remove(&path);
            model.unsorted = true;
        }
        Update::Listing(progress) => model.progress = Some(progress),
        Update::Listed(listed) => {
            model.connection = Connection::Live;
            model.progress = None;
            model.denied = listed.denied;
            model.missing = listed.missing;
            model.by = listed.by;
            if let Some(gap) = listed.gap {
                model.gaps += 1;
                model.last_gap = Some(gap);
            }
            model.unsorted = true;
        }
        Update::Disconnected => {
            model.connection = match &model.connection {
                Connection::Live => Connection::Stale { since: now },
                Connection::Listing if !model.locks.is_empty() => Connection::Stale { since: now },
                Connection::Listing => {
                    let error = Some("the connection was lost while listing".to_owned());
                    Connection::Connecting { since: now, error }
                }
                other => other.clone(),
            };
        }
        Update::Failed(error) => return Some(Effect::Fail(error)),
        _ => {}
    }
    None
}

fn press(model: &mut Model, key: KeyEvent, now: Now) -> Option<Effect> {
    model.notice = None;
    // What was filtered or sorted just now is what this key is about, drawn or not.
    let types = model.prompt.is_some() && !matches!(key.code, KeyCode::Up | KeyCode::Down);
    if model.unsorted && model.calm_until.is_none() && !types {
        model.arrange(now);
    }
    if model.prompt.is_some() {
        return type_filter(model, key);
    }
    let action = keys::action(key)?;
    if model.help.is_some() {
        return help(model, action);
    }
    // What one has just looked at stays where it is.
    model.calm_until = Some(now.at + CALM);
    match action {
        Action::Quit => return Some(Effect::Quit),
        Action::Suspend => return Some(Effect::Suspend),
        Action::Repaint => return Some(Effect::Repaint),
        Action::Help => model.help = Some(0),
        Action::Freeze => freeze(model, now),
        Action::Open => open(model),
        Action::Back => back(model),
        Action::Filter => {
            model.screen = Screen::Locks;
            model.prompt = Some(Input::new(model.filter_text.clone()));
        }
        Action::Sort => {
            model.sort.column = model.sort.column.next();
            model.sort.reversed = false;
            sorted(model);
        }
        Action::Reverse => {
            model.sort.reversed = !model.sort.reversed;
            sorted(model);
        }
        Action::CopyPath => return copy_path(model, now),
        Action::CopyToken => return copy_token(model, now),
        Action::Up => step(model, -1),
        Action::Down => step(model, 1),
        Action::PageUp => step(model, -page(model)),
        Action::PageDown => step(model, page(model)),
        Action::HalfUp => step(model, -(page(model) / 2).max(1)),
        Action::HalfDown => step(model, (page(model) / 2).max(1)),
        Action::Top => step(model, isize::MIN / 2),
        Action::Bottom => step(model, isize::MAX / 2),
    }
    None
}

fn help(model: &mut Model, action: Action) -> Option<Effect> {
    let top = model.help.unwrap_or(0);
    model.help = match action {
        Action::Quit | Action::Back | Action::Help | Action::Open => None,
        Action::Suspend => return Some(Effect::Suspend),
        Action::Repaint => return Some(Effect::Repaint),
        Action::Down => Some(top + 1),
        Action::Up => Some(top.saturating_sub(1)),
        Action::PageDown | Action::HalfDown => Some(top + 8),
        Action::PageUp | Action::HalfUp => Some(top.saturating_sub(8)),
        Action::Top => Some(0),
        Action::Bottom => Some(usize::MAX),
        _ => Some(top),
    };
    // Not further than its end.
    model.help = model.help.map(|top| top.min(view::help_scroll(model)));
    None
}

fn freeze(model: &mut Model, now: Now) {
    model.frozen = match model.frozen {
        Some(_) => None,
        None => Some((model.locks.clone(), model.shown_at(now))),
    };
    model.unsorted = true;
}

fn open(model: &mut Model) {
    if model.screen == Screen::Locks
        && let Some(path) = model.current().map(|lock| lock.path.clone())
    {
        model.screen = Screen::Queue(path);
        model.list.chosen = true;
        model.queue = crate::model::Cursor::default();
        model.settle();
    }
}

fn back(model: &mut Model) {
    if model.screen == Screen::Locks {
        model.filter_text.clear();
        model.filter = Filter::default();
        sorted(model);
    } else {
        model.screen = Screen::Locks;
    }
}

/// The order was asked for: it comes at once.
fn sorted(model: &mut Model) {
    model.unsorted = true;
    model.calm_until = None;
}

fn type_filter(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (key.code, control) {
        (KeyCode::Enter, _) => model.prompt = None,
        (KeyCode::Esc, _) => {
            model.prompt = None;
            back(model);
        }
        (KeyCode::Char('c'), true) => return Some(Effect::Quit),
        (KeyCode::Char('z'), true) => return Some(Effect::Suspend),
        (KeyCode::Char('l'), true) => return Some(Effect::Repaint),
        (KeyCode::Up, _) => step(model, -1),
        (KeyCode::Down, _) => step(model, 1),
        _ => {
            if let Some(prompt) = &mut model.prompt {
                prompt.handle_event(&Event::Key(key));
            }
            set_filter(model);
        }
    }
    None
}

fn set_filter(model: &mut Model) {
    if let Some(prompt) = &model.prompt {
        prompt.value().clone_into(&mut model.filter_text);
        model.filter = Filter::parse(&model.filter_text);
        sorted(model);
    }
}

fn page(model: &Model) -> isize {
    isize::try_from(view::list_height(model)).unwrap_or(1).max(1)
}

/// Moves the selection, as far as there are lines.
fn step(model: &mut Model, by: isize) {
    let move_to =
        |index: usize, len: usize| index.saturating_add_signed(by).min(len.saturating_sub(1));
    if model.screen == Screen::Locks {
        let index = move_to(model.list.index, model.order.len());
        (model.list.index, model.list.chosen) = (index, true);
        model.list.selected = model.order.get(index).cloned();
    } else {
        let index = move_to(model.queue.index, model.contenders());
        (model.queue.index, model.queue.chosen) = (index, true);
        let lock = model.current().cloned();
        let contender = lock.as_ref().and_then(|lock| lock.contenders().nth(index));
        model.queue.selected = contender.map(|contender| contender.node.clone());
    }
    model.settle();
}

fn copy_path(model: &mut Model, now: Now) -> Option<Effect> {
    let lock = model.current()?.clone();
    let path = match (&model.screen, &model.queue.selected) {
        (Screen::Queue(_), Some(node)) => row::node_path(&lock, node),
        _ => lock.path.clone(),
    };
    model.notify("path copied, if the terminal allows it (OSC 52)", now);
    Some(Effect::Copy(path))
}

fn copy_token(model: &mut Model, now: Now) -> Option<Effect> {
    let lock = model.current()?.clone();
    let token = match &model.screen {
        Screen::Locks => row::token(&lock),
        Screen::Queue(_) => {
            let selected = model.queue.selected.as_deref();
            let contender = lock.contenders().find(|one| Some(&*one.node) == selected);
            contender.and_then(row::contender_token)
        }
    };
    let Some(token) = token else {
        model.notify("no token there", now);
        return None;
    };
    model.notify(format!("token {token} copied, if the terminal allows it (OSC 52)"), now);
    Some(Effect::Copy(token.to_string()))
}
