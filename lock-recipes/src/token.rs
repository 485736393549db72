//! [`FencingToken`]: the number that lets a resource refuse a former holder.

use std::fmt;
use std::str::FromStr;

/// The fencing token of an acquisition: the `czxid` of the contender's znode.
///
/// Of two holders of one lock the later one has the larger token, across restarts, leader changes
/// and re-creations of the lock's path, because ZooKeeper numbers every write of an ensemble in one
/// strictly increasing order. A resource that remembers the largest token it has seen and refuses
/// smaller ones is safe from a holder that was paused and does not know that it lost the lock.
///
/// The text form is 16 hex digits without a prefix, everywhere: the order of the texts is the order
/// of the numbers. Treat the number as opaque; tokens of different ensembles do not compare.
///
/// # Examples
///
/// ```
/// use lock_recipes::FencingToken;
///
/// let token: FencingToken = "000000020000002a".parse()?;
/// assert_eq!(token.as_i64(), 0x2_0000_002a);
/// assert_eq!(token.to_string(), "000000020000002a");
/// # Ok::<(), lock_recipes::InvalidToken>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

/// The text or number is no fencing token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid fencing token {text:?}: a token is 16 lower-case hex digits, larger than 0")]
pub struct InvalidToken {
    text: String,
}

impl FencingToken {
    /// A server that gives no `Stat` (3.4, or a create inside a `multi` before 3.8.2) leaves a
    /// number that is not positive: that is no token.
    pub(crate) fn from_czxid(czxid: i64) -> Option<Self> {
        (czxid > 0).then_some(Self(czxid))
    }

    /// The number, for a resource that stores it in a signed 64-bit column.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = InvalidToken;

    /// A number that [`FencingToken::as_i64`] gave.
    fn try_from(number: i64) -> Result<Self, InvalidToken> {
        Self::from_czxid(number).ok_or_else(|| InvalidToken { text: number.to_string() })
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({self})")
    }
}

impl FromStr for FencingToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let digits =
            text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        digits
            .then(|| i64::from_str_radix(text, 16).ok().and_then(Self::from_czxid))
            .flatten()
            .ok_or_else(|| InvalidToken { text: text.chars().take(40).collect() })
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_texts_is_the_order_of_numbers() {
        let numbers = [1, 9, 10, 0xff, 0x100, 0x1_0000_0000, 0x1_0000_0001, i64::MAX];
        let tokens: Vec<_> = numbers.iter().map(|&n| FencingToken::try_from(n).unwrap()).collect();
        assert!(tokens.is_sorted());
        assert!(tokens.iter().map(ToString::to_string).is_sorted());
        for token in tokens {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "1",
            "0000000000000000",
            "ffffffffffffffff",
            "0x0000000000002a",
            "000000000000002A",
        ] {
            assert!(text.parse::<FencingToken>().is_err(), "{text}");
        }
        assert!(FencingToken::try_from(0).is_err());
        assert!(FencingToken::try_from(-1).is_err());
    }
}
