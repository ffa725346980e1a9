//! The tools an agent can be offered, by name, the higher layer standing in for the lower.

use super::definition::Tool;
use crate::decide::{Denial, DenialCode};
use crate::text::closest;
use std::collections::BTreeMap;

/// Tools by name.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Tool>,
}

impl Toolbox {
    /// Puts a tool in; one of a higher layer stays.
    pub fn insert(&mut self, tool: Tool) {
        let stays = self.tools.get(&tool.name).is_some_and(|known| known.layer > tool.layer);
        if !stays {
            self.tools.insert(tool.name.clone(), tool);
        }
    }

    /// Every tool, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    /// A tool that is there, enabled or not.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// A tool that can be called.
    ///
    /// # Errors
    /// A denial that names what is near, or says that it is disabled.
    pub fn find(&self, agent: &str, name: &str) -> Result<&Tool, Box<Denial>> {
        match self.tools.get(name) {
            Some(tool) if tool.enabled => Ok(tool),
            Some(_) => {
                let message = format!("there is no tool `{name}`");
                let mut denial = Denial::of_tool(DenialCode::UnknownTool, agent, name, message);
                denial.hint = Some("it is defined, and disabled".to_owned());
                Err(Box::new(denial))
            }
            None => {
                let message = format!("there is no tool `{name}`");
                let mut denial = Denial::of_tool(DenialCode::UnknownTool, agent, name, message);
                let enabled = self.tools.values().filter(|tool| tool.enabled).map(|tool| tool.name.as_str());
                denial.hint = closest(name, enabled).map(|near| format!("did you mean `{near}`?"));
                Err(Box::new(denial))
            }
        }
    }
}

impl FromIterator<Tool> for Toolbox {
    fn from_iter<I: IntoIterator<Item = Tool>>(tools: I) -> Self {
        let mut toolbox = Self::default();
        tools.into_iter().for_each(|tool| toolbox.insert(tool));
        toolbox
    }
}
