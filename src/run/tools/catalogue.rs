//! The tools of one agent as they stand on disk, read again when a file changes.
//!
//! No watcher and no daemon: whoever asks calls [`Catalogue::refresh`], which looks at the files' stamps.
//! Invariant: a file that was good and is now broken keeps its last good tools, and says so.

use crate::manifest::{Manifest, read_source};
use crate::policy::Policy;
use crate::run::setting::Setting;
use crate::text::Source;
use crate::tool::{Definitions, Fault, Layer, Tool, Toolbox, read_definitions, read_section};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The most files of tools that are read.
const MOST_FILES: usize = 1000;
/// A file changed this lately may change again without its stamp telling.
const UNSETTLED: Duration = Duration::from_secs(2);

/// What a file looked like when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64, i64, i64),
    settled: bool,
}

/// One file and the tools that were last read from it.
#[derive(Clone, Debug)]
struct Held {
    stamp: Stamp,
    tools: Vec<Tool>,
    trouble: Option<String>,
    faults: Vec<(Source, Fault)>,
}

/// Something that a refresh found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which file.
    pub file: PathBuf,
    /// What is to be said.
    pub message: String,
}

/// The tools of one agent.
#[derive(Clone, Debug)]
pub struct Catalogue {
    dir: PathBuf,
    record: Option<PathBuf>,
    facts: crate::manifest::Facts,
    files: BTreeMap<PathBuf, Held>,
    /// Those that ship with sbx, as far as they are wanted.
    builtin: Vec<Tool>,
    /// Those of a record that is not read here.
    own: Vec<Tool>,
    session: Vec<Tool>,
    toolbox: Toolbox,
}

impl Catalogue {
    /// Reads the built-in tools, the user's files and the agent's record.
    #[must_use]
    pub fn open(setting: &Setting, policy: &Policy) -> (Self, Vec<Change>) {
        let mut catalogue = Self {
            dir: setting.facts.config_dir.join("tools"),
            record: None,
            facts: setting.facts.clone(),
            files: BTreeMap::new(),
            builtin: Vec::new(),
            own: Vec::new(),
            session: Vec::new(),
            toolbox: Toolbox::default(),
        };
        let changes = catalogue.follow(setting, policy);
        (catalogue, changes)
    }

    /// Takes up the configuration and the agent's record as they were loaded just now, and looks at every file again.
    pub fn follow(&mut self, setting: &Setting, policy: &Policy) -> Vec<Change> {
        self.builtin = setting.builtin_tools().flat_map(|(_, read)| read.tools).collect();
        // A project's record is trusted as it was read; a change waits until it is trusted again.
        self.record = policy.record().filter(|_| policy.facts().found_in.is_none()).map(Path::to_path_buf);
        let section = policy.sections().tools.as_ref().filter(|_| self.record.is_none());
        let read = section.map(|section| read_section(section, &Source::new(policy.agent(), "")).tools);
        self.own = read.unwrap_or_default();
        self.refresh()
    }

    /// The tools as last read.
    #[must_use]
    pub fn tools(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Adds a tool to this session, in the layer it says; it survives every refresh.
    pub fn add(&mut self, tool: Tool) {
        self.session.retain(|known| (&known.name, known.layer) != (&tool.name, tool.layer));
        self.session.push(tool);
        self.assemble();
    }

    /// What is wrong in the files, with their text.
    pub fn faults(&self) -> impl Iterator<Item = (&Source, &Fault)> {
        self.files.values().flat_map(|held| held.faults.iter().map(|(source, fault)| (source, fault)))
    }

    /// Looks at every file again; what is new is read, what is gone is forgotten, what is broken keeps its last
    /// good tools.
    pub fn refresh(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut found: Vec<PathBuf> = std::fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .take(MOST_FILES)
            .collect();
        found.sort();
        found.extend(self.record.clone());
        self.files.retain(|path, _| {
            let stays = found.contains(path);
            if !stays {
                changes.push(Change {
                    file: path.clone(),
                    message: "it is gone, and its tools with it".to_owned(),
                });
            }
            stays
        });
        for path in found {
            changes.extend(self.look(&path));
        }
        self.assemble();
        changes
    }

    fn look(&mut self, path: &Path) -> Option<Change> {
        let stamp = stamp(path);
        let known = self.files.get(path);
        if let (Some(known), Some(stamp)) = (known, &stamp)
            && known.stamp == *stamp
            && stamp.settled
        {
            return None;
        }
        let read = self.read(path);
        let stamp = stamp?;
        match read {
            Ok(definitions) => {
                let again = known.is_some_and(|known| known.trouble.is_some());
                self.files.insert(
                    path.to_path_buf(),
                    Held { stamp, tools: definitions.tools, trouble: None, faults: Vec::new() },
                );
                again.then(|| Change { file: path.to_path_buf(), message: "it is whole again".to_owned() })
            }
            Err((trouble, definitions, source)) => {
                let kept = known.map(|known| known.tools.clone()).unwrap_or_default();
                let told = known.and_then(|known| known.trouble.as_ref()) == Some(&trouble);
                let tools = if kept.is_empty() { definitions.tools } else { kept.clone() };
                let faults = definitions.faults.into_iter().map(|fault| (source.clone(), fault)).collect();
                let keeps = if kept.is_empty() { "" } else { "; its last good tools are kept" };
                let message = format!("{trouble}{keeps}");
                self.files.insert(path.to_path_buf(), Held { stamp, tools, trouble: Some(trouble), faults });
                (!told).then(|| Change { file: path.to_path_buf(), message })
            }
        }
    }

    /// Reads one file: whole, or what is wrong with it and what is still good.
    fn read(&self, path: &Path) -> Result<Definitions, (String, Definitions, Source)> {
        let nothing =
            |message: String| (message, Definitions::default(), Source::new(path.display().to_string(), ""));
        let source = read_source(path).map_err(|error| nothing(error.to_string()))?;
        let definitions = if self.record.as_deref() == Some(path) {
            let (manifest, _) = Manifest::parse(source.clone(), &self.facts);
            let manifest = manifest.ok_or_else(|| nothing("the record has errors".to_owned()))?;
            match &manifest.sections().tools {
                Some(section) => read_section(section, &source),
                None => Definitions::default(),
            }
        } else {
            read_definitions(&source, Layer::User)
        };
        match definitions.faults.first() {
            None => Ok(definitions),
            Some(fault) => {
                let place = source.place(fault.span.start);
                let trouble = format!("line {}: {}: {}", place.line, fault.field, fault.message);
                Err((trouble, definitions, source))
            }
        }
    }

    fn assemble(&mut self) {
        let mut toolbox = Toolbox::default();
        // Of two files that define one name the first in the order of names stands.
        for tool in self.files.values().rev().flat_map(|held| held.tools.iter().rev()) {
            toolbox.insert(tool.clone());
        }
        for tool in self.builtin.iter().chain(&self.own).chain(&self.session) {
            toolbox.insert(tool.clone());
        }
        self.toolbox = toolbox;
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    let age = SystemTime::now().duration_since(meta.modified().ok()?).ok();
    Some(Stamp {
        inode: (meta.dev(), meta.ino()),
        size: meta.size(),
        changed: (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()),
        settled: age.is_some_and(|age| age > UNSETTLED),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Facts;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct World(PathBuf);

    impl World {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("sbx-catalogue-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(dir.join("tools")).unwrap();
            Self(dir)
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.0.join("tools").join(file), text).unwrap();
        }

        fn open(&self) -> (Catalogue, Vec<Change>) {
            let setting = Setting::with_facts(Facts::new("/home/u").config_dir(&self.0)).unwrap();
            let policy = Policy::from_specs("a", &[], &setting.facts).unwrap();
            Catalogue::open(&setting, &policy)
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn tool(name: &str, word: &str) -> String {
        format!("name = \"{name}\"\nkind = \"command\"\nbinary = \"echo\"\nargs = [\"{word}\"]\n")
    }

    fn line(catalogue: &Catalogue, name: &str) -> Option<String> {
        catalogue.tools().get(name).map(Tool::command_line)
    }

    #[test]
    fn a_broken_edit_keeps_the_last_good_version_and_says_so() {
        let world = World::new("edit");
        world.write("a.toml", &tool("a", "one"));
        let (mut catalogue, changes) = world.open();
        assert!(changes.is_empty());
        world.write("a.toml", "name = ");
        let changes = catalogue.refresh();
        assert!(changes[0].message.contains("last good"), "{changes:?}");
        assert!(catalogue.refresh().is_empty(), "it is told once");
        assert_eq!(line(&catalogue, "a").as_deref(), Some("echo one"));
        world.write("a.toml", &tool("a", "two"));
        world.write("b.toml", &tool("b", "new"));
        assert_eq!(catalogue.refresh()[0].message, "it is whole again");
        assert_eq!(line(&catalogue, "a").as_deref(), Some("echo two"));
        assert_eq!(line(&catalogue, "b").as_deref(), Some("echo new"));
        std::fs::remove_file(world.0.join("tools/a.toml")).unwrap();
        assert_eq!(catalogue.refresh().len(), 1);
        assert_eq!(line(&catalogue, "a"), None);
    }

    #[test]
    fn a_session_tool_survives_a_refresh() {
        let world = World::new("session");
        world.write("a.toml", &tool("a", "user"));
        let (mut catalogue, _) = world.open();
        let own = read_definitions(&Source::new("s.toml", tool("a", "own")), Layer::Session);
        own.tools.into_iter().for_each(|tool| catalogue.add(tool));
        world.write("a.toml", &tool("a", "changed"));
        catalogue.refresh();
        assert_eq!(line(&catalogue, "a").as_deref(), Some("echo own"));
    }

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_never_lost() {
        let world = Arc::new(World::new("race"));
        world.write("a.toml", &tool("a", "0"));
        let (mut catalogue, _) = world.open();
        let done = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (world, done) = (Arc::clone(&world), Arc::clone(&done));
            move || {
                for number in 0..300 {
                    // Not in one step: the file is empty and cut off at times.
                    let text = tool("a", &number.to_string());
                    world.write("a.toml", "");
                    world.write("a.toml", &text[..text.len() / 2]);
                    world.write("a.toml", &text);
                }
                done.store(true, Ordering::Relaxed);
            }
        });
        while !done.load(Ordering::Relaxed) {
            catalogue.refresh();
            assert!(line(&catalogue, "a").is_some());
        }
        writer.join().unwrap();
        catalogue.refresh();
        assert_eq!(line(&catalogue, "a").as_deref(), Some("echo 299"));
    }
}
