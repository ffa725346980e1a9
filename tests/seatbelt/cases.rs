//! The containment cases about files, programs, protected paths, sockets and network, answered by the profile.

use super::evaluate::Thing;
use super::mac::{HOME, Mac, PROXY, TMP, policy, profile};
use super::read::Profile;
use std::collections::BTreeSet;

const CASES: &str = include_str!("cases.txt");
const CORPUS: &str = include_str!("../containment/corpus.json");
const ANSWERED: &[&str] =
    &["fs-read", "fs-write", "protected-path", "exec-allow", "net", "net-proxy", "ipc", "arg-injection"];

/// Whether an act in words would be allowed.
pub(crate) fn allows(profile: &Profile, act: &str, what: &str) -> bool {
    let path = || Thing::Path(what.into());
    let remote = || {
        let (host, port) = what.split_once(':').expect("host and port");
        Thing::Remote(host.to_owned(), port.parse().expect("a port"))
    };
    match act {
        "read" | "list" => profile.allows("file-read-data", &path()),
        "stat" => profile.allows("file-read-metadata", &path()),
        "xattr" => profile.allows("file-read-xattr", &path()),
        "write" | "truncate" => profile.allows("file-write-data", &path()),
        "create" | "mkdir" => profile.allows("file-write-create", &path()),
        "delete" => profile.allows("file-write-unlink", &path()),
        "chmod" => profile.allows("file-write-mode", &path()),
        "setuid" => profile.allows("file-write-setugid", &path()),
        "setxattr" => profile.allows("file-write-xattr", &path()),
        "link" => profile.allows("file-link", &path()),
        "rename" => {
            let (from, to) = what.split_once(" -> ").expect("from and to");
            allows(profile, "delete", from) && allows(profile, "create", to)
        }
        // Onto something that is there, which goes.
        "replace" => {
            let (_, to) = what.split_once(" -> ").expect("from and to");
            allows(profile, "rename", what) && allows(profile, "delete", to)
        }
        "exec" => profile.allows("process-exec", &path()),
        "map" => profile.allows("file-map-executable", &path()),
        "unix" => profile.allows("network-outbound", &Thing::Socket(what.into())),
        "connect" => profile.allows("network-outbound", &remote()),
        "bind" => profile.allows("network-bind", &Thing::Nothing),
        "accept" => profile.allows("network-inbound", &Thing::Nothing),
        "socket" => profile.allows("system-socket", &Thing::Nothing),
        "mach" => profile.allows("mach-lookup", &Thing::Named("mach", what.to_owned())),
        "sysctl" => profile.allows("sysctl-read", &Thing::Named("sysctl", what.to_owned())),
        "sysctl-write" => profile.allows("sysctl-write", &Thing::Named("sysctl", what.to_owned())),
        "sysv" => profile.allows("ipc-sysv-shm", &Thing::Nothing),
        "appleevent" => profile.allows("appleevent-send", &Thing::Nothing),
        "lsopen" => profile.allows("lsopen", &Thing::Nothing),
        other => panic!("the act {other} is not known"),
    }
}

fn record(policy: &str) -> String {
    let files = "class: agent\ncapabilities:\n  - fs.read: {in: /Users/u/b/ws}\n  - fs.write: {in: /Users/u/b/ws}\n  - fs.delete: {in: /Users/u/b/ws}\n  - fs.read: {in: /Users/u/b/ro}\n";
    let rest = match policy {
        "closed" => "  - proc.exec: {in: /Users/u/b/ws}\n",
        "net-proxy" => {
            "  - proc.exec: {in: /Users/u/b/ws}\n  - net.get: {hosts: [allowed.test, \"*.wild.test\"]}\n"
        }
        "exec-rg" => "  - proc.exec: {in: /Users/u/b/ws, cmds: [/usr/bin/rg]}\n",
        "exec-find" => "  - proc.exec: {in: /Users/u/b/ws, cmds: [/usr/bin/find]}\n",
        other => panic!("the policy {other} is not known"),
    };
    format!("id: agents/me\n{files}{rest}")
}

fn profile_of(name: &str) -> Profile {
    let mac = Mac::new(
        &["/Users/u/b/ws/.git/hooks", "/Users/u/b/ws/agents", "/Users/u/b/ro", "/Users/u/b/out"],
        &["/Users/u/b/ws/agents/me.yml", "/Users/u/b/ws/.git/index", "/Users/u/b/ws/sbx.toml"],
    );
    let program = if name == "exec-find" { "/usr/bin/find" } else { "/usr/bin/rg" };
    let own = policy(&record(name), "/Users/u/b/ws/agents/me.yml", "/Users/u/b/ws");
    profile(&own, &mac, &[program], "/Users/u/b/ws").1
}

fn place(text: &str) -> String {
    let pairs = [
        ("{W}", "/Users/u/b/ws"),
        ("{RO}", "/Users/u/b/ro"),
        ("{OUT}", "/Users/u/b/out"),
        ("{B}", "/Users/u/b"),
        ("{HOME}", "/Users/u"),
        ("{PRIVATE_HOME}", HOME),
        ("{TMP}", TMP),
    ];
    let text = pairs.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value));
    text.replace("{PROXY}", &PROXY.to_string())
}

#[test]
fn every_containment_case_gets_its_verdict_from_the_profile() {
    let corpus: serde_json::Value = serde_json::from_str(CORPUS).expect("the corpus is JSON");
    let mut unanswered = BTreeSet::new();
    let mut policies = std::collections::BTreeMap::new();
    for case in corpus["cases"].as_array().expect("cases") {
        let text = |key: &str| case[key].as_str().expect("text").to_owned();
        if ANSWERED.contains(&text("class").as_str()) {
            unanswered.insert(text("id"));
        }
        policies.insert(text("id"), text("policy"));
    }
    let profiles: std::collections::BTreeMap<&str, Profile> = ["closed", "net-proxy", "exec-rg", "exec-find"]
        .into_iter()
        .map(|name| (name, profile_of(name)))
        .collect();
    let (mut answered, mut wrong) = (0, Vec::new());
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, verdict, act, what] = cells[..] else { panic!("{line}") };
        let policy = policies.get(id).unwrap_or_else(|| panic!("there is no case {id}"));
        unanswered.remove(id);
        if verdict == "elsewhere" {
            assert!(what.len() > 10, "{id} needs a reason");
            continue;
        }
        answered += 1;
        let profile = &profiles[policy.as_str()];
        if allows(profile, act, &place(what)) != (verdict == "allow") {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "the profile says otherwise:\n{}", wrong.join("\n"));
    assert!(unanswered.is_empty(), "no answer to {unanswered:?}");
    assert!(answered > 150, "{answered} acts only");
}

#[test]
fn signals_and_terminals_stay_within_the_launch() {
    let profile = profile_of("closed");
    for operation in ["signal", "process-info*", "mach-priv-task-port"] {
        assert!(profile.allows(operation, &Thing::Process { same_sandbox: true }));
        assert!(!profile.allows(operation, &Thing::Process { same_sandbox: false }));
    }
    for operation in ["file-read-data", "file-write-data", "file-ioctl"] {
        assert!(!profile.allows(operation, &Thing::Path("/dev/ttys003".into())), "a terminal of the user's");
        assert!(profile.allows(operation, &Thing::Path("/dev/ptmx".into())));
    }
    assert_eq!(profile.tag, "sbx-test");
}
