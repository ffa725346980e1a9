//! Programs into commands: a list where the kernel can hold it, else any command.

use super::Learned;
use super::world::World;
use crate::capability::{Capability, Scope, ScopeKey, Spec, check_command};
use crate::plan::usual_path;
use crate::profile::{HelperKind, helpers, system_view};
use sbx_platform::path::within;
use sbx_platform::report::{Act, Verb};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A longer list of commands says no more than "any".
const MOST: usize = 24;

pub(super) fn learn(world: &World<'_>, acts: &[Act], learned: &mut Learned) {
    let run: Vec<&Act> = acts.iter().filter(|act| act.verb == Verb::Run && act.error == 0).collect();
    if run.is_empty() {
        return;
    }
    if !world.may_be_whole(world.project()) {
        learned.notes.push(format!(
            "nothing is proposed for {}: what runs there reads all of it; run the command in a directory of its own",
            world.written(world.project())
        ));
        return;
    }
    let mut programs: BTreeSet<PathBuf> = run.iter().map(|act| act.path.clone()).collect();
    // What a command's own profile lets it start needs no listing.
    let helps = |file: &Path, of: &PathBuf| {
        let name = of.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        of != file
            && helpers(&name).any(|helper| helper.kind == HelperKind::Exec && Path::new(helper.path) == file)
    };
    let all = programs.clone();
    programs.retain(|file| !all.iter().any(|of| helps(file, of)));
    let scope = Scope::bare().with_text(ScopeKey::In, world.written(world.project()));
    let names = programs.iter().map(|program| command(world, program)).collect::<Option<BTreeSet<String>>>();
    let foreign = programs.iter().find(|program| !is_system(&world.real(program)));
    let (scope, why) = match (foreign, loaded_besides(world, acts, &programs), names) {
        (Some(program), _, _) => {
            (scope, format!("any command: {} is no program of the system", world.written(program)))
        }
        (None, Some(library), _) => {
            (scope, format!("any command: {} is loaded while it runs", library.display()))
        }
        (None, None, Some(names)) if names.len() <= MOST => {
            let why = if names.len() == 1 { "the only program" } else { "the only programs" };
            (scope.with_list(ScopeKey::Cmds, names), why.to_owned())
        }
        (None, None, names) => {
            (scope, format!("any command: {} programs", names.map_or(0, |names| names.len())))
        }
    };
    learned.propose(Spec { capability: Capability::ProcExec, scope }, why);
    if programs.iter().any(|program| needs_path(world, program)) {
        learned.env.push("PATH".to_owned());
    }
}

fn is_system(path: &Path) -> bool {
    system_view().any(|(place, _)| within(path, Path::new(place)))
}

fn usual(world: &World<'_>) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(usual_path(world.host.system())).collect::<Vec<_>>().into_iter()
}

/// The entry of `cmds` that means this file.
fn command(world: &World<'_>, program: &Path) -> Option<String> {
    let name = program.file_name()?;
    let found = usual(world).map(|dir| dir.join(name)).find(|file| world.host.is_program(file));
    let same = found.is_some_and(|found| world.real(&found) == world.real(program));
    let text = if same { name.to_str()? } else { program.to_str()? };
    check_command(text).is_ok().then(|| text.to_owned())
}

/// Whether a program is found on the caller's own search path only.
fn needs_path(world: &World<'_>, program: &Path) -> bool {
    let Some(callers) = world.host.variable("PATH") else { return false };
    let dir = program.parent();
    std::env::split_paths(&callers).any(|own| Some(own.as_path()) == dir)
        && usual(world).all(|own| Some(own.as_path()) != dir)
}

/// A library that is loaded while a program runs, which a list of programs does not know.
fn loaded_besides(world: &World<'_>, acts: &[Act], programs: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let is_library = |path: &Path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // `libc.so.6`, but not `ld.so.cache`.
        name.split_once(".so")
            .is_some_and(|(_, version)| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let read = acts.iter().filter(|act| act.verb == Verb::Read && act.error == 0 && is_library(&act.path));
    let loaded: BTreeSet<PathBuf> = read.map(|act| world.real(&act.path)).collect();
    let mut known: BTreeSet<PathBuf> = BTreeSet::new();
    let mut dirs: Vec<PathBuf> = Vec::new();
    for program in programs {
        known.extend(world.host.needed(program).into_iter().map(|(file, _)| world.real(&file)));
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let code = helpers(&name).filter(|helper| helper.kind == HelperKind::Code);
        dirs.extend(code.map(|helper| PathBuf::from(helper.path)));
    }
    loaded.into_iter().find(|file| !known.contains(file) && !dirs.iter().any(|dir| within(file, dir)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::machine::{act, specs};

    #[test]
    fn programs_of_the_system_are_listed_and_others_are_not() {
        let run = |path: &str| act(Verb::Run, path, 0);
        assert_eq!(
            specs(vec![run("/usr/bin/git"), run("/usr/bin/make")]).0,
            ["proc.exec{in=$PROJECT,cmds=[git,make]}"]
        );
        assert_eq!(specs(vec![run("/usr/bin/git"), run("/home/u/p/x.sh")]).0, ["proc.exec{in=$PROJECT}"]);
        let loads = |file: &str| vec![run("/usr/bin/git"), act(Verb::Read, file, 0)];
        assert_eq!(specs(loads("/usr/lib/libc.so.6")).0, ["proc.exec{in=$PROJECT,cmds=[git]}"]);
        assert_eq!(specs(loads("/etc/ld.so.cache")).0, ["proc.exec{in=$PROJECT,cmds=[git]}"]);
        assert_eq!(specs(loads("/usr/lib/plugin.so")).0, ["proc.exec{in=$PROJECT}"]);
        let (grants, learned) = specs(vec![run("/home/u/.cargo/bin/cargo")]);
        assert_eq!(grants, ["proc.exec{in=$PROJECT}", "fs.read{in=~/.cargo,paths=[bin]}"]);
        assert_eq!(learned.env, ["PATH"]);
    }
}
