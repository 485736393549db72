//! Reading many nodes at once.

use futures_util::future::{Either, join_all};
use zookeeper_client::{Client, Error, MultiReadResult, Stat};

use super::{Session, Trouble};
use crate::node::ContenderName;
use crate::path::LockPath;

/// How many contenders one multi-read asks for.
const AT_ONCE: usize = 500;

type Node = Option<(Vec<u8>, Stat)>;

/// One of many questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The data and `Stat` of a node.
    Data(String),
    /// The names of its children.
    Children(String),
}

impl Question {
    pub(crate) fn path(&self) -> &str {
        let (Self::Data(path) | Self::Children(path)) = self;
        path
    }
}

/// What ZooKeeper answered to it; [`Trouble::Refused`] is an answer too.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Data(Vec<u8>, Stat),
    Children(Vec<String>),
    Refused(Error),
}

/// Asks everything in one request; one by one, sent back to back, of servers before 3.6. The future
/// must be polled at once: requests are sent in the order of the polls.
pub(crate) async fn ask_together(
    client: &Client,
    questions: &[Question],
) -> Result<Vec<Answer>, Error> {
    let mut reader = client.new_multi_reader();
    for question in questions {
        match question {
            Question::Data(path) => reader.add_get_data(path)?,
            Question::Children(path) => reader.add_get_children(path)?,
        }
    }
    match reader.commit().await {
        Ok(results) => Ok(results.into_iter().map(Answer::from).collect()),
        Err(Error::Unimplemented) => {
            let one_by_one = questions.iter().map(|question| match question {
                Question::Data(path) => {
                    let data = client.get_data(path);
                    let data = async { data.await.map(|(data, stat)| Answer::Data(data, stat)) };
                    Either::Left(data)
                }
                Question::Children(path) => {
                    let children = client.list_children(path);
                    Either::Right(async { children.await.map(Answer::Children) })
                }
            });
            let answers = join_all(one_by_one).await.into_iter().map(|answer| match answer {
                Ok(answer) => Ok(answer),
                Err(error) => match Trouble::from(error) {
                    Trouble::Refused(error) => Ok(Answer::Refused(error)),
                    Trouble::Unknown(error) => Err(error),
                },
            });
            answers.collect()
        }
        Err(error) => Err(error),
    }
}

impl From<MultiReadResult> for Answer {
    fn from(result: MultiReadResult) -> Self {
        match result {
            MultiReadResult::Data { data, stat } => Self::Data(data, stat),
            MultiReadResult::Children { children } => Self::Children(children),
            MultiReadResult::Error { err } => Self::Refused(err),
            // Nothing else was asked for.
            _ => Self::Refused(Error::Unimplemented),
        }
    }
}

impl Session {
    /// The data and `Stat` of contenders, in their order; `None` for those that have gone.
    pub(crate) async fn read_all(
        &self,
        parent: &LockPath,
        nodes: &[ContenderName],
    ) -> Result<Vec<Node>, Trouble> {
        let mut read = Vec::with_capacity(nodes.len());
        for chunk in nodes.chunks(AT_ONCE) {
            let questions: Vec<_> =
                chunk.iter().map(|node| Question::Data(parent.child(node.as_str()))).collect();
            for answer in self.ask(|| ask_together(&self.client, &questions)).await? {
                read.push(match answer {
                    Answer::Data(data, stat) => Some((data, stat)),
                    Answer::Refused(Error::NoNode) | Answer::Children(_) => None,
                    Answer::Refused(error) => return Err(Trouble::Refused(error)),
                });
            }
        }
        Ok(read)
    }
}
