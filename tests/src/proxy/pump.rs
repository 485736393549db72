//! The proxy's thread: accepts connections and moves their frames.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::SyncSender};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::frame::{Decoder, Direction};
use super::rules::{Before, Outgoing, State};

/// No frame is larger: ZooKeeper's own limit is 1 MiB unless told otherwise.
const LARGEST: usize = 64 << 20;

/// What is held up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    pub(super) requests: bool,
    pub(super) replies: bool,
    /// Frames that came before this are thrown away.
    pub(super) discard_before: Option<Instant>,
}

impl Gate {
    pub(super) fn holds(&self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.requests,
            Direction::ToClient => self.replies,
        }
    }
}

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) gate: watch::Sender<Gate>,
    upstream: String,
}

impl Shared {
    pub(super) fn new(upstream: &str) -> Self {
        let state = Mutex::new(State::new());
        Self { state, gate: watch::Sender::new(Gate::default()), upstream: upstream.to_owned() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the proxy's thread is told to do between two frames.
pub(super) enum Command {
    /// Change something.
    Change(Box<dyn FnOnce(&Shared) + Send>, SyncSender<()>),
    /// Close all connections.
    Cut(SyncSender<()>),
}

/// Serves until the commands end. Everything runs on this one thread, so a command takes effect between two
/// frames and nothing slips through after it was acknowledged.
pub(super) async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut connections = JoinSet::new();
    let mut count = 0;
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(Command::Change(change, done)) => {
                    change(&shared);
                    let _ = done.send(());
                }
                Some(Command::Cut(done)) => {
                    connections.shutdown().await;
                    let _ = done.send(());
                }
                None => return,
            },
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if !shared.state().refuse => {
                    connections.spawn(serve(client, Arc::clone(&shared), count));
                    count += 1;
                }
                Ok(_) => {}
                // Out of descriptors, for example: it may pass.
                Err(_) => sleep(Duration::from_millis(1)).await,
            },
        }
    }
}

/// One connection, until both directions have ended or it is cut.
async fn serve(client: TcpStream, shared: Arc<Shared>, connection: usize) {
    let decoder = Mutex::new(Decoder::new(connection));
    let pump = |direction| Pump { shared: &shared, decoder: &decoder, connection, direction };
    let (to_server, to_client) = (pump(Direction::ToServer), pump(Direction::ToClient));
    let _ = client.set_nodelay(true);
    let (client_reader, client_writer) = client.into_split();
    let (requests_in, requests_out) = unbounded_channel();
    let (replies_in, replies_out) = unbounded_channel();

    // The far end of a blackhole sees nothing of a connection that was opened, and given up, inside it.
    let mut read_client = pin!(to_server.read(client_reader, requests_in));
    let server = tokio::select! {
        biased;
        () = &mut read_client => return,
        server = open(&shared) => server,
    };
    let Ok(server) = server else { return };
    let _ = server.set_nodelay(true);
    let (server_reader, server_writer) = server.into_split();

    let read = async {
        tokio::join!(read_client, to_client.read(server_reader, replies_in));
        pending::<()>().await;
    };
    let write_server = to_server.write(server_writer, requests_out);
    let write_client = to_client.write(client_writer, replies_out);
    // The writers end when they have written what the readers left, or with an error at a cut.
    tokio::select! {
        () = read => {}
        _ = async { tokio::try_join!(write_server, write_client) } => {}
    }
}

async fn open(shared: &Shared) -> io::Result<TcpStream> {
    let mut gate = shared.gate.subscribe();
    let _ = gate.wait_for(|gate| !gate.requests).await;
    TcpStream::connect(&shared.upstream).await
}

/// A frame under way. `None` as the frame: the sender has closed its side.
struct Item {
    arrived: Instant,
    due: Instant,
    frame: Option<Outgoing>,
}

/// The connection is to be closed.
struct Cut;

/// One direction of a connection.
struct Pump<'a> {
    shared: &'a Shared,
    decoder: &'a Mutex<Decoder>,
    connection: usize,
    direction: Direction,
}

impl Pump<'_> {
    /// Reads frames and decides about each as it arrives. An error is an end like another.
    async fn read(&self, reader: OwnedReadHalf, out: UnboundedSender<Item>) {
        let mut reader = BufReader::new(reader);
        while let Ok(body) = read_frame(&mut reader).await {
            let (decision, delay) = {
                let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
                let mut state = self.shared.state();
                let arrived = state.arrived(self.connection, self.direction, &mut decoder, body);
                (arrived, state.delay)
            };
            let arrived = Instant::now();
            let due = arrived + delay;
            match decision {
                Ok(Some(frame)) => {
                    let last = frame.before == Before::Cut;
                    let _ = out.send(Item { arrived, due, frame: Some(frame) });
                    if last {
                        return;
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
        let arrived = Instant::now();
        let due = arrived + self.shared.state().delay;
        let _ = out.send(Item { arrived, due, frame: None });
    }

    /// Writes frames in their order, each when it is due and the way is open.
    async fn write(
        &self,
        mut writer: OwnedWriteHalf,
        mut items: UnboundedReceiver<Item>,
    ) -> Result<(), Cut> {
        let mut gate = self.shared.gate.subscribe();
        let mut broken = false;
        while let Some(Item { arrived, due, frame }) = items.recv().await {
            if due > Instant::now() {
                sleep_until(due).await;
            }
            if frame.as_ref().is_some_and(|frame| frame.before == Before::Blackhole) {
                self.shared.gate.send_modify(|gate| (gate.requests, gate.replies) = (true, true));
            }
            // Both ends live in `shared`: there is no error.
            let discard_before = match gate.wait_for(|gate| !gate.holds(self.direction)).await {
                Ok(gate) => gate.discard_before,
                Err(_) => None,
            };
            let Some(frame) = frame else { break };
            if discard_before.is_some_and(|moment| arrived <= moment) {
                continue;
            }
            if frame.before == Before::Cut {
                return Err(Cut);
            }
            // When the other side is gone, its reader tells; this side is read to its end nevertheless.
            broken = broken || write_frame(&mut writer, &frame.body).await.is_err();
        }
        let _ = writer.shutdown().await;
        Ok(())
    }
}

async fn read_frame(reader: &mut BufReader<OwnedReadHalf>) -> io::Result<Vec<u8>> {
    let length = usize::try_from(reader.read_i32().await?).unwrap_or(usize::MAX);
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    Ok(body)
}

async fn write_frame(writer: &mut OwnedWriteHalf, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    writer.write_all(&[&length.to_be_bytes(), body].concat()).await
}
