//! ZooKeeper's frames, as far as the proxy must understand them. Pure.

use std::collections::VecDeque;
use std::time::Instant;

/// The xid of watch events.
const XID_EVENT: i32 = -1;
/// The xid of pings and their replies.
const XID_PING: i32 = -2;
/// The xid by which a client sets its watches again after a reconnect.
const XID_SET_WATCHES: i32 = -8;

macro_rules! op_codes {
    ($($name:ident = $code:literal,)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OpCode {
            $(
                #[doc = concat!("Operation ", stringify!($code), ".")]
                $name,
            )*
            /// An operation this harness does not know.
            Other(i32),
        }

        impl OpCode {
            /// The operation with this code.
            pub fn from_code(code: i32) -> Self {
                match code {
                    $($code => Self::$name,)*
                    _ => Self::Other(code),
                }
            }

            /// The operation's code on the wire.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Other(code) => code,
                }
            }
        }
    };
}

op_codes! {
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    GetChildren = 8,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    Reconfig = 16,
    CheckWatches = 17,
    RemoveWatches = 18,
    CreateContainer = 19,
    DeleteContainer = 20,
    CreateTtl = 21,
    MultiRead = 22,
    Auth = 100,
    SetWatches = 101,
    Sasl = 102,
    GetEphemerals = 103,
    GetAllChildrenNumber = 104,
    SetWatches2 = 105,
    AddWatch = 106,
    WhoAmI = 107,
    CreateSession = -10,
    CloseSession = -11,
}

impl OpCode {
    /// Whether the operation creates one node, and so answers with a path.
    pub fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::Create2 | Self::CreateContainer | Self::CreateTtl)
    }

    /// Whether the request's body starts with a path.
    fn has_path(self) -> bool {
        !matches!(
            self,
            Self::Ping
                | Self::Multi
                | Self::MultiRead
                | Self::Reconfig
                | Self::Auth
                | Self::Sasl
                | Self::SetWatches
                | Self::SetWatches2
                | Self::WhoAmI
                | Self::CreateSession
                | Self::CloseSession
                | Self::Other(_)
        )
    }
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// What became of a frame when it arrived. A forwarded one may still be held up by a delay or a blackhole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it came.
    Forwarded,
    /// It goes on changed.
    Rewritten,
    /// It went no further.
    Dropped,
    /// The connection was closed in its place.
    Cut,
}

/// One frame that came to the proxy.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When it arrived at the proxy.
    pub at: Instant,
    /// Which connection it came on, counted from 0.
    pub connection: usize,
    /// Which way it goes.
    pub direction: Direction,
    /// What became of it.
    pub fate: Fate,
    /// What it says, as it came.
    pub kind: Kind,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first frame each way: a session is asked for, or granted.
    Connect {
        /// The session: 0 in the request for a new one, and in the reply to one that is over.
        session: i64,
        /// The session timeout asked for or granted, in milliseconds.
        timeout: i32,
    },
    /// A request.
    Request(RequestInfo),
    /// The reply to a request.
    Reply(ReplyInfo),
    /// A watch fired.
    Event {
        /// What happened.
        event: EventKind,
        /// To which node.
        path: String,
    },
    /// A ping or its reply.
    Ping,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// Its connection, counted from 0.
    pub connection: usize,
    /// Its number in the session's connection.
    pub xid: i32,
    /// What it asks for.
    pub opcode: OpCode,
    /// The path it is about, where it has one; of a multi, the first operation's.
    pub path: Option<String>,
    /// The operations of a multi.
    pub ops: Vec<(OpCode, Option<String>)>,
}

impl RequestInfo {
    /// Whether it is something the user of the client asked for: no ping, no restored watches, no close.
    pub fn is_users(&self) -> bool {
        self.xid != XID_SET_WATCHES && self.opcode != OpCode::CloseSession
    }
}

/// A reply, with what it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyInfo {
    /// Its connection, counted from 0.
    pub connection: usize,
    /// The number of the request it answers.
    pub xid: i32,
    /// What was asked for.
    pub opcode: OpCode,
    /// The path of the request.
    pub path: Option<String>,
    /// The server's last transaction.
    pub zxid: i64,
    /// 0, or ZooKeeper's error code.
    pub error: i32,
    /// The path of the node that a create made.
    pub created: Option<String>,
}

/// What a watch event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The node's data changed.
    DataChanged,
    /// The node has other children than before.
    ChildrenChanged,
    /// Something this harness does not know.
    Other(i32),
}

impl EventKind {
    fn from_code(code: i32) -> Self {
        match code {
            1 => Self::Created,
            2 => Self::Deleted,
            3 => Self::DataChanged,
            4 => Self::ChildrenChanged,
            _ => Self::Other(code),
        }
    }
}

/// A request on its way.
#[derive(Debug)]
struct Pending {
    xid: i32,
    opcode: OpCode,
    path: Option<String>,
    /// The error that its reply will be replaced by.
    error: Option<i32>,
}

/// Reads the frames of one connection, both ways. A frame is given without its length.
#[derive(Debug)]
pub(super) struct Decoder {
    connection: usize,
    client_connected: bool,
    server_connected: bool,
    pending: VecDeque<Pending>,
}

impl Decoder {
    pub(super) fn new(connection: usize) -> Self {
        Self {
            connection,
            client_connected: false,
            server_connected: false,
            pending: VecDeque::new(),
        }
    }

    /// A frame from the client; `None` if it is none.
    pub(super) fn client_frame(&mut self, frame: &[u8]) -> Option<Kind> {
        let mut body = Body(frame);
        if !self.client_connected {
            self.client_connected = true;
            let (_protocol, _zxid) = (body.int()?, body.long()?);
            let (timeout, session) = (body.int()?, body.long()?);
            return Some(Kind::Connect { session, timeout });
        }
        let (xid, opcode) = (body.int()?, OpCode::from_code(body.int()?));
        if xid == XID_PING {
            return Some(Kind::Ping);
        }
        let ops = match opcode {
            OpCode::Multi | OpCode::MultiRead => body.operations(),
            _ => Vec::new(),
        };
        let path = match ops.first() {
            Some((_, path)) => path.clone(),
            None if opcode.has_path() => body.string(),
            None => None,
        };
        Some(Kind::Request(RequestInfo { connection: self.connection, xid, opcode, path, ops }))
    }

    /// The request goes to the server: a reply will come. If `error`, [`Self::take_error`] will yield it then.
    pub(super) fn expect_reply(&mut self, request: &RequestInfo, error: Option<i32>) {
        let RequestInfo { xid, opcode, path, .. } = request.clone();
        self.pending.push_back(Pending { xid, opcode, path, error });
    }

    /// A frame from the server, and the error that shall replace it; `None` if it is no frame.
    pub(super) fn server_frame(&mut self, frame: &[u8]) -> Option<(Kind, Option<i32>)> {
        let mut body = Body(frame);
        if !self.server_connected {
            self.server_connected = true;
            let (_protocol, timeout, session) = (body.int()?, body.int()?, body.long()?);
            return Some((Kind::Connect { session, timeout }, None));
        }
        let (xid, zxid, error) = (body.int()?, body.long()?, body.int()?);
        match xid {
            XID_PING => return Some((Kind::Ping, None)),
            XID_EVENT => {
                let (event, _state) = (EventKind::from_code(body.int()?), body.int()?);
                return Some((Kind::Event { event, path: body.string()? }, None));
            }
            _ => {}
        }
        let place = self.pending.iter().position(|pending| pending.xid == xid);
        let request = place.and_then(|place| self.pending.remove(place));
        let (opcode, path, replacement) = match request {
            Some(request) => (request.opcode, request.path, request.error),
            None => (OpCode::Other(0), None, None),
        };
        let created = if opcode.is_create() && error == 0 { body.string() } else { None };
        let connection = self.connection;
        let reply = ReplyInfo { connection, xid, opcode, path, zxid, error, created };
        Some((Kind::Reply(reply), replacement))
    }
}

impl ReplyInfo {
    /// Whether it answers a request of the session, not one by which the client restores its watches.
    pub(super) fn is_counted(&self) -> bool {
        self.xid != XID_SET_WATCHES
    }
}

/// Asks, in a connect request, for a new session instead of the old one. Says whether there was an old one.
pub(super) fn forget_session(connect: &mut [u8]) -> bool {
    // protocol 4, last zxid 8, timeout 4, session 8, password 4 + n
    let Some(session) = connect.get_mut(16..24) else { return false };
    if session.iter().all(|byte| *byte == 0) {
        return false;
    }
    session.fill(0);
    let length = connect.get(24..28).and_then(|length| length.try_into().ok());
    let length =
        length.map_or(0, |length| usize::try_from(i32::from_be_bytes(length)).unwrap_or(0));
    if let Some(password) = connect.get_mut(28..28 + length) {
        password.fill(0);
    }
    true
}

/// Asks, in a connect request, for at most this timeout. Says whether that was a change.
pub(super) fn cap_timeout(connect: &mut [u8], cap: i32) -> bool {
    let Some(timeout) = connect.get_mut(12..16) else { return false };
    let asked = i32::from_be_bytes([timeout[0], timeout[1], timeout[2], timeout[3]]);
    timeout.copy_from_slice(&asked.min(cap).to_be_bytes());
    asked > cap
}

/// Puts another session into a connect reply.
pub(super) fn replace_session(connect: &mut [u8], session: i64) -> bool {
    // protocol 4, timeout 4, session 8
    let Some(place) = connect.get_mut(8..16) else { return false };
    place.copy_from_slice(&session.to_be_bytes());
    true
}

/// A reply that says only this error.
pub(super) fn error_reply(xid: i32, zxid: i64, error: i32) -> Vec<u8> {
    [&xid.to_be_bytes()[..], &zxid.to_be_bytes(), &error.to_be_bytes()].concat()
}

/// A request that changes nothing: does `/` exist?
pub(super) fn idle_request(xid: i32) -> Vec<u8> {
    let code = OpCode::Exists.code();
    [&xid.to_be_bytes()[..], &code.to_be_bytes(), &1_i32.to_be_bytes(), b"/", &[0]].concat()
}

/// What is left of a frame.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    fn int(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A buffer; -1 as its length stands for none.
    fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    fn string(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.buffer()?).into_owned())
    }

    /// The operations of a multi, up to the first that cannot be read.
    fn operations(&mut self) -> Vec<(OpCode, Option<String>)> {
        let mut operations = Vec::new();
        while let (Some(code), Some(done), Some(_)) = (self.int(), self.take(1), self.int()) {
            if done != [0] {
                break;
            }
            let opcode = OpCode::from_code(code);
            let path = self.string();
            let known = path.is_some() && self.skip_rest(opcode).is_some();
            operations.push((opcode, path));
            if !known {
                break;
            }
        }
        operations
    }

    /// Skips what follows the path of an operation in a multi.
    fn skip_rest(&mut self, opcode: OpCode) -> Option<()> {
        match opcode {
            OpCode::Delete | OpCode::Check => _ = self.int()?,
            OpCode::SetData => _ = (self.buffer()?, self.int()?),
            OpCode::GetData | OpCode::GetChildren => _ = self.take(1)?,
            opcode if opcode.is_create() => {
                self.buffer()?;
                for _ in 0..self.int()? {
                    let _perms_scheme_id = (self.int()?, self.buffer()?, self.buffer()?);
                }
                self.int()?;
                if opcode == OpCode::CreateTtl {
                    self.long()?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Vec<u8> {
        [&i32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
    }

    fn ints(ints: &[i32]) -> Vec<u8> {
        ints.iter().flat_map(|int| int.to_be_bytes()).collect()
    }

    fn connect_request(session: i64) -> Vec<u8> {
        let head = [&ints(&[0])[..], &5_i64.to_be_bytes(), &ints(&[6_000])].concat();
        [&head[..], &session.to_be_bytes(), &ints(&[16]), &[7; 16], &[0]].concat()
    }

    fn connected() -> Decoder {
        let mut decoder = Decoder::new(3);
        let asked = decoder.client_frame(&connect_request(9)).unwrap();
        assert_eq!(asked, Kind::Connect { session: 9, timeout: 6_000 });
        let reply = [&ints(&[0, 4_000])[..], &9_i64.to_be_bytes(), &ints(&[16]), &[7; 16]].concat();
        let granted = decoder.server_frame(&reply).unwrap().0;
        assert_eq!(granted, Kind::Connect { session: 9, timeout: 4_000 });
        decoder
    }

    fn request(decoder: &mut Decoder, frame: &[u8]) -> RequestInfo {
        match decoder.client_frame(frame) {
            Some(Kind::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_knows_its_request() {
        let mut decoder = connected();
        let frame = [ints(&[1, 15]), string("/a/n-"), ints(&[0, 0, 3])].concat();
        let create = request(&mut decoder, &frame);
        assert_eq!((create.xid, create.opcode), (1, OpCode::Create2));
        assert_eq!(create.path.as_deref(), Some("/a/n-"));
        decoder.expect_reply(&create, None);
        let list = request(&mut decoder, &[ints(&[2, 8]), string("/a"), vec![0]].concat());
        decoder.expect_reply(&list, Some(-6));

        let frame = [error_reply(1, 77, 0), string("/a/n-0000000000")].concat();
        let (Kind::Reply(reply), None) = decoder.server_frame(&frame).unwrap() else { panic!() };
        assert_eq!((reply.connection, reply.opcode, reply.zxid), (3, OpCode::Create2, 77));
        assert_eq!(reply.path.as_deref(), Some("/a/n-"));
        assert_eq!(reply.created.as_deref(), Some("/a/n-0000000000"));

        let (Kind::Reply(reply), Some(-6)) =
            decoder.server_frame(&error_reply(2, 78, -101)).unwrap()
        else {
            panic!()
        };
        assert_eq!((reply.opcode, reply.error, reply.created), (OpCode::GetChildren, -101, None));
    }

    #[test]
    fn pings_events_and_restored_watches_are_told_apart() {
        let mut decoder = connected();
        assert_eq!(decoder.client_frame(&ints(&[-2, 11])), Some(Kind::Ping));
        assert_eq!(decoder.server_frame(&error_reply(-2, 1, 0)), Some((Kind::Ping, None)));
        let event = [error_reply(-1, -1, 0), ints(&[2, 3]), string("/a/n-1")].concat();
        let deleted = Kind::Event { event: EventKind::Deleted, path: "/a/n-1".to_owned() };
        assert_eq!(decoder.server_frame(&event), Some((deleted, None)));
        let watches = request(&mut decoder, &ints(&[-8, 101, 0, 0, 0, 0, 0]));
        assert!(!watches.is_users());
        decoder.expect_reply(&watches, None);
        let (Kind::Reply(reply), _) = decoder.server_frame(&error_reply(-8, 1, 0)).unwrap() else {
            panic!()
        };
        assert!(!reply.is_counted());
        assert_eq!(reply.opcode, OpCode::SetWatches);
    }

    #[test]
    fn a_multi_shows_its_operations() {
        let mut decoder = connected();
        let header = |code| [ints(&[code]), vec![0], ints(&[-1])].concat();
        let acl = [ints(&[1, 31]), string("world"), string("anyone")].concat();
        let frame = [
            ints(&[4, 14]),
            [header(13), string("/a"), ints(&[-1])].concat(),
            [header(15), string("/b"), string("data"), acl, ints(&[0])].concat(),
            [header(5), string("/c"), string("data"), ints(&[3])].concat(),
            [header(2), string("/d"), ints(&[-1])].concat(),
            [ints(&[-1]), vec![1], ints(&[-1])].concat(),
        ]
        .concat();
        let multi = request(&mut decoder, &frame);
        assert_eq!(multi.path.as_deref(), Some("/a"));
        let ops = [
            (OpCode::Check, "/a"),
            (OpCode::Create2, "/b"),
            (OpCode::SetData, "/c"),
            (OpCode::Delete, "/d"),
        ];
        assert_eq!(multi.ops, ops.map(|(opcode, path)| (opcode, Some(path.to_owned()))));
    }

    #[test]
    fn a_connect_request_can_be_rewritten() {
        let mut frame = connect_request(9);
        assert!(forget_session(&mut frame));
        assert!(cap_timeout(&mut frame, 1_000));
        let mut decoder = Decoder::new(0);
        let connect = decoder.client_frame(&frame);
        assert_eq!(connect, Some(Kind::Connect { session: 0, timeout: 1_000 }));
        assert_eq!(frame[28..44], [0; 16]);
        assert!(!forget_session(&mut frame), "it is a new session already");
        assert!(!cap_timeout(&mut frame, 1_000));
    }

    #[test]
    fn whatever_comes_is_no_panic() {
        for length in 0..40 {
            for byte in [0, 1, 14, 127, 255] {
                let frame = vec![byte; length];
                let mut decoder = connected();
                let _ = decoder.client_frame(&frame);
                let _ = decoder.server_frame(&frame);
                let _ = Decoder::new(0).client_frame(&frame);
                let _ = Decoder::new(0).server_frame(&frame);
                let mut frame = frame;
                let _ = (forget_session(&mut frame), cap_timeout(&mut frame, 1));
                let _ = replace_session(&mut frame, 1);
            }
        }
    }

    #[test]
    fn the_idle_request_reads_the_root() {
        let idle = request(&mut connected(), &idle_request(6));
        assert_eq!((idle.xid, idle.opcode, idle.path.as_deref()), (6, OpCode::Exists, Some("/")));
    }
}
