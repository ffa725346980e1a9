//! A plan as text, one item a line: for people to read and for a launcher process to be handed.
//!
//! Answers for writing and reading without loss, whatever bytes a path holds: everything but printable ASCII
//! travels as `%XX`. It leaves the meaning to [`crate::plan`].
//! Invariant: `parse(&write(plan)) == plan`, and an unknown or malformed line is refused, never skipped.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Guarantee;
use crate::error::PlatformError;
use crate::plan::{
    Access, Code, Exec, Gateway, Identity, InsideNew, Limits, MountOp, Network, Place, Plan, ProtectedName,
    Rights, Stdio, UnixSockets,
};

/// What stands for the size of something that has none of its own.
const SHARED: &str = "shared";
/// Letters for [`Rights`], in the order of their bits.
const LETTERS: &[u8; 7] = b"lrwdxmc";

/// `plan` as text.
#[must_use]
pub fn write(plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |word: &str, fields: &[&OsStr]| {
        out.push_str(word);
        for field in fields {
            out.push(' ');
            escape(field, &mut out);
        }
        out.push('\n');
    };
    line("program", &[plan.program.as_os_str()]);
    for argument in &plan.argv {
        line("arg", &[argument]);
    }
    for (name, value) in &plan.env {
        line("env", &[name, value]);
    }
    line("cwd", &[plan.cwd.as_os_str()]);
    for op in &plan.mounts {
        write_mount(op, &mut line);
    }
    for place in &plan.rights {
        line("rights", &[letters(place.rights).as_ref(), place.path.as_os_str()]);
    }
    for path in &plan.protect {
        line("protect", &[path.as_os_str()]);
    }
    for name in plan.protect_names.iter() {
        let parts = PathBuf::from_iter(&name.components);
        let inside = match &name.inside_new {
            InsideNew::Nothing => OsString::from("nothing"),
            InsideNew::Anything => OsString::from("anything"),
            InsideNew::Ending(ending) => [OsStr::new("ending "), ending].into_iter().collect(),
            InsideNew::Settings(keys) => format!("settings {}", keys.join(" ")).into(),
        };
        let count = name.may_make.len().to_string();
        let mut fields: Vec<&OsStr> = vec![&inside, parts.as_os_str(), count.as_ref()];
        fields.extend(name.may_make.iter().chain(&name.may_take).map(|open| open.as_os_str()));
        line("protect-name", &fields);
    }
    for number in &plan.pass_fds {
        line("pass", &[number.to_string().as_ref()]);
    }
    line("stdio", &[stdio_word(plan.stdio).as_ref()]);
    match &plan.network {
        Network::None => line("network", &["none".as_ref()]),
        Network::Gateway(Gateway { ports, published, services, proxy }) => {
            let proxy = Vec::from_iter(*proxy);
            let [ports, published, proxy] = [words(ports), words(published), words(&proxy)];
            let services = words(services);
            let fields = ["gateway", &ports, &published, &services, &proxy];
            line("network", &fields.map(AsRef::as_ref));
        }
    }
    line("exec", &[exec_word(plan.exec).as_ref()]);
    line("unix", &[unix_word(plan.unix_sockets).as_ref()]);
    line("hostname", &[plan.hostname.as_ref()]);
    if let Identity::Mapped { uid, gid } = plan.identity {
        line("identity", &[uid.to_string().as_ref(), gid.to_string().as_ref()]);
    }
    if plan.tells {
        line("tells", &[]);
    }
    if plan.trace {
        line("trace", &[]);
    }
    if plan.unwatched {
        line("unwatched", &[]);
    }
    if plan.narrowed {
        line("narrowed", &[]);
    }
    for guarantee in &plan.required {
        line("require", &[guarantee.name().as_ref()]);
    }
    for (name, value) in limit_fields(&plan.limits) {
        if let Some(value) = value {
            line("limit", &[name.as_ref(), value.to_string().as_ref()]);
        }
    }
    out
}

fn write_mount(op: &MountOp, line: &mut impl FnMut(&str, &[&OsStr])) {
    match op {
        MountOp::Bind { source, dest, access, code } => {
            let access = match access {
                Access::ReadOnly => "ro",
                Access::ReadWrite => "rw",
                Access::Copied => "copied",
            };
            let fields: [&OsStr; 4] =
                [access.as_ref(), code_word(*code).as_ref(), source.as_ref(), dest.as_ref()];
            line("bind", &fields);
        }
        MountOp::Tmpfs { dest, size, mode, code } => {
            let size = size.map_or_else(|| String::from(SHARED), |size| size.to_string());
            let mode = format!("{mode:o}");
            let fields: [&OsStr; 4] =
                [code_word(*code).as_ref(), size.as_ref(), mode.as_ref(), dest.as_ref()];
            line("tmpfs", &fields);
        }
        MountOp::Dir { dest } => line("dir", &[dest.as_ref()]),
        MountOp::Symlink { target, dest } => line("symlink", &[target.as_ref(), dest.as_ref()]),
        MountOp::File { dest, data } => line("file", &[dest.as_ref(), OsStr::from_bytes(data)]),
        MountOp::Proc { dest } => line("proc", &[dest.as_ref()]),
        MountOp::Dev { dest } => line("dev", &[dest.as_ref()]),
    }
}

/// The plan in `text`.
///
/// # Errors
/// Names the first line that is not understood.
pub fn parse(text: &str) -> Result<Plan, PlatformError> {
    let mut plan = Plan::new("", Vec::new());
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        read_line(line, &mut plan).ok_or_else(|| PlatformError::BadPlan {
            reason: format!("line {} is not understood: {line}", index + 1),
        })?;
    }
    if plan.program.as_os_str().is_empty() || plan.argv.is_empty() {
        return Err(PlatformError::BadPlan { reason: String::from("no program or no arguments") });
    }
    Ok(plan)
}

fn inside_new(text: &str) -> Option<InsideNew> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("nothing", "") => Some(InsideNew::Nothing),
        ("anything", "") => Some(InsideNew::Anything),
        ("ending", ending) => Some(InsideNew::Ending(ending.into())),
        ("settings", keys) => {
            let keys = keys.split(' ').map(|key| Cow::Owned(key.to_owned()));
            Some(InsideNew::Settings(keys.collect()))
        }
        _ => None,
    }
}

fn read_line(line: &str, plan: &mut Plan) -> Option<()> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let fields: Vec<OsString> = words.map(unescape).collect::<Option<_>>()?;
    if let Some(op) = read_mount(word, &fields) {
        plan.mounts.push(op);
        return Some(());
    }
    let text = |at: usize| fields.get(at)?.to_str();
    match (word, fields.as_slice()) {
        ("program", [path]) => plan.program = path.into(),
        ("arg", [argument]) => plan.argv.push(argument.clone()),
        ("env", [name, value]) => plan.env.push((name.clone(), value.clone())),
        ("cwd", [path]) => plan.cwd = path.into(),
        ("rights", [_, path]) => {
            plan.rights.push(Place { path: path.into(), rights: from_letters(text(0)?)? });
        }
        ("protect", [path]) => plan.protect.push(path.into()),
        ("protect-name", [inside, parts, count, open @ ..]) => {
            let (make, take) = open.split_at_checked(count.to_str()?.parse().ok()?)?;
            Arc::make_mut(&mut plan.protect_names).push(ProtectedName {
                components: Path::new(parts).iter().map(|part| Cow::Owned(part.to_owned())).collect(),
                may_make: make.iter().map(PathBuf::from).collect(),
                may_take: take.iter().map(PathBuf::from).collect(),
                inside_new: inside_new(inside.to_str()?)?,
            });
        }
        ("tells", []) => plan.tells = true,
        ("trace", []) => plan.trace = true,
        ("unwatched", []) => plan.unwatched = true,
        ("narrowed", []) => plan.narrowed = true,
        ("pass", [_]) => plan.pass_fds.push(text(0)?.parse().ok()?),
        ("stdio", [_]) => {
            plan.stdio = find([Stdio::Inherit, Stdio::Capture, Stdio::Pty], stdio_word, text(0)?)?;
        }
        ("network", [none]) if none == "none" => plan.network = Network::None,
        ("network", [gateway, _, _, _, _]) if gateway == "gateway" => {
            plan.network = Network::Gateway(Gateway {
                ports: read_words(text(1)?)?,
                published: read_words(text(2)?)?,
                services: read_words(text(3)?)?,
                proxy: read_words(text(4)?)?.pop(),
            });
        }
        ("exec", [_]) => plan.exec = find([Exec::Open, Exec::Listed], exec_word, text(0)?)?,
        ("unix", [_]) => {
            plan.unix_sockets = find([UnixSockets::PairsOnly, UnixSockets::Allowed], unix_word, text(0)?)?;
        }
        ("hostname", [_]) => text(0)?.clone_into(&mut plan.hostname),
        ("identity", [_, _]) => {
            plan.identity = Identity::Mapped { uid: text(0)?.parse().ok()?, gid: text(1)?.parse().ok()? };
        }
        ("require", [_]) => plan.required.push(Guarantee::from_name(text(0)?)?),
        ("limit", [_, _]) => set_limit(&mut plan.limits, text(0)?, text(1)?.parse().ok()?)?,
        _ => return None,
    }
    Some(())
}

fn read_mount(word: &str, fields: &[OsString]) -> Option<MountOp> {
    let path = |at: usize| fields.get(at).map(PathBuf::from);
    let text = |at: usize| fields.get(at)?.to_str();
    let code = |at: usize| find([Code::Allowed, Code::Refused], code_word, text(at)?);
    match (word, fields.len()) {
        ("bind", 4) => {
            let access = match text(0)? {
                "ro" => Access::ReadOnly,
                "rw" => Access::ReadWrite,
                "copied" => Access::Copied,
                _ => return None,
            };
            Some(MountOp::Bind { source: path(2)?, dest: path(3)?, access, code: code(1)? })
        }
        ("tmpfs", 4) => Some(MountOp::Tmpfs {
            dest: path(3)?,
            size: if text(1)? == SHARED { None } else { Some(text(1)?.parse().ok()?) },
            mode: u32::from_str_radix(text(2)?, 8).ok()?,
            code: code(0)?,
        }),
        ("dir", 1) => Some(MountOp::Dir { dest: path(0)? }),
        ("symlink", 2) => Some(MountOp::Symlink { target: path(0)?, dest: path(1)? }),
        ("file", 2) => Some(MountOp::File { dest: path(0)?, data: fields.get(1)?.clone().into_vec() }),
        ("proc", 1) => Some(MountOp::Proc { dest: path(0)? }),
        ("dev", 1) => Some(MountOp::Dev { dest: path(0)? }),
        _ => None,
    }
}

fn find<T: Copy, const N: usize>(all: [T; N], word: fn(T) -> &'static str, text: &str) -> Option<T> {
    all.into_iter().find(|each| word(*each) == text)
}

fn stdio_word(stdio: Stdio) -> &'static str {
    match stdio {
        Stdio::Inherit => "inherit",
        Stdio::Capture => "capture",
        Stdio::Pty => "pty",
    }
}

fn words<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

fn read_words<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    text.split_whitespace().map(|item| item.parse().ok()).collect()
}

fn exec_word(exec: Exec) -> &'static str {
    match exec {
        Exec::Open => "open",
        Exec::Listed => "listed",
    }
}

fn unix_word(unix: UnixSockets) -> &'static str {
    match unix {
        UnixSockets::PairsOnly => "pairs",
        UnixSockets::Allowed => "allowed",
    }
}

fn code_word(code: Code) -> &'static str {
    match code {
        Code::Allowed => "code",
        Code::Refused => "nocode",
    }
}

fn letters(rights: Rights) -> String {
    (0..7).filter(|bit| rights.bits() & 1 << bit != 0).map(|bit| char::from(LETTERS[bit])).collect()
}

fn from_letters(text: &str) -> Option<Rights> {
    let mut bits = 0;
    for letter in text.bytes() {
        bits |= 1 << LETTERS.iter().position(|each| *each == letter)?;
    }
    Some(Rights::from_bits(bits))
}

fn limit_fields(limits: &Limits) -> [(&'static str, Option<u64>); 8] {
    let milliseconds =
        |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    [
        ("wall", milliseconds(limits.wall)),
        ("cpu", milliseconds(limits.cpu)),
        ("memory", limits.memory),
        ("pids", limits.pids),
        ("open-files", limits.open_files),
        ("file-size", limits.file_size),
        ("output", limits.output),
        ("scratch", limits.scratch),
    ]
}

fn set_limit(limits: &mut Limits, name: &str, value: u64) -> Option<()> {
    match name {
        "wall" => limits.wall = Some(Duration::from_millis(value)),
        "cpu" => limits.cpu = Some(Duration::from_millis(value)),
        "memory" => limits.memory = Some(value),
        "pids" => limits.pids = Some(value),
        "open-files" => limits.open_files = Some(value),
        "file-size" => limits.file_size = Some(value),
        "output" => limits.output = Some(value),
        "scratch" => limits.scratch = Some(value),
        _ => return None,
    }
    Some(())
}

pub(crate) fn escape(field: &OsStr, out: &mut String) {
    if field.is_empty() {
        out.push_str("%-");
    }
    for byte in field.as_bytes() {
        if byte.is_ascii_graphic() && *byte != b'%' {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
}

pub(crate) fn unescape(field: &str) -> Option<OsString> {
    if field == "%-" {
        return Some(OsString::new());
    }
    let bytes = field.as_bytes();
    let mut clear = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            clear.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            clear.push(bytes[at]);
            at += 1;
        }
    }
    Some(OsString::from_vec(clear))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Plan {
        let odd = PathBuf::from(OsStr::from_bytes(b"/w/a b%\xff\n"));
        let mut plan = Plan::new("/usr/bin/true", vec!["true".into(), OsString::new(), "a b".into()]);
        plan.env = vec![("A".into(), "x=y z".into())];
        plan.cwd.clone_from(&odd);
        plan.mounts = vec![
            MountOp::Bind {
                source: odd.clone(),
                dest: odd.clone(),
                access: Access::ReadWrite,
                code: Code::Refused,
            },
            MountOp::Tmpfs { dest: "/tmp".into(), size: Some(9), mode: 0o1777, code: Code::Allowed },
            MountOp::Dir { dest: "/d".into() },
            MountOp::Symlink { target: "usr/bin".into(), dest: "/bin".into() },
            MountOp::File { dest: "/etc/x".into(), data: b"a\nb\0".to_vec() },
            MountOp::Proc { dest: "/proc".into() },
            MountOp::Dev { dest: "/dev".into() },
        ];
        plan.rights = vec![Place { path: odd.clone(), rights: Rights::READ | Rights::REMOVE }];
        plan.protect = vec![odd.clone()];
        let settings = InsideNew::Settings(Arc::new(["a.b".into(), "c.*.d".into()]));
        let names = [InsideNew::Nothing, InsideNew::Anything, InsideNew::Ending(".sample".into()), settings]
            .map(|inside_new| ProtectedName {
                components: vec![OsStr::new(".git").into(), OsStr::new("*").into()],
                may_make: vec![odd.clone()],
                may_take: vec![odd.clone(), odd.clone()],
                inside_new,
            })
            .to_vec();
        plan.protect_names = Arc::new(names);
        plan.pass_fds = vec![7];
        plan.stdio = Stdio::Capture;
        plan.exec = Exec::Listed;
        plan.unix_sockets = UnixSockets::Allowed;
        plan.identity = Identity::Mapped { uid: 5, gid: 6 };
        plan.required = vec![Guarantee::FsHidden];
        plan.limits = Limits { wall: Some(Duration::from_millis(1500)), pids: Some(3), ..Limits::default() };
        plan
    }

    #[test]
    fn a_plan_survives_being_written() {
        assert_eq!(parse(&write(&full())).unwrap(), full());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in ["bind ro code /a", "limit speed 3", "rights q /x", "arg %zz", "frobnicate"] {
            assert!(parse(&format!("program /x\narg x\n{bad}\n")).is_err(), "{bad}");
        }
    }
}
