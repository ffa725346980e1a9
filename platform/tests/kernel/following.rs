//! What a command and everything it starts asks for is told, with the answers, and nothing else changes.

use std::path::Path;

use sbx_platform::plan::{Plan, Rights};
use sbx_platform::report::{Act, Verb};
use sbx_platform::{End, Outcome};

use crate::support::Verdict::{self, Failed, Passed};
use crate::support::{World, same};

type Case = fn(&World) -> Verdict;

/// Every case with the sentence it checks.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("reading, looking and changing are told with their answers", files),
    ("programs are told with their words, in the whole tree", programs),
    ("addresses and names are told", network),
    ("threads are followed too", threads),
    ("a followed command ends as it would have ended", endings),
    ("a followed command can be stopped and continued", stopped),
    ("a followed command cannot follow others", no_following),
];

fn follow(world: &World, mut plan: Plan) -> Result<Outcome, String> {
    plan.trace = true;
    world.launch(&plan).map_err(|error| error.to_string())
}

/// A plan that runs shell text.
fn shell(world: &World, text: &str) -> Plan {
    let mut plan = world.plan(&[]);
    plan.program = std::fs::canonicalize("/bin/sh").unwrap();
    plan.argv = ["sh", "-c", text].map(Into::into).to_vec();
    plan.env.push(("PATH".into(), "/usr/bin:/bin".into()));
    plan
}

fn told<'a>(acts: &'a [Act], verb: Verb, path: &Path) -> Option<&'a Act> {
    acts.iter().find(|act| act.verb == verb && act.path == path)
}

macro_rules! tells {
    ($outcome:expr, $verb:expr, $path:expr, $($error:literal)|+) => {
        match told(&$outcome.acts, $verb, Path::new(&$path)) {
            Some(act) if matches!(act.error, $($error)|+) => {}
            other => return Failed(format!("{:?} {:?}: {other:?}", $verb, $path)),
        }
    };
}

macro_rules! followed {
    ($world:expr, $plan:expr) => {
        match follow($world, $plan) {
            Ok(outcome) => outcome,
            Err(error) => return Failed(error),
        }
    };
}

fn files(world: &World) -> Verdict {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (note, key, new, moved) = (
        text(&world.read("note")),
        text(&world.secret("key")),
        text(&world.work("new")),
        text(&world.work("moved")),
    );
    let made = text(&world.read("made"));
    let words = [
        "then", "read", &note, ";", "stat", &key, ";", "write", &new, ";", "rename", &new, &moved, ";",
        "write", &made, ";", "remove", &moved, ";", "mkdir", "below",
    ];
    let outcome = followed!(world, world.plan(&words));
    tells!(outcome, Verb::Read, note, 0);
    tells!(outcome, Verb::Look, key, 0 | 2);
    tells!(outcome, Verb::Write, new, 0);
    tells!(outcome, Verb::Remove, new, 0);
    tells!(outcome, Verb::Write, moved, 0);
    tells!(outcome, Verb::Remove, moved, 0);
    tells!(outcome, Verb::Write, made, 13 | 30);
    tells!(outcome, Verb::Write, world.work("below"), 0);
    // The same where the broker performs what is asked.
    let mut guarded = world.with_rights(world.plan(&words), Rights::READ | Rights::LIST | Rights::WRITE);
    guarded.protect.push(world.work("kept"));
    let outcome = followed!(world, guarded);
    tells!(outcome, Verb::Read, note, 0);
    tells!(outcome, Verb::Write, new, 0);
    tells!(outcome, Verb::Remove, new, 1 | 13);
    tells!(outcome, Verb::Write, made, 13 | 30);
    Passed
}

fn programs(world: &World) -> Verdict {
    let outcome = followed!(world, shell(world, "(sh -c 'exec /usr/bin/env true one') & wait; /no/such; :"));
    let run: Vec<&Act> = outcome.acts.iter().filter(|act| act.verb == Verb::Run).collect();
    let env = run.iter().find(|act| act.path == Path::new("/usr/bin/env"));
    same!(
        "words",
        env.map(|act| act.words.clone()),
        Some(["/usr/bin/env", "true", "one"].map(Into::into).to_vec())
    );
    tells!(outcome, Verb::Run, "/usr/bin/true", 0);
    tells!(outcome, Verb::Run, "/no/such", 2);
    Passed
}

fn network(world: &World) -> Verdict {
    let outcome = followed!(world, world.plan(&["connect", "192.0.2.1:80"]));
    match told(&outcome.acts, Verb::Connect, Path::new("192.0.2.1:80")) {
        Some(act) if act.error != 0 => Passed,
        // Where no socket can be made, there is nothing to connect.
        None if world.backend == sbx_platform::Backend::Landlock => Passed,
        other => Failed(format!("{other:?}")),
    }
}

fn threads(world: &World) -> Verdict {
    let text = |name: &str| world.work(name).to_str().unwrap().to_owned();
    let outcome = followed!(world, world.plan(&["threads", &text("one"), &text("two")]));
    tells!(outcome, Verb::Write, text("one"), 0);
    tells!(outcome, Verb::Write, text("two"), 0);
    same!("end", outcome.end, End::Exited(0));
    Passed
}

fn endings(world: &World) -> Verdict {
    for (text, end) in [
        ("exit 7", End::Exited(7)),
        ("kill -TERM $$", End::Signaled(15)),
        ("trap 'exit 3' USR1; kill -USR1 $$; exit 4", End::Exited(3)),
        ("(sleep 60 &) ; exit 0", End::Exited(0)),
    ] {
        same!(text, followed!(world, shell(world, text)).end, end);
    }
    let mut missing = world.plan(&[]);
    missing.program = "/no/such/program".into();
    match followed!(world, missing).end {
        End::Setup(failure) if failure.errno == 2 => Passed,
        other => Failed(format!("a program that is not there: {other:?}")),
    }
}

fn stopped(world: &World) -> Verdict {
    let text = "sh -c 'while :; do sleep 0.05; done' & p=$!; kill -STOP $p; sleep 0.2; \
        read -r _ _ state _ < /proc/$p/stat; kill -CONT $p; kill -TERM $p; wait $p; echo $state $?";
    let outcome = followed!(world, shell(world, text));
    // Who is followed is stopped by whoever follows, which has a letter of its own.
    same!("state while stopped", String::from_utf8_lossy(&outcome.stdout).trim_end(), "t 143");
    Passed
}

fn no_following(world: &World) -> Verdict {
    let mut plan = world.plan(&["follow"]);
    plan.trace = true;
    same!("ptrace", world.says_under(&plan), "errno 1");
    Passed
}
