//! What is said to be given is tried: every act that a guarantee is about, in a place without the right to it.
//!
//! Asked again at lower levels of Landlock, where other mechanisms have to hold it or the name is withheld.

use std::fs;

use sbx_platform::Guarantee as G;
use sbx_platform::plan::Rights;

use crate::support::Verdict::{self, Failed, Passed, Withheld};
use crate::support::{World, same};

type Case = fn(&World) -> Verdict;

/// Every case with the sentence it checks.
pub(crate) const ALL: &[(&str, Case)] = &[
    ("held: where names may only be taken away nothing else is changed", taken_away),
    ("held: where nothing may be read nothing is read", unread),
    ("held: beside such a place files are changed as ever", beside),
];

/// Acts on files that may be removed and not written, with what promises to refuse them.
const CHANGES: &[(&str, G)] = &[
    ("write kept", G::FsWrite),
    ("append kept", G::FsWrite),
    ("write new", G::FsWrite),
    ("mkdir dir", G::FsWrite),
    ("symlink kept sign", G::FsWrite),
    ("link kept twin", G::FsWrite),
    ("link kept /scratch/twin", G::FsWrite),
    ("rename other moved", G::FsWrite),
    ("rename other kept", G::FsWrite),
    ("empty kept", G::FsTruncate),
    ("cut kept", G::FsTruncate),
    ("truncate kept", G::FsTruncate),
    ("empty /proc/self/cwd/kept", G::FsTruncate),
    ("chmod kept", G::FsMetadata),
    ("touch kept", G::FsMetadata),
    ("date kept", G::FsMetadata),
];

fn taken_away(world: &World) -> Verdict {
    for name in ["kept", "other", "gone"] {
        fs::write(world.work(name), "kept").unwrap();
    }
    let line = CHANGES.iter().map(|(act, _)| *act).chain(["remove gone"]).collect::<Vec<_>>().join(" ; ");
    let words: Vec<&str> = "then".split(' ').chain(line.split(' ')).collect();
    let plan = world.with_rights(world.plan(&words), Rights::READ | Rights::LIST | Rights::REMOVE);
    let before = fs::metadata(world.work("kept")).unwrap().modified().unwrap();
    let outcome = world.launch(&plan).unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout).replace("errno ", "errno-");
    let answers: Vec<&str> = said.split_whitespace().collect();
    same!("answers", answers.len(), CHANGES.len() + 1);
    for ((act, guarantee), answer) in CHANGES.iter().zip(&answers) {
        if outcome.enforcement.has(*guarantee) && !answer.starts_with("errno-") {
            return Failed(format!("{act}: {answer}, and {guarantee} is said to be given"));
        }
    }
    same!("removing", answers.last().copied(), Some("ok"));
    let lacking =
        [G::FsWrite, G::FsTruncate, G::FsMetadata].into_iter().find(|one| !outcome.enforcement.has(*one));
    if let Some(lacking) = lacking {
        return Withheld(lacking);
    }
    same!("content", fs::read_to_string(world.work("kept")).unwrap(), "kept");
    same!("time", fs::metadata(world.work("kept")).unwrap().modified().unwrap(), before);
    Passed
}

fn unread(world: &World) -> Verdict {
    fs::write(world.work("kept"), "kept").unwrap();
    let rights = Rights::LIST | Rights::WRITE | Rights::REMOVE;
    let plan = world.with_rights(world.plan(&["then", "read", "kept", ";", "append", "kept"]), rights);
    let outcome = world.launch(&plan).unwrap();
    if !outcome.enforcement.has(G::FsRead) {
        return Withheld(G::FsRead);
    }
    same!("answers", String::from_utf8_lossy(&outcome.stdout).trim_end(), "errno 13 ok");
    Passed
}

fn beside(world: &World) -> Verdict {
    let (inner, kept) = (world.work("inner"), world.work("kept"));
    fs::create_dir(&inner).unwrap();
    fs::write(&kept, "kept").unwrap();
    let script = "then write inner/a ; append inner/a ; empty inner/a ; cut inner/a ; chmod inner/a ; touch inner/a ; \
                  date inner/a ; symlink a inner/l ; touch inner/l ; read kept ; remove kept";
    let words: Vec<&str> = script.split_whitespace().collect();
    let mut plan = world.with_rights(world.plan(&words), Rights::READ | Rights::LIST | Rights::REMOVE);
    plan.rights.push(sbx_platform::plan::Place { path: inner, rights: Rights::WRITE });
    same!("answers", world.says_under(&plan), "ok ok ok ok ok ok ok ok ok kept ok");
    Passed
}
