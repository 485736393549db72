//! What the proxy does to which frame.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::frame::{
    Decoder, Direction, Fate, Frame, Kind, ReplyInfo, RequestInfo, cap_timeout, error_reply,
    forget_session, idle_request, replace_session,
};

/// What to do with a frame that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes no further; the connection lives.
    Drop,
    /// The connection is closed in its place, after everything before it was delivered.
    Cut,
    /// It is held, and with it whatever follows in both directions on all connections, until
    /// [`Proxy::heal`](super::Proxy::heal).
    Blackhole,
    /// The client gets this error code. By a rule for requests, the server never executes the request; by
    /// a rule for replies, it has.
    Error(i32),
}

/// Matches frames by a predicate and acts on some of them by their number.
struct Rule<I> {
    matches: Box<dyn FnMut(&I) -> bool + Send>,
    range: Range<usize>,
    seen: usize,
    action: Action,
}

impl<I> Rule<I> {
    fn check(&mut self, info: &I) -> Option<Action> {
        if !(self.matches)(info) {
            return None;
        }
        let number = self.seen;
        self.seen += 1;
        self.range.contains(&number).then_some(self.action)
    }
}

/// Every rule counts every frame; the first that applies decides.
struct Rules<I>(Vec<Rule<I>>);

impl<I> Rules<I> {
    fn check(&mut self, info: &I) -> Option<Action> {
        self.0.iter_mut().fold(None, |decided, rule| {
            let action = rule.check(info);
            decided.or(action)
        })
    }
}

/// What the writer does before it writes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    Cut,
    Blackhole,
}

/// A frame that is to be written to the other side.
pub(super) struct Outgoing {
    pub(super) before: Before,
    pub(super) body: Vec<u8>,
}

/// Everything about the proxy that can be changed, and the record.
pub(super) struct State {
    pub(super) frames: Vec<Frame>,
    pub(super) delay: Duration,
    pub(super) refuse: bool,
    pub(super) new_session: bool,
    pub(super) reply_session: Option<i64>,
    pub(super) timeout_cap: Option<i32>,
    requests: Rules<RequestInfo>,
    replies: Rules<ReplyInfo>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            frames: Vec::new(),
            delay: Duration::ZERO,
            refuse: false,
            new_session: false,
            reply_session: None,
            timeout_cap: None,
            requests: Rules(Vec::new()),
            replies: Rules(Vec::new()),
        }
    }

    pub(super) fn on_request(
        &mut self,
        matches: impl FnMut(&RequestInfo) -> bool + Send + 'static,
        range: Range<usize>,
        action: Action,
    ) {
        self.requests.0.push(Rule { matches: Box::new(matches), range, seen: 0, action });
    }

    pub(super) fn on_reply(
        &mut self,
        matches: impl FnMut(&ReplyInfo) -> bool + Send + 'static,
        range: Range<usize>,
        action: Action,
    ) {
        self.replies.0.push(Rule { matches: Box::new(matches), range, seen: 0, action });
    }

    pub(super) fn clear_rules(&mut self) {
        self.requests.0.clear();
        self.replies.0.clear();
    }

    /// Records a frame that arrived and decides about it. `Ok(None)`: it is dropped. `Err`: it is no frame.
    pub(super) fn arrived(
        &mut self,
        connection: usize,
        direction: Direction,
        decoder: &mut Decoder,
        mut body: Vec<u8>,
    ) -> Result<Option<Outgoing>, NoFrame> {
        let at = Instant::now();
        let (kind, action, rewritten) = match direction {
            Direction::ToServer => self.client_arrived(decoder, &mut body)?,
            Direction::ToClient => self.server_arrived(decoder, &mut body)?,
        };
        let fate = match action {
            Some(Action::Drop) => Fate::Dropped,
            Some(Action::Cut) => Fate::Cut,
            Some(Action::Error(_)) => Fate::Rewritten,
            Some(Action::Blackhole) | None if rewritten => Fate::Rewritten,
            Some(Action::Blackhole) | None => Fate::Forwarded,
        };
        self.frames.push(Frame { at, connection, direction, fate, kind });
        let before = match action {
            Some(Action::Drop) => return Ok(None),
            Some(Action::Cut) => Before::Cut,
            Some(Action::Blackhole) => Before::Blackhole,
            Some(Action::Error(_)) | None => Before::Nothing,
        };
        Ok(Some(Outgoing { before, body }))
    }

    fn client_arrived(
        &mut self,
        decoder: &mut Decoder,
        body: &mut Vec<u8>,
    ) -> Result<(Kind, Option<Action>, bool), NoFrame> {
        let kind = decoder.client_frame(body).ok_or(NoFrame)?;
        let (mut action, mut rewritten) = (None, false);
        match &kind {
            Kind::Connect { .. } => {
                let forgotten = self.new_session && forget_session(body);
                let capped = self.timeout_cap.is_some_and(|cap| cap_timeout(body, cap));
                rewritten = forgotten || capped;
            }
            Kind::Request(request) => {
                action = if request.is_users() { self.requests.check(request) } else { None };
                match action {
                    Some(Action::Drop | Action::Cut) => {}
                    Some(Action::Error(error)) => {
                        *body = idle_request(request.xid);
                        decoder.expect_reply(request, Some(error));
                    }
                    Some(Action::Blackhole) | None => decoder.expect_reply(request, None),
                }
            }
            _ => {}
        }
        Ok((kind, action, rewritten))
    }

    fn server_arrived(
        &mut self,
        decoder: &mut Decoder,
        body: &mut Vec<u8>,
    ) -> Result<(Kind, Option<Action>, bool), NoFrame> {
        let (kind, replacement) = decoder.server_frame(body).ok_or(NoFrame)?;
        let (mut action, mut rewritten) = (None, false);
        match &kind {
            Kind::Connect { .. } => {
                let session = self.reply_session;
                rewritten = session.is_some_and(|session| replace_session(body, session));
            }
            Kind::Reply(reply) => {
                action = if reply.is_counted() { self.replies.check(reply) } else { None };
                let error = match action {
                    Some(Action::Error(error)) => Some(error),
                    _ => replacement,
                };
                if let Some(error) = error {
                    *body = error_reply(reply.xid, reply.zxid, error);
                    rewritten = true;
                }
            }
            _ => {}
        }
        Ok((kind, action, rewritten))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.requests.0.len() + self.replies.0.len();
        f.debug_struct("State")
            .field("frames", &self.frames.len())
            .field("rules", &rules)
            .finish_non_exhaustive()
    }
}

/// What arrived is not ZooKeeper's protocol.
#[derive(Debug)]
pub(super) struct NoFrame;
