//! The fence around sbx's own helper, which does file operations for an agent that may run nothing.
//!
//! Answers for a plan with the agent's file grants and nothing else: no system view, no scratch, no network, no
//! environment, and one program, which is sbx itself. It leaves what the helper is asked to do to `hands`.
//! Invariant: what the helper can reach beside the agent's file grants is its own program, that program's libraries and its
//! own process list.

use super::host::{Host, Kind, Use};
use super::lower::{Invocation, LowerError, Lowered, check_places, has_writable_place, inside, remarks};
use super::places::Places;
use super::programs::Parts;
use super::protect;
use super::view::View;
use crate::policy::Policy;
use crate::profile::view_of;
use sbx_platform::Guarantee;
use sbx_platform::plan::{Access, Code, Exec, Identity, Limits, MountOp, Plan, Rights, UnixSockets};
use std::ffi::OsString;
use std::path::Path;

/// What must hold around a helper: it runs no code but ours, so what is about programs is left out.
const NEEDED: &[Guarantee] = &[
    Guarantee::FsHidden,
    Guarantee::FsRead,
    Guarantee::FsWrite,
    Guarantee::FsDelete,
    Guarantee::FsMetadata,
    Guarantee::FsTruncate,
    Guarantee::NetNone,
    Guarantee::PidHidden,
    Guarantee::ProtectedPaths,
    Guarantee::SyscallFilter,
    Guarantee::Teardown,
    Guarantee::TeardownKilled,
];

/// A plan for `program`, sbx itself, behind the agent's file grants.
///
/// No permit is asked for, because nothing of the agent's is run: each operation the helper is sent has been decided.
///
/// # Errors
/// When a granted place cannot be shown, or a pattern opens too much.
pub fn lower_helper(
    policy: &Policy,
    program: &Path,
    argv: Vec<OsString>,
    invocation: &Invocation,
    host: &dyn Host,
) -> Result<Lowered, LowerError> {
    if !host.is_program(program) {
        return Err(LowerError::NotExecutable(program.to_path_buf()));
    }
    let places = Places::of(policy, host)?;
    check_places(&places, host)?;
    let mut view = View::default();
    let mut parts = Parts::default();
    for (name, file, usage) in host.named_parts(program) {
        if name != file {
            view.mounts.push(MountOp::Symlink { target: file.clone(), dest: name });
        }
        match usage {
            Use::Executed => parts.executed.insert(file),
            Use::Loaded => parts.loaded.insert(file),
        };
    }
    // The loader is named by a path through the system's own links.
    for (path, _) in view_of(host.system()) {
        if let Some(Kind::Link(target)) = host.kind(Path::new(path)) {
            view.mounts.push(MountOp::Symlink { target, dest: path.into() });
        }
    }
    // Whatever watches protected names looks its callers up there.
    view.mounts.push(MountOp::Proc { dest: "/proc".into() });
    view.right("/proc", Rights::READ | Rights::LIST);
    view.add_places(&places, Code::Refused, &[], |_| Access::ReadWrite);
    view.hide(&policy.facts().state_dir, &places, host);
    view.add_listed(&parts);
    let mut plan = Plan::new(program, argv);
    plan.mounts = view.mounts;
    plan.rights = view.rights;
    plan.protect = protect::paths(policy, &places, host);
    plan.protect_names = protect::names(&places);
    plan.stdio = invocation.stdio;
    plan.exec = Exec::Listed;
    plan.unix_sockets = UnixSockets::PairsOnly;
    plan.limits = limits(policy);
    plan.narrowed = !places.narrower.is_empty();
    let (uid, gid) = invocation.ids;
    plan.identity = Identity::Mapped { uid: inside(uid), gid: inside(gid) };
    plan.required = required(policy, invocation, &plan);
    Ok(Lowered { plan, remarks: remarks(&places) })
}

/// Limits of the record on what one file or one process may be; a helper that is kept has no time of its own.
fn limits(policy: &Policy) -> Limits {
    let own = policy.limits();
    Limits { memory: own.memory, open_files: own.files, file_size: own.file_size, ..Limits::default() }
}

fn required(policy: &Policy, invocation: &Invocation, plan: &Plan) -> Vec<Guarantee> {
    let accepted = |guarantee: &Guarantee| {
        let mut names = policy.accept_degraded().iter().chain(&invocation.accepted);
        names.any(|accepted| accepted == guarantee.name())
    };
    let matters = |guarantee: &Guarantee| match guarantee {
        Guarantee::ProtectedPaths => has_writable_place(plan),
        _ => true,
    };
    NEEDED.iter().copied().filter(|guarantee| matters(guarantee) && !accepted(guarantee)).collect()
}
