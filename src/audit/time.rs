//! Moments as text: UTC, milliseconds, the order of the text is the order of time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// A moment as `2026-01-31T12:00:00.000Z`.
#[must_use]
pub fn format_time(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = date_of(since.as_secs() / DAY);
    let second = since.as_secs() % DAY;
    let mut text = String::with_capacity(24);
    let mut add = |number: u64, digits: u32, then: char| {
        (0..digits).rev().for_each(|place| text.push(digit(number / 10u64.pow(place))));
        text.push(then);
    };
    // A year of five digits has them all.
    add(year, if year > 9999 { year.ilog10() + 1 } else { 4 }, '-');
    add(month, 2, '-');
    add(day, 2, 'T');
    add(second / 3600, 2, ':');
    add(second / 60 % 60, 2, ':');
    add(second % 60, 2, '.');
    add(since.subsec_millis().into(), 3, 'Z');
    text
}

/// The last digit of a number.
fn digit(number: u64) -> char {
    char::from(b'0' + u8::try_from(number % 10).unwrap_or_default())
}

/// A moment from text: a date, a date and time in UTC, or how long ago (`90s`, `15m`, `2h`, `7d`).
#[must_use]
pub fn parse_time(text: &str, now: SystemTime) -> Option<SystemTime> {
    if let Some(ago) = ago(text) {
        return Some(now.checked_sub(ago).unwrap_or(UNIX_EPOCH));
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut parts = date.split('-');
    let mut part = |least: u64, most: u64| {
        let text = parts.next()?;
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| digits && (least..=most).contains(number))
    };
    let (year, month, day) = (part(1970, 9999)?, part(1, 12)?, part(1, 31)?);
    let mut clock = time.trim_end_matches('Z').splitn(3, ':');
    let hour: u64 = clock.next()?.parse().ok().filter(|hour| *hour < 24)?;
    let minute: u64 = clock.next().map_or(Some(0), |text| text.parse().ok().filter(|minute| *minute < 60))?;
    let second: f64 = clock.next().map_or(Some(0.0), |text| text.parse().ok())?;
    let (whole, inside) = (DAY * day_of(year, month, day) + hour * 3600 + minute * 60, 0.0..61.0);
    let second = inside.contains(&second).then(|| Duration::from_secs_f64(second))?;
    parts.next().is_none().then(|| UNIX_EPOCH + Duration::from_secs(whole) + second)
}

fn ago(text: &str) -> Option<Duration> {
    let unit = match text.bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => DAY,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_secs)
}

/// Year, month and day of a day counted from 1970; months counted from March make leap days come last.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn day_of(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read_back() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000Z"),
            (1_709_210_096, "2024-02-29T12:34:56.000Z"),
        ] {
            let moment = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(format_time(moment), text);
            assert_eq!(parse_time(text, UNIX_EPOCH), Some(moment));
        }
        let late = UNIX_EPOCH + Duration::from_millis(86_399_007);
        assert_eq!(format_time(late), "1970-01-01T23:59:59.007Z");
        assert_eq!(
            format_time(UNIX_EPOCH + Duration::from_secs(400_000_000_000)),
            "14645-06-30T15:06:40.000Z"
        );
        for day in (0..60_000).step_by(17) {
            let (year, month, date) = date_of(day);
            assert_eq!(day_of(year, month, date), day);
        }
    }

    #[test]
    fn moments_may_be_given_as_dates_or_as_how_long_ago() {
        let now = UNIX_EPOCH + Duration::from_secs(10 * DAY);
        let at =
            |text| parse_time(text, now).map(|moment| moment.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(at("2d"), Some(8 * DAY));
        assert_eq!(at("90s"), Some(10 * DAY - 90));
        assert_eq!(at("1970-01-03"), Some(2 * DAY));
        assert_eq!(at("1970-01-03 10:30"), Some(2 * DAY + 37_800));
        for odd in ["", "x", "1970-13-01", "1970-01-01T25:00", "12", "1970-01-01-01", "-1d", "é"] {
            assert_eq!(at(odd), None, "{odd}");
        }
    }
}
