//! `sbx report`: the page in a real browser, and its twins on the terminal and for machines.

#![expect(unreachable_pub, dead_code, reason = "the support module is shared by several test programs")]

#[path = "report/browser.rs"]
mod browser;
mod support;

use base64::Engine;
use browser::Browser;
use expect_test::expect;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::TestEnv;

/// A world with a plain agent, a hostile one, a broken one and a log that tells of refusals.
fn world() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    env.write("home/.config/sbx/config.yml", "sandbox: ~/work\n");
    env.write("home/work/site/index.html", "");
    env.write_record(
        "writer.md",
        "---\ndescription: Writes the site\nsandbox: {root: ~/work/site}\ncapabilities:\n  - fs.read\n  - fs.write: {in: ~/work/site/out}\n  - fs.delete: {in: /tmp/x}\n  - proc.exec: {cmds: [git, 'make']}\n  - net.get: {hosts: ['*.example.org']}\n  - net.post: {hosts: ['*.example.org']}\nlimits: {wall: 60}\n---\n",
    );
    env.write_record(
        "hostile.md",
        "---\ndescription: '</span><script>window.hit=1</script><img src=x onerror=\"window.hit=2\">\u{202e}'\ncapabilities:\n  - fs.read: {in: ~/work, paths: ['<img src=x onerror=window.hit=3>']}\n---\n",
    );
    env.write_record("broken.md", "---\nlimits: {<b>: 1}\n---\n");
    for path in ["~/secret", "~/work/<script>window.hit=4</script>"] {
        let denied = env.sbx(&["check", "--agent", "writer", "fs.write", path]);
        assert!(denied.contains("[exit 1]"), "{denied}");
        let told = env.sbx(&["exec", "--agent", "writer", "--", "rm", path]);
        assert!(told.contains("[exit 126]"), "{told}");
    }
    let file = env.home().join("report.html");
    let wrote = env.sbx(&["report", "--html", &file.display().to_string()]);
    assert!(wrote.contains("wrote [HOME]/report.html\n[exit 0]"), "{wrote}");
    (env, file)
}

/// Pictures are kept where `SBX_TEST_SCREENSHOTS` says, for people to look at.
fn keep(name: &str, picture: &str) -> Vec<u8> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(picture).expect("base64");
    assert!(bytes.starts_with(b"\x89PNG"), "{name} is a picture");
    if let Some(dir) = std::env::var_os("SBX_TEST_SCREENSHOTS") {
        std::fs::write(Path::new(&dir).join(name), &bytes).expect("a picture is kept");
    }
    bytes
}

/// The least contrast of any visible text with what is behind it.
const LEAST_CONTRAST: &str = r#"(() => {
  const parts = (c) => c.match(/[\d.]+/g).map(Number);
  const light = (c) => { const f = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
    const [r, g, b] = parts(c); return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const p = parts(c); if (p.length < 4 || p[3] > 0) return c; } return "rgb(255,255,255)"; };
  let least = 99, where = "";
  for (const e of document.querySelectorAll("body *")) {
    if (!e.getClientRects().length || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least) { least = ratio; where = e.outerHTML.slice(0, 80); }
  }
  return [least, where];
})()"#;

#[test]
fn the_page_stands_alone_and_shows_what_is_true() {
    let (env, file) = world();
    let mut browser = Browser::start(&env.home());
    browser.open(&file);
    let names =
        browser.eval("[...document.querySelectorAll('.agent .name')].map((name) => name.textContent)");
    assert_eq!(names, json!(["broken", "hostile", "writer", "builder", "fetcher", "scout"]));
    let writer = "[...document.querySelectorAll('.agent')].find((a) => a.querySelector('.name').textContent === 'writer')";
    let text = browser.eval(&format!("{writer}.textContent.replace(/\\s+/g, ' ')"));
    let text = text.as_str().expect("text");
    for told in
        ["*.example.org get, post high", "git", "make", "clamped", "limits wall 60s", "Writes the site"]
    {
        assert!(text.contains(told), "{told} in {text}");
    }
    let branches =
        browser.eval(&format!("[...{writer}.querySelectorAll('strong')].map((b) => b.textContent)"));
    assert_eq!(branches, json!(["read", "write", "delete", "run", "reach", "besides"]));
    let refusals =
        browser.eval("[...document.querySelectorAll('#refusals tbody tr')].map((r) => r.textContent)");
    let refusals = refusals.as_array().expect("rows").clone();
    assert_eq!(refusals.len(), 2);
    assert!(refusals[0].as_str().is_some_and(|row| row.contains("<script>window.hit=4")), "{refusals:?}");
    assert_eq!(
        browser.eval("document.querySelectorAll('#activity rect.bar-denied[height=\"100\"]').length"),
        json!(1)
    );

    let asked: Vec<&Value> = browser
        .events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent")
        .map(|event| &event["params"]["request"]["url"])
        .collect();
    assert_eq!(asked.len(), 1, "only the page itself was asked for: {asked:?}");
}

#[test]
fn nothing_a_record_or_the_log_says_becomes_markup_or_runs() {
    let (env, file) = world();
    let mut browser = Browser::start(&env.home());
    browser.open(&file);
    assert_eq!(browser.eval("typeof window.hit"), json!("undefined"));
    assert_eq!(browser.eval("document.querySelectorAll('img, .agent script, .agent b').length"), json!(0));
    let about = browser.eval("document.querySelectorAll('.about')[1].textContent");
    assert_eq!(
        about,
        json!("</span><script>window.hit=1</script><img src=x onerror=\"window.hit=2\">\\u{202e}")
    );
    let said: Vec<String> = browser
        .events
        .iter()
        .filter(|event| event["method"] == "Log.entryAdded" || event["method"] == "Runtime.exceptionThrown")
        .map(ToString::to_string)
        .collect();
    assert!(said.is_empty(), "the browser complains of nothing: {said:?}");
    // Were something to slip through all the same, the page's own policy refuses to run it.
    browser.eval("document.body.insertAdjacentHTML('beforeend', '<b id=slip onclick=\"window.hit=5\">x</b>'), document.getElementById('slip').click()");
    browser.eval("{ const s = document.createElement('script'); s.textContent = 'window.hit=6'; document.body.append(s); }");
    assert_eq!(browser.eval("typeof window.hit"), json!("undefined"));
}

#[test]
fn the_page_is_read_in_light_and_dark_on_wide_and_small_screens() {
    let (env, file) = world();
    let mut browser = Browser::start(&env.home());
    browser.open(&file);
    let mut pictures = Vec::new();
    for (width, scheme) in [(1100, "light"), (1100, "dark"), (320, "light"), (320, "dark")] {
        browser.dress(width, scheme);
        browser.eval("document.getElementById('open-all').click()");
        let wide = browser.eval("document.documentElement.scrollWidth").as_u64().expect("a width");
        assert!(wide <= u64::from(width), "{wide} pixels on a screen of {width}");
        let contrast = browser.eval(LEAST_CONTRAST);
        assert!(contrast[0].as_f64().is_some_and(|least| least >= 4.5), "{scheme} {width}: {contrast}");
        pictures.push(keep(&format!("report-{width}-{scheme}.png"), &browser.picture()));
    }
    assert!(pictures[0] != pictures[1] && pictures[2] != pictures[3], "dark is another picture");
}

#[test]
fn the_page_is_worked_from_the_keyboard() {
    let (env, file) = world();
    let mut browser = Browser::start(&env.home());
    browser.open(&file);
    let focus = "document.activeElement.textContent.trim().split(/\\s+/)[0]";
    browser.eval("document.querySelector('.agent summary').focus()");
    browser.key("ArrowDown");
    browser.key("ArrowDown");
    assert_eq!(browser.eval("document.activeElement.querySelector('.name').textContent"), json!("writer"));
    assert_eq!(browser.eval("document.activeElement.parentElement.open"), json!(false));
    browser.key("Enter");
    assert_eq!(browser.eval("document.activeElement.parentElement.open"), json!(true));
    browser.key("ArrowRight");
    assert_eq!(browser.eval(focus), json!("read"));
    browser.key("ArrowLeft");
    assert_eq!(browser.eval("document.activeElement.parentElement.open"), json!(false));
    browser.key("ArrowLeft");
    assert_eq!(browser.eval("document.activeElement.querySelector('.name').textContent"), json!("writer"));
    browser.key("/");
    assert_eq!(browser.eval("document.activeElement.id"), json!("filter"));
    "example.org".chars().for_each(|c| browser.key(&c.to_string()));
    let shown = "[...document.querySelectorAll('.agent')].filter((a) => !a.hidden).length";
    assert_eq!(browser.eval(shown), json!(1));
    assert_eq!(browser.eval("document.getElementById('count').textContent"), json!("1 of 6 agents"));
    browser.key("Escape");
    assert_eq!(browser.eval(shown), json!(6));
}

#[test]
fn two_versions_of_a_record_are_compared() {
    let env = TestEnv::new();
    env.write("project/old.md", "---\nid: a\ncapabilities:\n  - fs.write: {in: ~/w}\n  - net.get: {hosts: [a.example]}\nenv: [TERM]\n---\n");
    env.write("project/new.md", "---\nid: a\ncapabilities:\n  - fs.write: {in: ~/w, paths: [out]}\n  - net.get: {hosts: [A.example.]}\n  - proc.eval: {in: ~/w}\n---\n");
    let shown = env.sbx(&["report", "--agent", "scout", "--diff", "old.md", "new.md"]);
    let compared = shown.split("\n\n").find(|part| part.contains("old.md to")).expect("a comparison");
    expect![[r#"
        [PROJECT]/old.md to [PROJECT]/new.md: wider and narrower, 1 grants as before
          + high    fs.write{in=[HOME]/w,paths=[out]}  (held by another grant of the other version)
          + high    proc.eval{in=[HOME]/w}
          - high    fs.write{in=[HOME]/w}
          -         environment: TERM"#]]
    .assert_eq(compared);
    let page = env.sbx(&["report", "--html", "-", "--diff", "old.md", "new.md"]);
    assert!(page.contains("<strong>wider and narrower</strong>"), "{page}");
    let schema = env.json(&["schema", "report"]);
    let answer = env.json(&["report", "--json", "--diff", "old.md", "new.md"]);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(&answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(answer["difference"]["direction"], "wider and narrower");
}

#[test]
fn what_cannot_be_written_or_understood_is_said() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: cannot write [PROJECT]/no/such.html
          caused by: No such file or directory (os error 2)
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["report", "--html", "no/such.html"]));
    expect![[r#"
        [stderr]
        error: `soon` is not a time
          hint: a date (2026-01-31), a date and time in UTC, or how long ago (12h, 30d)
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["report", "--since", "soon"]));
}
