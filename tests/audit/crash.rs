//! Writers that are killed, cut short, held up or many.

use crate::{State, add};
use sbx::audit::{Brief, Event, Field, Head, Log, Sink, entries};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A writer in a process of its own: this very test program, told to run only `writer`.
fn spawn(state: &State, name: &str, events: u64, size: usize) -> Child {
    Command::new(std::env::current_exe().expect("a name"))
        .args(["--exact", "crash::writer", "--ignored", "--nocapture"])
        .env("SBX_TEST_AUDIT", format!("{}|{name}|{events}|{size}", state.0.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a writer")
}

/// Records an event before what it tells of.
fn add_first(log: &Log, number: u64) {
    let number = number.to_string();
    let fields = [("number", Field::Text(&number))];
    log.record_first(Brief { kind: "launch", agent: "a", fields: &fields }).expect("recorded");
}

#[test]
#[ignore = "the body of a writer process; the tests below start it"]
fn writer() {
    let order = std::env::var("SBX_TEST_AUDIT").expect("an order");
    let parts: Vec<&str> = order.split('|').collect();
    let (events, size): (u64, usize) = (parts[2].parse().unwrap(), parts[3].parse().unwrap());
    let mut settings = sbx::manifest::AuditSettings::default();
    settings.max_size = 4 << 20;
    let log = sbx::audit::Log::new(parts[0].as_ref(), parts[1], settings);
    // Every other writer keeps the files open in between, and leaves the head for later.
    let stays = parts[1].ends_with(['1', '3', '5', '7', '9', 'd']);
    if stays {
        log.stay_open();
    }
    for number in 0..events {
        let (number, text) = (number.to_string(), "x".repeat(size));
        let fields = [("number", Field::Text(&number)), ("text", Field::Text(&text))];
        let event = Brief { kind: "launch", agent: parts[1], fields: &fields };
        let kept = if stays {
            log.record_first(event).and_then(|()| log.finish())
        } else {
            log.record(event.event())
        };
        kept.expect("recorded");
    }
}

#[test]
fn fifty_writers_at_once_lose_nothing() {
    const WRITERS: usize = 50;
    const EVENTS: u64 = 20;
    let state = State::new();
    let mut writers: Vec<Child> =
        (0..WRITERS).map(|number| spawn(&state, &format!("w{number}"), EVENTS, 100)).collect();
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    let verdict = state.verdict();
    assert!(verdict.problems.is_empty() && verdict.notes.is_empty(), "{verdict:?}");
    assert_eq!(verdict.lines, WRITERS as u64 * EVENTS);
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let damaged = entries(&state.0, &mut |entry| {
        let next = seen.entry(entry.agent.clone()).or_default();
        assert_eq!(entry.body["number"], next.to_string(), "{} out of order", entry.agent);
        *next += 1;
        Ok(())
    });
    assert_eq!(damaged.unwrap(), 0);
    assert!(seen.len() == WRITERS && seen.values().all(|count| *count == EVENTS));
}

#[test]
fn threads_of_one_process_share_a_log() {
    let state = State::new();
    let log = state.small(3000, 1000);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|number| add(&log, number)));
        }
    });
    let verdict = state.verdict();
    assert!(verdict.problems.is_empty(), "{verdict:?}");
    assert_eq!(verdict.lines, 400 + verdict.files as u64 - 1, "and one line for each new file");
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_log_that_goes_on() {
    let state = State::new();
    add(&state.log(), 0);
    let mut seed = 12345u64;
    for round in 0..60 {
        let mut writer = spawn(&state, "killed", u64::MAX, 50_000);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = || std::fs::metadata(state.file()).map_or(0, |meta| meta.len());
        let (before, begun) = (size(), Instant::now());
        while size() == before && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(seed >> 54));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let verdict = state.verdict();
        assert!(verdict.problems.is_empty(), "round {round}: {verdict:?}");
        add(&state.log(), round);
        let verdict = state.verdict();
        assert!(verdict.problems.is_empty(), "round {round}: {verdict:?}");
    }
    assert!(state.verdict().lines > 120);
}

#[test]
fn half_a_line_is_recognised_wherever_it_was_cut() {
    let state = State::with(3);
    let (text, head) = (state.text(), std::fs::read(state.head()).unwrap());
    add(&state.log(), 4);
    let line = state.text()[text.len()..].to_owned();
    for cut in 0..line.len() {
        std::fs::write(state.file(), format!("{text}{}", &line[..cut])).unwrap();
        std::fs::write(state.head(), &head).unwrap();
        let whole = cut + 1 == line.len();
        let torn: &[&str] = if cut == 0 || whole { &[] } else { &["torn"] };
        let behind: &[&str] = if whole { &["ahead"] } else { torn };
        let found = || (state.codes(), state.notes());
        assert_eq!(found(), (vec![], behind.to_vec()), "cut at {cut}, nobody came after");
        add(&state.log(), 5);
        assert_eq!(found(), (vec![], torn.to_vec()), "cut at {cut}, the next went on");
    }
}

#[test]
fn a_line_that_the_head_does_not_tell_of_is_taken_over() {
    let state = State::with(3);
    let head = std::fs::read(state.head()).unwrap();
    add(&state.log(), 4);
    std::fs::write(state.head(), head).unwrap();
    assert_eq!((state.codes(), state.notes()), (vec![], vec!["ahead"]));
    add(&state.log(), 5);
    assert_eq!((state.codes(), state.notes()), (vec![], vec![]));
    assert_eq!(state.verdict().lines, 5);
}

#[test]
fn what_is_recorded_first_is_there_before_the_head_tells_of_it_and_others_wait() {
    let state = State::with(1);
    let log = state.log();
    log.stay_open();
    add(&log, 2);
    let head = || std::fs::read(state.head()).unwrap();
    let before = head();
    let first = |number: u64| add_first(&log, number);
    first(3);
    assert!(state.text().contains("\"number\":\"3\"") && head() == before);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| add(&state.log(), 4));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!other.is_finished() && state.lines().len() == 3, "it is not the other's turn");
        log.finish().unwrap();
    });
    // Whatever this process does next, it pays what it owes first; at its end at the latest.
    first(5);
    first(6);
    add(&log, 7);
    first(8);
    drop(log);
    add(&state.log(), 9);
    assert_eq!((state.codes(), state.notes(), state.verdict().lines), (vec![], vec![], 9));
}

#[test]
fn one_turn_serves_events_that_follow_one_another_and_ends_by_itself() {
    let state = State::with(1);
    let log = state.log();
    log.stay_open();
    let size = || std::fs::metadata(state.file()).unwrap().len();
    let told = || Head::read(&std::fs::read(state.head()).unwrap()).unwrap();
    let mut owed = 0;
    for number in 2..=300 {
        let before = size();
        add_first(&log, number);
        assert!(size() > before, "the line is there at once");
        log.finish().unwrap();
        owed += usize::from(told().size < size());
    }
    assert!(owed > 0, "no turn went on");
    // Nobody does anything any more, and yet the turn ends.
    let begun = Instant::now();
    while told().size < size() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the turn goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((told().link.seq, state.codes(), state.notes()), (300, vec![], vec![]));
    // What waits ends with the log, also in the middle of a turn.
    add_first(&log, 301);
    add_first(&log, 302);
    log.finish().unwrap();
    drop(log);
    assert_eq!((told().link.seq, told().size), (302, size()));
}

#[test]
fn whoever_writes_without_a_pause_leaves_others_their_turn() {
    let state = State::with(1);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let log = state.log();
            log.stay_open();
            let mut written = 0;
            while !over.load(Ordering::Relaxed) {
                add_first(&log, written);
                log.finish().unwrap();
                written += 1;
            }
            written
        });
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        (0..50).for_each(|number| add(&state.log(), number));
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        assert!(took < Duration::from_secs(20), "fifty turns took {took:?}");
        let written = busy.join().unwrap();
        assert_eq!(state.verdict().lines, 51 + written);
    });
    assert_eq!((state.codes(), state.notes()), (vec![], vec![]));
}

#[test]
fn a_head_that_is_owed_and_lost_is_made_up_for() {
    let state = State::with(1);
    let log = state.log();
    log.stay_open();
    add(&log, 2);
    let head = std::fs::read(state.head()).unwrap();
    add_first(&log, 3);
    log.finish().unwrap();
    // As if the writer had been killed before it paid.
    std::fs::write(state.head(), head).unwrap();
    assert_eq!((state.codes(), state.notes()), (vec![], vec!["ahead"]));
    add(&log, 4);
    assert_eq!((state.codes(), state.notes(), state.verdict().lines), (vec![], vec![], 4));
}

#[test]
fn a_rotation_cut_short_is_finished() {
    let state = State::with(3);
    let head = std::fs::read(state.head()).unwrap();
    std::fs::rename(state.file(), state.0.join("audit.000001.jsonl")).unwrap();
    assert!(state.codes().is_empty(), "{:?}", state.verdict());
    add(&state.log(), 4);
    assert_eq!((state.codes(), state.verdict().lines), (vec![], 5));
    std::fs::write(state.head(), head).unwrap();
    assert_eq!((state.codes(), state.notes()), (vec![], vec!["ahead"]));
    add(&state.log(), 5);
    assert_eq!((state.codes(), state.verdict().lines), (vec![], 6));
}

#[test]
fn a_writer_that_never_gives_up_its_turn_is_not_waited_for_long() {
    let state = State::with(1);
    let held = std::fs::File::options().read(true).write(true).open(state.head()).unwrap();
    held.lock().unwrap();
    let begun = Instant::now();
    let error = state.log().record(Event::new("launch", "a", json!({}))).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert!(error.to_string().contains("another writer has held it"), "{error}");
    drop(held);
    add(&state.log(), 2);
    assert!(state.codes().is_empty());
}

#[test]
fn a_log_that_is_no_file_is_an_error() {
    let state = State::new();
    std::fs::create_dir(state.file()).unwrap();
    let error = state.log().record(Event::new("launch", "a", json!({}))).unwrap_err();
    assert!(error.to_string().contains("cannot write to the audit log"), "{error}");
    std::fs::remove_dir(state.file()).unwrap();
    let mut plain = std::fs::File::create(state.0.join("file")).unwrap();
    plain.write_all(b"x").unwrap();
    let below =
        sbx::audit::Log::new(&state.0.join("file/below"), "s", sbx::manifest::AuditSettings::default());
    assert!(below.record(Event::new("launch", "a", json!({}))).is_err());
}

#[test]
fn a_log_that_stays_open_notices_what_others_do() {
    let state = State::new();
    let mut settings = sbx::manifest::AuditSettings::default();
    settings.max_size = 2000;
    let [open, other] = ["open", "other"].map(|name| sbx::audit::Log::new(&state.0, name, settings));
    open.stay_open();
    let say = |log: &sbx::audit::Log, number: u64| {
        log.record(Event::new("launch", "a", json!({ "number": number, "text": "x".repeat(200) }))).unwrap();
    };
    // In turns, across several rotations by either.
    for number in 0..40 {
        say(if number % 3 == 0 { &other } else { &open }, number);
    }
    let verdict = state.verdict();
    assert!(verdict.problems.is_empty() && verdict.lines >= 40, "{verdict:?}");
    // The log is taken away: what follows goes where it should be, and says what was found.
    let moved = state.0.join("moved.jsonl");
    std::fs::rename(state.0.join("audit.jsonl"), &moved).unwrap();
    let before = std::fs::metadata(&moved).unwrap().len();
    say(&open, 40);
    assert_eq!(std::fs::metadata(&moved).unwrap().len(), before);
    let text = std::fs::read_to_string(state.0.join("audit.jsonl")).unwrap();
    assert!(text.contains("\"truncated\"") && text.contains("\"number\":40"), "{text}");
    // The head is taken away.
    std::fs::remove_file(state.0.join("audit.head")).unwrap();
    say(&open, 41);
    let text = std::fs::read_to_string(state.0.join("audit.jsonl")).unwrap();
    assert!(text.contains("\"headless\"") && text.contains("\"number\":41"), "{text}");
    // Several at once are one turn, and all there.
    let many = (42..50).map(|number| Event::new("launch", "a", json!({ "number": number }))).collect();
    open.record_all(many).unwrap();
    let text = std::fs::read_to_string(state.0.join("audit.jsonl")).unwrap();
    assert!((42..50).all(|number| text.contains(&format!("\"number\":{number}}}"))), "{text}");
}
