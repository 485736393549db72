//! Durations for people. Pure.

use std::time::Duration;

use crate::text::Charset;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// `0.4s`, `48s`, `12m44s`, `2h03m`, `6d04h`, `1y120d`: cut off, never rounded up.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        10..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m{:02}s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{}h{:02}m", seconds / HOUR, seconds % HOUR / MINUTE),
        DAY..YEAR => format!("{}d{:02}h", seconds / DAY, seconds % DAY / HOUR),
        _ => format!("{}y{}d", seconds / YEAR, seconds % YEAR / DAY),
    }
}

/// The same of a time that may be shorter.
pub(crate) fn at_most(time: Duration, charset: Charset) -> String {
    let sign = match charset {
        Charset::Unicode => "≤",
        Charset::Ascii => "<=",
    };
    format!("{sign}{}", age(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short_and_never_rounded_up() {
        for (millis, text) in [
            (0, "0.0s"),
            (399, "0.3s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (86_399_999, "23h59m"),
            (86_400_000, "1d00h"),
            (31_535_999_999, "364d23h"),
            (31_536_000_000, "1y0d"),
        ] {
            assert_eq!(age(Duration::from_millis(millis)), text);
        }
        assert_eq!(at_most(Duration::from_secs(61), Charset::Unicode), "≤1m01s");
        assert_eq!(at_most(Duration::from_secs(61), Charset::Ascii), "<=1m01s");
    }
}
