//! Reading many contenders at once.

use futures_util::future::join_all;
use zookeeper_client::{Error, MultiReadResult, Stat};

use super::{Session, Trouble};
use crate::node::ContenderName;
use crate::path::LockPath;

/// How many nodes one multi-read asks for.
const AT_ONCE: usize = 500;

type Node = Option<(Vec<u8>, Stat)>;

impl Session {
    /// The data and `Stat` of contenders, in their order; `None` for those that have gone.
    pub(crate) async fn read_all(
        &self,
        parent: &LockPath,
        nodes: &[ContenderName],
    ) -> Result<Vec<Node>, Trouble> {
        let mut read = Vec::with_capacity(nodes.len());
        for chunk in nodes.chunks(AT_ONCE) {
            let paths: Vec<_> = chunk.iter().map(|node| parent.child(node.as_str())).collect();
            match self.read_together(&paths).await {
                Ok(nodes) => read.extend(nodes),
                // Servers before 3.6 read one by one.
                Err(Trouble::Refused(Error::Unimplemented)) => {
                    let one_by_one = paths.iter().map(|path| self.read_one(path));
                    for node in join_all(one_by_one).await {
                        read.push(node?);
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(read)
    }

    async fn read_together(&self, paths: &[String]) -> Result<Vec<Node>, Trouble> {
        let together = self.ask(|| {
            let mut reader = self.client.new_multi_reader();
            let added = paths.iter().try_for_each(|path| reader.add_get_data(path));
            let commit = added.map(|()| reader.commit());
            async { commit?.await }
        });
        let results = together.await?.into_iter().map(|result| match result {
            MultiReadResult::Data { data, stat } => Ok(Some((data, stat))),
            MultiReadResult::Error { err: Error::NoNode } => Ok(None),
            MultiReadResult::Error { err } => Err(Trouble::Refused(err)),
            // Nothing else was asked for.
            _ => Ok(None),
        });
        results.collect()
    }

    async fn read_one(&self, path: &str) -> Result<Node, Trouble> {
        match self.ask(|| self.client.get_data(path)).await {
            Ok(node) => Ok(Some(node)),
            Err(Trouble::Refused(Error::NoNode)) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }
}
