//! Runs one ZooKeeper server until stdin ends: for a look by hand, and as a process that tests can kill.
//!
//! Prints `pid <n>`, `dir <path>` and `connect <host:port>`.

// It prints: that is what it is for. ZooKeeper is a name, not code.
#![allow(clippy::print_stdout, clippy::doc_markdown)]

use std::io::Read;

use integration::Server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let server = Server::start().await;
    println!("pid {}", server.pid());
    println!("dir {}", server.dir().display());
    println!("connect {}", server.connect_string());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop().await;
    Ok(())
}
