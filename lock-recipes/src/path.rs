//! [`LockPath`]: an absolute znode path that ZooKeeper is certain to accept.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest path that is accepted, in bytes: far below the frame limit of a default server.
const MAX_BYTES: usize = 2_048;

/// The absolute path of a lock: the znode whose children are the contenders.
///
/// It is checked by the server's own rules before anything is sent, so that a bad path is one
/// clear error and not a closed connection. Cheap to clone.
///
/// # Examples
///
/// ```
/// use lock_recipes::LockPath;
///
/// let path: LockPath = "/locks/orders".parse()?;
/// assert_eq!(path.as_str(), "/locks/orders");
///
/// let error = "/locks//orders".parse::<LockPath>().unwrap_err();
/// assert_eq!(error.at(), 7);
/// # Ok::<(), lock_recipes::InvalidPath>(())
/// ```
///
/// A name that comes from elsewhere goes through [`LockPath::escape`]:
///
/// ```
/// use lock_recipes::LockPath;
///
/// let file = "file:///var/import/2026 (1).csv";
/// let path = LockPath::new(format!("/locks/{}", LockPath::escape(file)))?;
/// assert_eq!(LockPath::unescape(path.name()).as_deref(), Some(file));
/// # Ok::<(), lock_recipes::InvalidPath>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockPath(Arc<str>);

/// Why a string is no [`LockPath`], and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid lock path {path:?}: {reason} (at byte {at})")]
pub struct InvalidPath {
    path: String,
    at: usize,
    reason: &'static str,
}

impl InvalidPath {
    /// The byte offset of the fault.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is wrong there.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// The path that was refused.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl LockPath {
    /// Checks `path`.
    ///
    /// # Errors
    ///
    /// [`InvalidPath`] if it is empty, relative, `/` itself, ends with `/`, has an empty, `.` or
    /// `..` node, lies below `/zookeeper`, is longer than 2,048 bytes, or has a character that
    /// ZooKeeper refuses: controls, U+E000–U+F8FF, U+FFF0–U+FFFF and everything above U+FFFF
    /// (which Java writes as surrogates).
    pub fn new(path: impl AsRef<str>) -> Result<Self, InvalidPath> {
        let path = path.as_ref();
        match fault(path) {
            None => Ok(Self(path.into())),
            Some((at, reason)) => Err(InvalidPath { path: shorten(path), at, reason }),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last node of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }

    /// Turns any text into the name of one node: `/`, `%` and what ZooKeeper refuses become `%`
    /// and two hex digits for each byte. [`LockPath::unescape`] gives the text back.
    #[must_use]
    pub fn escape(text: &str) -> String {
        use fmt::Write;
        let mut name = String::with_capacity(text.len());
        let dots = matches!(text, "." | "..");
        for character in text.chars() {
            if dots || matches!(character, '/' | '%') || refused(character) {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    // Writing to a String does not fail.
                    let _ = write!(name, "%{byte:02X}");
                }
            } else {
                name.push(character);
            }
        }
        if name.is_empty() { "%".to_owned() } else { name }
    }

    /// Undoes [`LockPath::escape`]; `None` if `name` was not made by it.
    #[must_use]
    pub fn unescape(name: &str) -> Option<String> {
        if name == "%" {
            return Some(String::new());
        }
        let mut bytes = Vec::with_capacity(name.len());
        let mut rest = name.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            } else {
                bytes.push(byte);
            }
        }
        String::from_utf8(bytes).ok()
    }
}

/// The rules of `PathUtils.validatePath`, and ours; the offset and the rule that is broken.
fn fault(path: &str) -> Option<(usize, &'static str)> {
    if path.is_empty() {
        return Some((0, "the path is empty"));
    }
    if !path.starts_with('/') {
        return Some((0, "a path starts with '/'"));
    }
    if path.len() == 1 {
        return Some((0, "the root cannot be a lock"));
    }
    if path.len() > MAX_BYTES {
        return Some((MAX_BYTES, "longer than 2,048 bytes"));
    }
    if let Some((at, _)) = path.char_indices().find(|&(_, character)| refused(character)) {
        return Some((at, "ZooKeeper refuses this character; LockPath::escape encodes it"));
    }
    let mut at = 1;
    for (index, node) in path.split('/').skip(1).enumerate() {
        match node {
            "" if at == path.len() => return Some((at - 1, "a path does not end with '/'")),
            "" => return Some((at, "a node name is empty")),
            "." | ".." => return Some((at, "'.' and '..' are no node names")),
            "zookeeper" if index == 0 => return Some((at, "/zookeeper belongs to the server")),
            _ => at += node.len() + 1,
        }
    }
    None
}

fn refused(character: char) -> bool {
    matches!(u32::from(character),
        0x00..=0x1f | 0x7f..=0x9f | 0xe000..=0xf8ff | 0xfff0..=0xffff | 0x1_0000..)
}

/// A path in an error message stays readable, however long the input was.
fn shorten(path: &str) -> String {
    if path.len() <= 120 {
        return path.to_owned();
    }
    let mut text: String = path.chars().take(100).collect();
    text.push('…');
    text
}

impl FromStr for LockPath {
    type Err = InvalidPath;

    fn from_str(path: &str) -> Result<Self, InvalidPath> {
        Self::new(path)
    }
}

impl TryFrom<&str> for LockPath {
    type Error = InvalidPath;

    fn try_from(path: &str) -> Result<Self, InvalidPath> {
        Self::new(path)
    }
}

impl TryFrom<String> for LockPath {
    type Error = InvalidPath;

    fn try_from(path: String) -> Result<Self, InvalidPath> {
        Self::new(path)
    }
}

impl From<std::convert::Infallible> for InvalidPath {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_where_they_are_bad() {
        let long = format!("/{}", "a".repeat(4_000));
        for (path, at) in [
            ("", 0),
            ("a", 0),
            ("/", 0),
            ("/a/", 2),
            ("/a//b", 3),
            ("/.", 1),
            ("/a/../b", 3),
            ("/a\tb", 2),
            ("/a\0", 2),
            ("/locks/file:///v", 13),
            ("/locks/🔒", 7),
            ("/locks/\u{f000}", 7),
            ("/locks/\u{fffd}", 7),
            ("/zookeeper", 1),
            ("/zookeeper/x", 1),
            (long.as_str(), 2_048),
        ] {
            assert_eq!(LockPath::new(path).map_err(|error| error.at()), Err(at), "{path:?}");
        }
    }

    #[test]
    fn good_paths_are_kept_as_they_are() {
        for path in ["/a", "/部署", "/a/.b", "/a/b..", "/locks/zookeeper", "/a b/ü", "/\u{202e}x"]
        {
            assert_eq!(LockPath::new(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn any_text_can_be_escaped_and_read_back() {
        for text in ["", "%", ".", "..", "a/b", "file:///v", "🔒", "a\0b", "100%", "%41", "部署"]
        {
            let name = LockPath::escape(text);
            let path = LockPath::new(format!("/locks/{name}")).unwrap();
            assert_eq!(LockPath::unescape(path.name()).as_deref(), Some(text), "{name}");
        }
        assert_eq!(LockPath::unescape("a%4"), None);
        assert_eq!(LockPath::unescape("%zz"), None);
    }
}
