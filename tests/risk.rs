//! The risk layer against a corpus: dangerous lines in many disguises, and harmless ones that look alike.
//!
//! Prints recall and the rate of false alarms; every line that is missed or wrongly denied is named.
#![expect(clippy::panic, reason = "a test that cannot go on should say so and stop")]

use sbx::manifest::{RiskSettings, Severity};
use sbx::risk::{Assessment, Context, MAX_BYTES, RuleSet, Scene, assess, prove};
use sbx::{Facts, Policy};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn corpus(name: &str) -> Vec<(String, Option<String>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/risk");
    // The second half was written later, without looking at the rules.
    let text: String = ["", "more-"]
        .map(|half| dir.join(format!("{half}{name}")))
        .map(|path| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
        .concat();
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !is_comment(line));
    lines
        .map(|line| {
            let (text, expected) =
                line.split_once('\t').map_or((line, None), |(text, rest)| (text, Some(rest)));
            (text.replace("\\n", "\n"), expected.filter(|rest| !rest.is_empty()).map(str::to_owned))
        })
        .collect()
}

/// A comment of the corpus; one that is itself a line to be looked at names a command.
fn is_comment(line: &str) -> bool {
    line.starts_with("# ") && !line.starts_with("# rm")
}

fn look<'r>(text: &str, rules: &'r RuleSet) -> Assessment<'r> {
    let scene = Scene::new("/home/u").at("/home/u/app");
    assess(text, &scene, rules, &RiskSettings::default(), &Context::default())
}

fn ids(assessment: &Assessment<'_>) -> Vec<String> {
    assessment.matched().iter().map(|matched| matched.rule.id.clone()).collect()
}

#[test]
fn danger_is_found_in_every_disguise() {
    let rules = RuleSet::builtin();
    let lines = corpus("dangerous.txt");
    let mut missed = Vec::new();
    for (text, rule) in &lines {
        let found = look(text, &rules);
        let named = rule.as_ref().is_none_or(|rule| ids(&found).contains(rule));
        if found.allowed() || !named {
            missed.push(format!("{text:?}: wanted {rule:?}, found {:?} {:?}", ids(&found), found.denial()));
        }
    }
    let share = (lines.len() - missed.len()) as f64 / lines.len() as f64;
    println!("recall: {} of {} lines, {:.1} %", lines.len() - missed.len(), lines.len(), share * 100.0);
    assert!(lines.len() >= 300, "the corpus has shrunk to {}", lines.len());
    assert!(missed.is_empty(), "\n{}\n", missed.join("\n"));
}

#[test]
fn look_alikes_are_left_alone() {
    let rules = RuleSet::builtin();
    let lines = corpus("harmless.txt");
    let (mut denied, mut noisy) = (Vec::new(), Vec::new());
    for (text, most) in &lines {
        let found = look(text, &rules);
        let most = most.as_deref().map(|most| Severity::from_name(most).unwrap_or_else(|| panic!("{most}")));
        if !found.allowed() {
            denied.push(format!("{text:?}: {:?} {:?}", ids(&found), found.denial()));
        } else if found.severity() > most {
            noisy.push(format!("{text:?}: {:?}", ids(&found)));
        }
    }
    let share = denied.len() as f64 / lines.len() as f64;
    println!("false alarms: {} of {} lines, {:.1} %", denied.len(), lines.len(), share * 100.0);
    assert!(lines.len() >= 200, "the corpus has shrunk to {}", lines.len());
    assert!(
        denied.is_empty() && noisy.is_empty(),
        "\ndenied:\n{}\nfound more than expected:\n{}\n",
        denied.join("\n"),
        noisy.join("\n")
    );
}

/// The checks that people know from elsewhere are here under the same names, in the same groups, as bad as there.
#[test]
fn known_checks_keep_their_names() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/risk/checks.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rules = RuleSet::builtin();
    let mut wrong = Vec::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &lines {
        let [id, group, severity] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        match rules.rules().find(|rule| rule.id == id) {
            None => wrong.push(format!("{id} is missing")),
            Some(rule) if rule.group != group || rule.severity.name() != severity => {
                wrong.push(format!(
                    "{id} is {} in {}, not {severity} in {group}",
                    rule.severity.name(),
                    rule.group
                ));
            }
            Some(_) => {}
        }
    }
    assert_eq!(lines.len(), 210);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Whatever leads to `rm -rf /` leads to other commands too: a disguise is seen through, not recognised by its load.
#[test]
fn disguises_hide_no_other_load() {
    let rules = RuleSet::builtin();
    let loads = [("reboot", "base:reboot_machine"), ("git push -f", "git:force_push")];
    let (mut tried, mut missed) = (0, Vec::new());
    for (text, _) in corpus("dangerous.txt") {
        let Some((before, after)) = text.split_once("rm -rf /") else { continue };
        // Only the whole command: not a path below the root, nor one of several words of it.
        let whole = after.is_empty()
            || after.starts_with(['\'', '"', ';', '\n', ')', '`', '}', '|', '&'])
            || after.starts_with(" ");
        if !whole
            || before.is_empty()
            || before.ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '/')
        {
            continue;
        }
        tried += 1;
        for (load, id) in loads {
            let line = format!("{before}{load}{after}");
            // A single word that a program nobody knows is given may mean anything.
            if load == "reboot"
                && ["mywrapper ", "./tools/retry "].iter().any(|name| before.starts_with(name))
            {
                continue;
            }
            if !ids(&look(&line, &rules)).iter().any(|found| found == id) {
                missed.push(format!("{line:?}"));
            }
        }
    }
    println!("{tried} disguises with other loads");
    assert!(tried >= 100, "only {tried} disguises");
    assert!(missed.is_empty(), "{} missed\n{}\n", missed.len(), missed.join("\n"));
}

/// What bash can read, sbx can; what it cannot, sbx refuses. Syntax is checked, nothing is run.
#[test]
fn the_grammar_is_that_of_bash() {
    let rules = RuleSet::builtin();
    let mut differ = Vec::new();
    // Queries are in the corpus as they are typed into their own clients.
    let shell = |text: &str| !text.starts_with("db.");
    let broken = [
        "if true; then",
        "for x in",
        "echo 'a",
        "echo \"a",
        "echo $(",
        "(ls",
        "ls)",
        "{ ls",
        "case x in",
        "| ls",
        "ls |",
        "ls &&",
        "&& ls",
        "ls ;; ls",
        "while true; do",
        "fi",
        "then",
        "done",
        "echo ${",
        "cat <(",
        "[[ a",
        "f() ",
        "else",
        "ls & && ls",
        "; ls",
        "()",
        "( )",
        "if ; then ls; fi",
        "for ; do ls; done",
        "}",
        "a=(",
        "echo `ls",
        "case x in a) ls ;; b",
        "! | ls",
        "ls || || ls",
        "ls | | ls",
        ">",
        "ls >",
    ];
    let lines = corpus("dangerous.txt").into_iter().chain(corpus("harmless.txt")).map(|(text, _)| text);
    let all: Vec<String> = lines.filter(|text| shell(text)).chain(broken.map(str::to_owned)).collect();
    for text in &all {
        let status = Command::new("bash").args(["-n", "-c", text]).stderr(Stdio::null()).status();
        let bash = status.unwrap_or_else(|error| panic!("bash is needed to compare with: {error}")).success();
        if bash != look(text, &rules).error().is_none() {
            differ.push(format!("{text:?}: bash {bash}, {:?}", look(text, &rules).error()));
        }
    }
    assert!(differ.is_empty(), "\n{}\n", differ.join("\n"));
}

/// Which lines of a here-document are data and which are commands: `say N` is one where bash or dash runs it, and
/// none where neither does. Where they do not agree, sbx refuses to read the text.
#[test]
fn here_documents_end_where_shells_end_them() {
    let rules = RuleSet::builtin();
    let texts = [
        "cat <<E\nsay 1\nE\nsay 2",
        "cat <<'E'\nsay 1\n$(say 2)\nE\nsay 3",
        "cat <<E\n$(say 1)\nsay 2\nE\nsay 3",
        "cat <<-E\n\tsay 1\n\tE\nsay 2",
        "cat <<E\nx\\\nE\nsay 1\nE\nsay 2",
        "cat <<'E'\nx\\\nE\nsay 1",
        "cat <<E\nx\nE\\\n\nsay 1\nE\nsay 2",
        "cat <<${x}\nsay 1\n${x}\nsay 2",
        "cat <<\"$x\"\nsay 1\n$x\nsay 2",
        "cat <<E''\nsay 1\n$(say 2)\nE\nsay 3",
        "cat <<\\E\n$(say 1)\nE\nsay 2",
        "cat <<A; cat <<B\nsay 1\nA\nsay 2\nB\nsay 3",
        "cat <<A <<B\nsay 1\nA\nsay 2\nB\nsay 3",
        "cat <<A; x=$(\nsay 1\n)\nsay 2\nA\nsay 3",
        "echo $(cat <<E\nsay 1\nE\n)\nsay 2",
        "echo $(cat <<E)\nsay 1\nE\nsay 2",
        "(cat <<E)\nsay 1\nE\nsay 2",
        "{ cat <<E; say 1; }\nsay 2\nE\nsay 3",
        "cat <<E | (\nsay 1\nE\nsay 2\n)",
        "if cat <<E; then say 1; fi\nsay 2\nE\nsay 3",
        "cat <<E && say 1\nsay 2\nE\nsay 3",
        "cat <<E\n`say 1`\n\\`say 2\\`\nE\nsay 3",
        "cat <<E\n$(cat <<F\nsay 1\nF\nsay 2)\nE\nsay 3",
        "cat <<$'E'\nsay 1\nE\nsay 2",
        "cat <<E\nsay 1\nE \nsay 2\nE\nsay 3",
        "cat <<E\nsay 1",
        "f() { cat <<E\nsay 1\nE\n}; f; say 2",
        "echo $((1 << 2)); say 1",
        "echo \"$(cat <<E\n\"\nsay 1\nE\n)\"; say 2",
    ];
    let mut differ = Vec::new();
    for text in texts {
        let ran = |shell: &str| {
            let script = format!("say() {{ echo \"ran $1.\" >&2; }}\n{text}\n");
            let output = Command::new(shell).args(["-c", &script]).stdin(Stdio::null()).output();
            let output = output.unwrap_or_else(|error| panic!("{shell} is needed to compare with: {error}"));
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            (1..9).filter(|number| told.contains(&format!("ran {number}."))).collect::<Vec<u32>>()
        };
        let (bash, dash) = (ran("bash"), ran("dash"));
        let found = look(text, &rules);
        let seen = found.to_json()["argv"].to_string();
        let seen: Vec<u32> =
            (1..9).filter(|number| seen.contains(&format!("[\"say\",\"{number}\"]"))).collect();
        // dash does not know every way to write one, and then runs nothing.
        let agree = bash == dash || dash.iter().all(|number| bash.contains(number));
        let fits = if found.error().is_some() { !agree || bash != dash } else { agree && seen == bash };
        if !fits {
            differ.push(format!("{text:?}: bash {bash:?}, dash {dash:?}, sbx {seen:?} {:?}", found.error()));
        }
    }
    assert!(differ.is_empty(), "\n{}\n", differ.join("\n"));
}

/// Shapes that make parsers slow or deep, each as long as is looked at.
#[test]
fn hostile_text_is_bounded() {
    let rules = RuleSet::builtin();
    let shapes = [
        "( ",
        "{ ",
        "$(",
        "`",
        "if ",
        "[[ ( ",
        "((",
        "$((",
        "${x:-",
        "case a in a) ",
        "a;",
        "a|",
        "a&&",
        "{a,b}",
        "$x",
        "\"$(",
        "<(",
        "<<E\n",
        "'a' ",
        "f() { ",
        "x() { x; }; ",
        "for a in b c d e f g h; do ",
        "a=$a$a;",
        "*",
        "rm ",
        "-",
        "\\",
        "eval ",
        "sh -c ",
        "sudo ",
        "\u{1}",
        "é",
        "!",
        "time ",
        "[",
        "$'\\x",
        "=( ",
        "coproc ",
        "(( $( ",
        "$(( $( ",
        "\"`",
        "&>",
        "alias a='a a';a ",
        "find -exec ",
        "xargs ",
        "env -S ",
        "git -c alias.x=!",
    ];
    let mut slowest = (Duration::ZERO, "");
    for shape in shapes {
        for closing in ["", ")", "; done"] {
            let text: String = shape.repeat(MAX_BYTES / shape.len() / 2) + &closing.repeat(64);
            let start = Instant::now();
            let found = look(&text, &rules);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(20), "{shape:?} takes {took:?}");
            assert!(found.error().is_none() || !found.allowed());
            slowest = slowest.max((took, shape));
        }
    }
    println!("the slowest of {} shapes of 32 kB: {:?} for {:?}", shapes.len(), slowest.0, slowest.1);
    assert!(look(&"a ".repeat(MAX_BYTES), &rules).error().is_some(), "what is too long is not looked at");
}

#[test]
fn what_is_not_certain_needs_eval() {
    let facts = Facts::new("/home/u").at("/home/u/app");
    let specs = [
        "proc.exec{in=/home/u/app,cmds=[ls,git,env]}",
        "fs.write{in=/home/u/app}",
        "fs.read{in=/home/u/app}",
    ];
    let specs: Vec<_> =
        specs.iter().map(|spec| sbx::manifest::parse_spec(spec, &facts).expect("a spec")).collect();
    let policy = Policy::from_specs("a", &specs, &facts).expect("a policy");
    let scene = Scene::new("/home/u").at("/home/u/app");
    let holds = |text: &str| prove(&policy, text, &scene).holds();
    for text in [
        "ls",
        "ls -la && git status",
        "ls > out.txt",
        "cd sub && ls",
        "env A=1 ls",
        "ls 2>/dev/null",
        "ls | git diff",
        "if ls; then git log; fi",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        "rm x",
        "ls; rm x",
        "$X",
        "ls $X",
        "ls *",
        "eval ls",
        "sh -c ls",
        "ls > /etc/passwd",
        "ls > ../out",
        "ls > $X",
        "env rm x",
        "$(ls)",
        "git $(ls)",
        "ls <(rm x)",
        "x=rm; $x y",
        ". ./x",
        "python3 -c 1",
        "ls | xargs git",
        "ls 'unclosed",
        "LD_PRELOAD=x ls",
        "PATH=/tmp ls",
        "PATH=/tmp; ls",
        "export PATH=/tmp; ls",
        "export LD_PRELOAD=x; ls",
        "LD_PRELOAD=x; export LD_PRELOAD; ls",
        "declare -x GIT_PAGER=x; git log",
        "PYTHONPATH=x ls",
        "f() { rm x; }; f",
        "alias ls=rm; ls",
        "git -c core.pager=x log",
        "exec ls; rm x",
        "ls\nrm x",
        "ls & rm x",
        "{ls,-la}; rm x",
        "trap 'rm x' EXIT",
        "cd / && ls",
        "GIT_SSH_COMMAND=x git fetch",
        "< /etc/shadow ls",
    ] {
        assert!(!holds(&text.replace("\\n", "\n")), "{text}");
    }
}
