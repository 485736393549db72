//! [`Cluster`]: a connect string, taken apart and checked before anything is sent. Pure.

use crate::path::LockPath;

/// Why a connect string is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid connect string {text:?}: {reason}; expected host:port,host:port,…/chroot, the chroot \
     optional"
)]
pub struct InvalidConnectString {
    text: String,
    reason: String,
}

/// `host:port,host:port,…` and perhaps a chroot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    hosts: String,
    chroot: Option<LockPath>,
}

impl Cluster {
    /// Reads a connect string in ZooKeeper's syntax; a host may be headed with `tcp://` or
    /// `tcp+tls://`, as the client allows.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidConnectString> {
        let invalid = |reason: String| InvalidConnectString { text: text.to_owned(), reason };
        let foreign = |part: &&str| split_scheme(part).1.contains("://");
        if let Some(part) = text.split(',').find(foreign) {
            return Err(invalid(format!("{part:?} has a scheme other than tcp:// and tcp+tls://")));
        }
        let (before, last) = match text.rsplit_once(',') {
            Some((before, last)) => (Some(before), last),
            None => (None, text),
        };
        let (scheme, last) = split_scheme(last);
        let (host, chroot) = match last.split_once('/') {
            Some((host, "")) => (host, None),
            Some((host, chroot)) => (host, Some(format!("/{chroot}"))),
            None => (last, None),
        };
        let hosts = match before {
            Some(before) => format!("{before},{scheme}{host}"),
            None => format!("{scheme}{host}"),
        };
        for host in hosts.split(',') {
            check_host(split_scheme(host).1).map_err(invalid)?;
        }
        let chroot = chroot
            .map(LockPath::new)
            .transpose()
            .map_err(|error| invalid(format!("the chroot is no path: {}", error.reason())))?;
        Ok(Self { hosts, chroot })
    }

    /// The hosts alone.
    pub(crate) fn hosts(&self) -> &str {
        &self.hosts
    }

    pub(crate) fn chroot(&self) -> Option<&str> {
        self.chroot.as_ref().map(LockPath::as_str)
    }
}

fn split_scheme(host: &str) -> (&str, &str) {
    ["tcp://", "tcp+tls://"]
        .into_iter()
        .find_map(|scheme| Some((scheme, host.strip_prefix(scheme)?)))
        .unwrap_or(("", host))
}

fn check_host(text: &str) -> Result<(), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| format!("no ']' in {text:?}"))?;
        match (rest, rest.strip_prefix(':')) {
            ("", _) => (host, None),
            (_, Some(port)) => (host, Some(port)),
            _ => return Err(format!("{rest:?} after ']'")),
        }
    } else {
        match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '[' | ']');
    if host.is_empty() {
        return Err("a host is empty".to_owned());
    }
    if host.contains(bad) || (host.contains(':') && !text.starts_with('[')) {
        return Err(format!("{host:?} is no host name or address"));
    }
    match port.map(str::parse::<u16>) {
        None | Some(Ok(1..)) => Ok(()),
        Some(_) => Err(format!("{:?} is no port", port.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_chroot_are_told_apart() {
        for (text, hosts, chroot) in [
            ("a", "a", None),
            ("a:2181", "a:2181", None),
            ("a:1,b:2", "a:1,b:2", None),
            ("a:1,b:2/", "a:1,b:2", None),
            ("a:1,b:2/x/y", "a:1,b:2", Some("/x/y")),
            ("[::1]:2181/x", "[::1]:2181", Some("/x")),
            ("tcp://a:1,tcp+tls://b:2/x", "tcp://a:1,tcp+tls://b:2", Some("/x")),
        ] {
            let cluster = Cluster::parse(text).unwrap();
            assert_eq!((cluster.hosts(), cluster.chroot()), (hosts, chroot), "{text}");
        }
    }

    #[test]
    fn malformed_strings_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "a host is empty"),
            (",", "a host is empty"),
            ("a,,b", "a host is empty"),
            ("a:1,", "a host is empty"),
            (":2181", "a host is empty"),
            ("a:0", "\"0\" is no port"),
            ("a:", "\"\" is no port"),
            ("a:port", "\"port\" is no port"),
            ("a:70000", "\"70000\" is no port"),
            ("a b", "\"a b\" is no host name or address"),
            ("a/x,b", "\"a/x\" is no host name or address"),
            ("::1", "\":\" is no host name or address"),
            ("[::1", "no ']' in \"[::1\""),
            ("a/x//y", "the chroot is no path: a node name is empty"),
            ("a/x/", "the chroot is no path: a path does not end with '/'"),
            ("http://a:1", "\"http://a:1\" has a scheme other than tcp:// and tcp+tls://"),
        ] {
            let error = Cluster::parse(text).map_err(|error| error.reason);
            assert_eq!(error, Err(reason.to_owned()), "{text}");
        }
    }
}
