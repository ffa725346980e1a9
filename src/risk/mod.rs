//! Layer 4: does this shell text look destructive?
//!
//! A text is parsed the way a shell does, flattened to the commands it could start, and compared with rules
//! that are data. Two different questions are asked of the same commands: [`assess`] looks for danger,
//! [`prove`] for a grant behind everything. The shell itself, the fence and all input and output are left to
//! others.
//!
//! Invariant: nothing here ever widens. No finding means that nothing was found, never that a text is safe;
//! what cannot be read is denied.
//!
//! ```
//! use sbx::risk::{Context, RuleSet, Scene, assess};
//! use sbx::manifest::RiskSettings;
//!
//! let scene = Scene::new("/home/u").at("/home/u/app");
//! let rules = RuleSet::builtin();
//! let assessment = assess("git push -f", &scene, &rules, &RiskSettings::default(), &Context::default());
//! assert!(!assessment.allowed());
//! assert_eq!(assessment.alternatives()[0].0.command, "git push --force-with-lease");
//! ```

mod again;
mod assess;
mod branch;
mod command;
mod context;
mod expand;
mod flatten;
mod heredoc;
mod inline;
mod matching;
mod options;
mod output;
mod parse;
mod place;
mod prove;
mod query;
mod rule;
mod rules;
mod scan;
mod script;
mod settings;
mod simple;
mod state;
mod syntax;
mod trail;
mod tree;
mod unwrap;

pub use assess::{Assessment, Matched, assess, assess_argv};
pub use command::{Arg, Channel, Command};
pub use context::{Context, Level};
pub use flatten::{Flat, Opaque};
pub use prove::{Proof, Step, prove};
pub use rule::{Alternative, Origin, Rule, Scope};
pub use rules::{RuleSet, check_examples};
pub use scan::{MAX_BYTES, SyntaxError};

/// Where a text would run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scene {
    /// The user's home directory.
    pub home: String,
    /// The working directory; none when it is not known.
    pub cwd: Option<String>,
    /// What `$1`, `$2` and so on stand for; none when that is not known.
    pub arguments: Option<Vec<String>>,
}

impl Scene {
    /// A scene with a home directory and no known working directory.
    #[must_use]
    pub fn new(home: impl Into<String>) -> Self {
        Self { home: home.into(), cwd: None, arguments: None }
    }

    /// The same scene in a directory.
    #[must_use]
    pub fn at(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }
}
