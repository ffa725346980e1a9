//! The vectors about tools: definitions, values, calls, layers, and commands that really run.

use sbx::audit::{Nowhere, Sink};
use sbx::manifest::Manifest;
use sbx::run::session::Session;
use sbx::run::tools::{Caller, Catalogue, Change, Stop, run_tool};
use sbx::run::{LiveFor, Setting};
use sbx::tool::{
    Action, Bound, CallFault, Definitions, Fault, Given, Layer, Surroundings, Tool, ToolCode, Toolbox,
    read_definitions, read_section,
};
use sbx::{Config, Denial, DenialCode, Facts, Policy, Source};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What sbx says about a vector of this group.
pub(crate) fn observe(vector: &Value) -> Value {
    let (input, request, expect) = (&vector["input"], &vector["request"], &vector["expect"]);
    match vector["area"].as_str().unwrap_or_default() {
        "param" => param(input, request, expect),
        "precedence" => precedence(input, request),
        "substitution" => substitution(input, request, expect),
        "tool_call" => call(input, request, expect),
        "tool_def" => definition(input, expect),
        "command" => command(input, request, expect),
        other => panic!("unknown area {other}"),
    }
}

/// Does this vector start a process inside a fence?
pub(crate) fn launches(vector: &Value) -> bool {
    vector["area"] == "command" && vector["request"].as_object().is_some_and(|request| !request.is_empty())
}

/// An error as one vector would name it: with its parameter (`code:name`), as the decision it led to, or bare.
struct Named {
    decision: &'static str,
    reason: String,
    param: Option<String>,
}

impl Named {
    fn of_fault(fault: &CallFault) -> Self {
        let param = fault.label().split_once(':').map(|(_, param)| param.to_owned());
        Self { decision: DenialCode::InvalidParams.name(), reason: fault.code.name().to_owned(), param }
    }

    fn of_denial(denial: &Denial) -> Self {
        let text = |key: &str| denial.request[key].as_str().map(str::to_owned);
        let decision = denial.code.name();
        Self { decision, reason: text("reason").unwrap_or_else(|| decision.to_owned()), param: text("param") }
    }

    fn of_failure(code: &'static str) -> Self {
        Self { decision: code, reason: code.to_owned(), param: None }
    }

    /// In the form that the expectation has.
    fn told(&self, expect: &Value) -> Value {
        let wanted = expect["error"].as_str().unwrap_or_default();
        // The vectors have one word for every place where a shell line takes no value.
        let same =
            self.reason == ToolCode::Reevaluated.name() && wanted == ToolCode::PlaceholderInsideQuotes.name();
        let name = match (&self.param, wanted.contains(':')) {
            _ if wanted == DenialCode::InvalidParams.name() => self.decision.to_owned(),
            _ if same => wanted.to_owned(),
            (Some(param), true) => format!("{}:{param}", self.reason),
            _ => self.reason.clone(),
        };
        json!({ "error": name, "valid": false })
    }
}

/// A call that failed: all that the product tells of it, and the error in the form that is expected.
fn stopped(expect: &Value, stop: &Stop) -> Value {
    let told = match stop {
        Stop::Denied(denial) => Named::of_denial(denial).told(expect),
        Stop::Failed(failure) => Named::of_failure(failure.code.name()).told(expect),
    };
    let mut got = stop.to_json();
    got["success"] = json!(false);
    if let (Some(got), Some(told)) = (got.as_object_mut(), told.as_object()) {
        got.extend(told.clone());
    }
    spelled(got)
}

/// The same under the other names that the formats have for it.
fn spelled(mut got: Value) -> Value {
    for (own, other) in [("exit_code", "exitCode"), ("uptime_ms", "uptimeMs"), ("duration_ms", "durationMs")]
    {
        if let Some(value) = got.get(own).cloned() {
            got[other] = value;
        }
    }
    got
}

/// The first fault of a definition.
fn faulty(expect: &Value, faults: &[Fault]) -> Value {
    let first = faults.first().expect("a definition that gives no tool has a fault");
    let mut got = Named::of_failure(first.code.name()).told(expect);
    got["field"] = json!(first.field);
    got
}

fn around<'a>(facts: &'a Facts, session_dir: Option<&'a Path>) -> Surroundings<'a> {
    let resolve: &dyn Fn(&Path) -> PathBuf = &sbx_platform::path::normalize;
    Surroundings { facts, session_dir, cwd: Path::new("/home/u/app"), resolve }
}

fn session_dir(input: &Value) -> Option<PathBuf> {
    input["session_dir"].as_str().map(PathBuf::from)
}

/// One command of a record's `tools`, called `c`.
fn from_record(spec: &Value) -> Definitions {
    read_definitions(&Source::new("tools.yml", json!({ "tools": { "c": spec } }).to_string()), Layer::User)
}

fn given(values: &Value, args: &Value) -> Given {
    let args = args.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Given { values: values.as_object().cloned().unwrap_or_default(), args: args.collect() }
}

fn param(input: &Value, request: &Value, expect: &Value) -> Value {
    let read = from_record(&json!({ "run": ["x", "--p=${p}"], "params": { "p": input["param"] } }));
    let Some(tool) = read.tools.first() else { return faulty(expect, &read.faults) };
    let dir = session_dir(input);
    let given = given(&json!({ "p": request["value"] }), &Value::Null);
    match tool.bind(&given, &around(&Facts::new("/home/u"), dir.as_deref())) {
        Ok(bound) => json!({ "valid": true, "argv": argv(&bound) }),
        Err(fault) => Named::of_fault(&fault).told(expect),
    }
}

fn argv(bound: &Bound) -> Value {
    match bound {
        Bound::Exec(argv) => json!(argv),
        Bound::Shell { .. } | Bound::Internal(..) => Value::Null,
    }
}

fn substitution(input: &Value, request: &Value, expect: &Value) -> Value {
    let read = from_record(&input["command"]);
    let Some(tool) = read.tools.first() else { return faulty(expect, &read.faults) };
    match tool.bind(&given(&request["vars"], &Value::Null), &around(&Facts::new("/home/u"), None)) {
        Err(fault) => Named::of_fault(&fault).told(expect),
        Ok(Bound::Shell { script, arguments }) => {
            let mut got = json!({ "shell": script });
            // What a child receives takes a shell to find out, so only who asks for it pays for one.
            if expect.get("child_words").is_some() {
                got["child_words"] = json!(crate::recorder::child_words(tool, &script, &arguments));
            }
            got
        }
        Ok(bound) => json!({ "argv": argv(&bound) }),
    }
}

fn call(input: &Value, request: &Value, expect: &Value) -> Value {
    let text = input["tool_toml"].as_str().unwrap_or_default();
    let read = read_definitions(&Source::new("t.toml", text), Layer::User);
    let Some(tool) = read.tools.first() else { return faulty(expect, &read.faults) };
    let toolbox: Toolbox = [tool.clone()].into_iter().collect();
    if let Err(denial) = toolbox.find("agent", &tool.name) {
        return Named::of_denial(&denial).told(expect);
    }
    let dir = session_dir(input);
    match tool
        .bind(&given(&request["params"], &request["args"]), &around(&Facts::new("/home/u"), dir.as_deref()))
    {
        Ok(bound) => json!({ "argv": argv(&bound) }),
        Err(fault) => {
            let mut got = Named::of_fault(&fault).told(expect);
            got["allowed"] = json!(fault.allowed);
            got
        }
    }
}

fn definition(input: &Value, expect: &Value) -> Value {
    let text = input["tool_toml"].as_str().unwrap_or_default();
    let read = read_definitions(&Source::new("t.toml", text), Layer::User);
    let Some(tool) = read.tools.first() else { return faulty(expect, &read.faults) };
    let kind = if matches!(tool.action, Action::Internal(_)) { "internal" } else { "command" };
    let mode = if matches!(tool.action, Action::Free { .. }) { "free" } else { "template" };
    let mut constraints = tool.constraints_json();
    if let (Some(all), Some(wanted)) = (constraints.as_object_mut(), expect["constraints"].as_object()) {
        all.retain(|key, _| wanted.contains_key(key));
    }
    json!({
        "valid": true, "name": tool.name, "description": tool.description, "enabled": tool.enabled, "kind": kind,
        "args_mode": mode, "constraints": constraints,
    })
}

/// Definitions in layers, and files read again: `reload`, true or the layers' definitions as they are from then on.
fn precedence(input: &Value, request: &Value) -> Value {
    let world = Layers::new();
    only(request, &["tool", "reload", "seq", "after"]);
    if let Some(files) = input.get("dir") {
        only(input, &["dir", "reload"]);
        let (mut catalogue, mut told) = (None, Vec::new());
        for files in std::iter::once(files).chain(input.get("reload")) {
            world.files(files);
            told.extend(world.read(&mut catalogue));
        }
        return world.directory(catalogue.as_ref().expect("it was read"), &told);
    }
    let name = request["tool"].as_str().unwrap_or("t");
    only(input, &["builtin", "user", "record", "session", "reload"]);
    world.define(name, input);
    let mut catalogue = None;
    world.read(&mut catalogue);
    let catalogue = catalogue.as_mut().expect("it was read");
    world.register(name, input, catalogue);
    for step in reloads(input).into_iter().chain(reloads(request)).chain(sequence(request)) {
        if let Some(changed) = step {
            only(changed, &["user"]);
            world.define(name, changed);
        }
        catalogue.refresh();
    }
    match catalogue.tools().find("agent", name) {
        Ok(tool) => json!({ "wins": tool.layer.name() }),
        Err(denial) => json!({ "error": denial.code.name() }),
    }
}

/// The value, once it is sure that nothing in it goes unseen.
fn only<'v>(value: &'v Value, keys: &[&str]) -> &'v Value {
    let unknown = value.as_object().into_iter().flatten().find(|(key, _)| !keys.contains(&key.as_str()));
    assert!(unknown.is_none(), "no part of this harness knows {unknown:?}");
    assert!(value.is_object() || value.is_null(), "not {value}");
    value
}

/// What `reload` asks for: nothing, reading again, or reading again after a change.
fn reloads(value: &Value) -> Option<Option<&Value>> {
    match value.get("reload") {
        None | Some(Value::Null | Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some(None),
        Some(changed @ Value::Object(_)) => Some(Some(changed)),
        Some(other) => panic!("unknown reload {other}"),
    }
}

/// The steps of `seq` or `after`, one or a list: each is a reload, by its name or with a change.
fn sequence(request: &Value) -> Vec<Option<&Value>> {
    let named = ["seq", "after"].into_iter().filter_map(|key| request.get(key));
    let steps = named.flat_map(|steps| steps.as_array().map_or(std::slice::from_ref(steps), Vec::as_slice));
    steps
        .map(|step| match step.as_str() {
            Some("reload") => None,
            Some(_) => panic!("unknown step {step}"),
            None => reloads(only(step, &["reload"])).unwrap_or_else(|| panic!("unknown step {step}")),
        })
        .collect()
}

/// A directory of tools, and the layers above and below it.
struct Layers {
    scratch: Scratch,
    setting: Setting,
}

impl Layers {
    fn new() -> Self {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.0.join("tools")).expect("a directory");
        // What ships is not what these vectors are about.
        std::fs::write(scratch.0.join("config.yml"), "builtin_tools: []\n").expect("a file");
        let setting = Setting::with_facts(Facts::new("/home/u").config_dir(&scratch.0)).expect("a setting");
        Self { scratch, setting }
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.scratch.0.join("tools").join(file), text).expect("a file");
    }

    /// The user's definition as a file; none when there is to be none, and as it was when nothing is said.
    fn define(&self, name: &str, layers: &Value) {
        match layers.get("user") {
            None => {}
            Some(Value::Null) => {
                std::fs::remove_file(self.scratch.0.join("tools/t.toml")).expect("there was one");
            }
            Some(said) => {
                let enabled = said.get("enabled").is_none_or(|enabled| *enabled == true);
                let command = "kind = \"command\"\nbinary = \"echo\"\nargs = [\"x\"]";
                self.write("t.toml", &format!("name = {name:?}\nenabled = {enabled}\n{command}\n"));
            }
        }
    }

    /// The definitions of the other layers.
    fn register(&self, name: &str, layers: &Value, catalogue: &mut Catalogue) {
        for layer in [Layer::Builtin, Layer::Record, Layer::Session] {
            let Some(said) = layers.get(layer.name()).filter(|said| !said.is_null()) else { continue };
            let mut spec = json!({ "run": ["echo", said.to_string()] });
            if let Some(enabled) = said.get("enabled") {
                spec["enabled"] = enabled.clone();
            }
            let text = json!({ "tools": { name: spec } }).to_string();
            let read = read_definitions(&Source::new("tools.yml", text), layer);
            assert!(read.faults.is_empty(), "{:?}", read.faults);
            read.tools.into_iter().for_each(|tool| catalogue.add(tool));
        }
    }

    /// Files of one tool each, called as it is; one with `broken` in its name cannot be read.
    fn files(&self, files: &Value) {
        let files = files.as_array().unwrap_or_else(|| panic!("`dir` is a list of files, not {files}"));
        for file in files.iter().map(|file| file.as_str().expect("a file is called by a string")) {
            let stem = file.trim_end_matches(".toml");
            let text = if file.contains("broken") {
                "name = ".to_owned()
            } else {
                format!("name = \"{stem}\"\nkind = \"command\"\nbinary = \"echo\"\nargs = [\"a\"]\n")
            };
            self.write(file, &text);
        }
    }

    /// Reads everything, for the first time or again; which files something is said of.
    fn read(&self, catalogue: &mut Option<Catalogue>) -> Vec<String> {
        let changes = match catalogue {
            Some(catalogue) => catalogue.refresh(),
            None => {
                let policy = Policy::from_specs("agent", &[], &self.setting.facts).expect("a policy");
                let (read, changes) = Catalogue::open(&self.setting, &policy);
                *catalogue = Some(read);
                changes
            }
        };
        let name = |change: &Change| Some(change.file.file_name()?.to_string_lossy().into_owned());
        changes.iter().filter_map(name).collect()
    }

    fn directory(&self, catalogue: &Catalogue, warned: &[String]) -> Value {
        let loaded: Vec<&str> = catalogue.tools().iter().map(|tool| tool.name.as_str()).collect();
        json!({ "loaded": loaded, "warned": warned })
    }
}

/// A directory of this vector's own.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sbx-vectors-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self(dir.canonicalize().expect("a path"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command that really runs, under an agent that may run anything in a directory of its own.
fn command(input: &Value, request: &Value, expect: &Value) -> Value {
    let scratch = Scratch::new();
    let declared = input["command"]["declared"].as_array().cloned().unwrap_or_default();
    let mut tools: Map<String, Value> =
        declared.iter().filter_map(|name| Some((name.as_str()?.to_owned(), json!("echo hi")))).collect();
    if declared.is_empty() {
        tools.insert("c".to_owned(), input["command"].clone());
    }
    let record = json!({
        "id": "agent", "tools": tools,
        "capabilities": [{ "proc.exec": { "in": scratch.0 } }, { "proc.eval": { "in": scratch.0 } }],
    });
    let facts = Facts::new("/home/u").at(&scratch.0);
    let source = Source::new("agent.yml", record.to_string());
    let (manifest, problems) = Manifest::parse(source.clone(), &facts);
    let manifest = manifest.unwrap_or_else(|| panic!("{problems:?}"));
    let (policy, _) = Policy::resolve(&manifest, &Config::default(), &facts);
    let read = read_section(manifest.sections().tools.as_ref().expect("tools"), &source);
    if !read.faults.is_empty() {
        return faulty(expect, &read.faults);
    }
    let toolbox: Toolbox = read.tools.into_iter().collect();
    let variables = request["host_env"].as_object().into_iter().flatten();
    let variables =
        variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))).collect();
    let host = LiveFor { variables };
    let audit: Arc<dyn Sink> = Arc::new(Nowhere);
    let caller = Caller {
        policy: &policy,
        cwd: &scratch.0,
        session: Some("vectors"),
        session_dir: None,
        backend: None,
        accepted: &[],
        audit: &audit,
        host: &host,
        own: None,
        cancel: None,
    };
    only(request, &["run", "start", "status", "stop", "seq", "vars", "args", "host_env"]);
    let steps: Vec<String> = match request["seq"].as_array() {
        Some(steps) => steps.iter().map(|step| step.as_str().expect("a step is a word").to_owned()).collect(),
        None => {
            let verbs = ["run", "start", "status", "stop"];
            verbs.into_iter().filter(|verb| request.get(verb).is_some()).map(str::to_owned).collect()
        }
    };
    let name = steps.first().and_then(|step| request[step.as_str()].as_str()).unwrap_or("c");
    let tool = match toolbox.find("agent", name) {
        Ok(tool) => tool,
        Err(denial) => return Named::of_denial(&denial).told(expect),
    };
    let given = given(&request["vars"], &request["args"]);
    perform(tool, &steps, &given, &caller, expect)
}

/// Takes the steps in turn; the first that fails, or the last, is what is seen.
fn perform(tool: &Tool, steps: &[String], given: &Given, caller: &Caller<'_>, expect: &Value) -> Value {
    let mut session = Session::new("vectors", Arc::new(Nowhere));
    let mut pids = Vec::new();
    let mut got = json!({});
    for step in steps {
        let begun = Instant::now();
        let done = match step.as_str() {
            "run" => run_tool(tool, given, caller).map(|report| report.to_json()),
            "start" => session.start(tool, given, caller).map(|status| status.to_json()),
            "status" => printed(&mut session, &tool.name),
            "stop" => session.stop(&tool.name).map(|status| status.to_json()),
            other => panic!("unknown step {other}"),
        };
        match done {
            Ok(body) => {
                got = spelled(body);
                got["success"] = json!(true);
            }
            Err(stop) => {
                got = stopped(expect, &stop);
                if begun.elapsed() < Duration::from_secs(3) && children() == 0 {
                    got["killed"] = json!("process group");
                }
                return got;
            }
        }
        pids.extend(got["pid"].as_u64());
    }
    if pids.len() > 1 {
        got["same_pid"] = json!(pids.iter().all(|pid| *pid == pids[0]));
    }
    let printed = got["stdout"].as_str().unwrap_or_default().to_owned();
    if let Some(most) = expect["stdout_len_max"].as_u64() {
        got["stdout_len_max"] = json!(if printed.len() as u64 <= most { most } else { printed.len() as u64 });
    }
    let has =
        |name: &Value| printed.lines().any(|line| line.split_once('=').is_some_and(|(key, _)| *name == key));
    for (key, there) in [("child_env_includes", true), ("child_env_excludes", false)] {
        if let Some(names) = expect[key].as_array() {
            got[key] = names.iter().filter(|name| has(name) == there).cloned().collect();
        }
    }
    got
}

/// What is told of a process, once it has printed something or ended; for a bounded time, as it need not do either.
fn printed(session: &mut Session, name: &str) -> Result<Value, Stop> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let status = session.status(name)?.to_json();
        if status["stdout"] != "" || status["running"] != true || Instant::now() > until {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes this one has started and that are still there.
fn children() -> usize {
    let own = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    list.split_whitespace().count()
}
