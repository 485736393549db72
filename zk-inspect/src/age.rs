//! Durations for people. Pure.

use std::time::Duration;

use crate::text::Charset;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// `0s`, `0.4s`, `48s`, `12m44s`, `2h03m`, `6d04h`, `99d`, `3y120d`: at most seven characters, cut off
/// and never rounded up, so that what is longer never looks shorter.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let days = seconds / DAY;
    match seconds {
        0 if time.subsec_millis() < 100 => "0s".to_owned(),
        0..10 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        10..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m{:02}s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{}h{:02}m", seconds / HOUR, seconds % HOUR / MINUTE),
        _ if days < 10 => format!("{days}d{:02}h", seconds % DAY / HOUR),
        DAY..YEAR => format!("{days}d"),
        _ if days < 100 * 365 => format!("{}y{:03}d", days / 365, days % 365),
        _ => format!("{}y", (days / 365).min(999_999)),
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

    /// The time that a text stands for, in tenths of a second.
    fn tenths(text: &str) -> u64 {
        let mut total = 0;
        let mut number = String::new();
        for c in text.chars() {
            let unit = match c {
                's' => 10,
                'm' => 10 * MINUTE,
                'h' => 10 * HOUR,
                'd' => 10 * DAY,
                'y' => 10 * YEAR,
                c => {
                    number.push(c);
                    continue;
                }
            };
            total += match number.split_once('.') {
                Some((whole, tenth)) => {
                    whole.parse::<u64>().unwrap() * unit + tenth.parse::<u64>().unwrap()
                }
                None => number.parse::<u64>().unwrap() * unit,
            };
            number.clear();
        }
        total
    }

    #[test]
    fn each_unit_ends_where_the_next_begins() {
        for (millis, text) in [
            (0, "0s"),
            (99, "0s"),
            (100, "0.1s"),
            (499, "0.4s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (48_000, "48s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (764_000, "12m44s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (7_380_000, "2h03m"),
            (86_399_999, "23h59m"),
            (86_400_000, "1d00h"),
            (532_800_000, "6d04h"),
            (863_999_999, "9d23h"),
            (864_000_000, "10d"),
            (31_535_999_999, "364d"),
            (31_536_000_000, "1y000d"),
            (104_976_000_000, "3y120d"),
            (3_153_599_999_999, "99y364d"),
            (3_153_600_000_000, "100y"),
        ] {
            assert_eq!(age(Duration::from_millis(millis)), text);
        }
        assert_eq!(age(Duration::MAX), "999999y");
        assert_eq!(at_most(Duration::from_secs(61), Charset::Unicode), "≤1m01s");
        assert_eq!(at_most(Duration::from_secs(61), Charset::Ascii), "<=1m01s");
    }

    #[test]
    fn longer_never_looks_shorter_and_never_takes_more_than_seven_cells() {
        let mut time = Duration::ZERO;
        let mut last = 0;
        while time < Duration::from_secs(1_000_000 * YEAR) {
            let text = age(time);
            assert!(text.len() <= 7, "{text}");
            assert!(tenths(&text) >= last, "{text} after {last}");
            // Never rounded up.
            assert!(u128::from(tenths(&text)) <= time.as_millis() / 100, "{text} of {time:?}");
            last = tenths(&text);
            time += Duration::from_millis(37) + time / 1_000;
        }
    }
}
