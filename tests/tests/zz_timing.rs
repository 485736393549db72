//! Timing.
use std::time::Instant;
use integration::{Ensemble, Observer, Proxy, Server};
#[tokio::test]
async fn timing() {
    for fast in [false, true] {
        let t = Instant::now();
        let b = Server::builder(); let b = if fast { b.unsafe_fast() } else { b };
        let s = b.start().await; println!("start {:?}", t.elapsed());
        let o = Observer::connect(&s.connect_string()).await; o.mkdir("/a").await;
        let t = Instant::now(); for _ in 0..200 { o.create_ephemeral_like("/a", "n").await; } println!("create direct {:?}", t.elapsed()/200);
        let p = Proxy::start(&s.connect_string()).await;
        let o2 = Observer::connect(&p.connect_string()).await;
        let t = Instant::now(); for _ in 0..200 { o2.create_ephemeral_like("/a", "n").await; } println!("create proxied {:?}", t.elapsed()/200);
        let t = Instant::now(); s.freeze(); println!("freeze {:?}", t.elapsed()); s.thaw();
        let t = Instant::now(); s.kill().await; println!("kill {:?}", t.elapsed());
        let t = Instant::now(); s.restart().await; println!("restart {:?}", t.elapsed());
        let t = Instant::now(); s.stop().await; println!("stop {:?}", t.elapsed());
    }
    let t = Instant::now();
    let s = Server::builder().seed_counter("/a", 5).start().await; println!("seeded start {:?}", t.elapsed()); drop(s);
    let t = Instant::now(); let e = Ensemble::start(3).await; println!("ensemble start {:?}", t.elapsed());
    let l = e.leader().await; e.kill(l).await;
    let t = Instant::now(); e.leader().await; println!("election {:?}", t.elapsed());
    let t = Instant::now(); e.restart(l).await; e.ready().await; println!("rejoin {:?}", t.elapsed());
}
