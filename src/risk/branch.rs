//! What may or may not run: values and functions that a branch, a loop or a shell of its own sets.
//!
//! A value that is set for good replaces the one before. One that may not be set stands beside it, and every
//! command that uses the variable is looked at with each.

use super::expand::Value;
use super::flatten::{Flow, Walk};
use super::syntax::{List, Node, Param, Piece, Redirect, Simple, Word};
use std::rc::Rc;

/// The most values that are kept beside the last one.
const MAX_OTHERS: usize = 8;
/// The most times a command is looked at again.
const MAX_VARIANTS: usize = 16;
/// How deep names are looked for in substitutions.
const MAX_DEPTH: usize = 8;

impl Walk<'_> {
    /// Walks what may not run.
    pub(super) fn maybe<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.unsure += 1;
        let walked = walk(self);
        self.unsure -= 1;
        walked
    }

    /// Walks what a shell of its own runs: what it sets is gone when it ends.
    pub(super) fn apart<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        let (cwd, variables, others) = (self.cwd.clone(), self.variables.clone(), self.others.clone());
        let walked = self.maybe(walk);
        (self.cwd, self.variables, self.others) = (cwd, variables, others);
        walked
    }

    /// Sets a variable: for good, or beside what it holds where this may not run.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        let before = self.variables.insert(name.to_owned(), value);
        if self.unsure == 0 {
            self.others.remove(name);
        } else if let Some(before) = before {
            self.beside(name, before);
        }
    }

    /// Keeps a value that a variable may hold as well.
    pub(super) fn beside(&mut self, name: &str, value: Value) {
        if self.variables.get(name) == Some(&value) {
            return;
        }
        let others = self.others.entry(name.to_owned()).or_default();
        if others.contains(&value) {
            return;
        }
        if others.len() < MAX_OTHERS {
            others.push(value);
        } else {
            self.opaque(crate::text::Span::default(), "a variable may hold too many values to try each");
        }
    }

    /// Defines a function: for good, or beside the one of that name where this may not run.
    pub(super) fn define(&mut self, name: &str, body: &Rc<Node>) {
        let bodies = self.functions.entry(name.to_owned()).or_default();
        if self.unsure == 0 || bodies.len() >= MAX_OTHERS {
            bodies.clear();
        }
        bodies.push(Rc::clone(body));
    }

    /// A command, and again with every other value that a variable in it may hold.
    pub(super) fn every_way(&mut self, simple: &Simple, flow: &Flow) -> Option<String> {
        let variants =
            if self.others.is_empty() || self.varying { Vec::new() } else { self.variants(simple) };
        let output = self.simple(simple, flow);
        for (name, value) in variants {
            let last = self.variables.insert(name.clone(), value.clone());
            self.varying = true;
            self.maybe(|walk| walk.simple(simple, flow));
            self.varying = false;
            let set = match last {
                Some(last) => self.variables.insert(name.clone(), last),
                None => self.variables.remove(&name),
            };
            if let Some(set) = set.filter(|set| *set != value) {
                self.beside(&name, set);
            }
        }
        output
    }

    fn variants(&self, simple: &Simple) -> Vec<(String, Value)> {
        let mut names = Vec::new();
        names_in_simple(simple, &mut names, MAX_DEPTH);
        let mut variants: Vec<(String, Value)> = Vec::new();
        for name in names {
            let name = self.referred(name);
            if !variants.iter().any(|(known, _)| known == name) {
                let others = self.others.get(name).into_iter().flatten();
                variants.extend(others.map(|value| (name.to_owned(), value.clone())));
            }
        }
        variants.truncate(MAX_VARIANTS);
        variants
    }
}

fn names_in_simple<'n>(simple: &'n Simple, names: &mut Vec<&'n str>, depth: usize) {
    let values = simple.assignments.iter().flat_map(|assignment| &assignment.values);
    names_in_words(simple.words.iter().chain(values), names, depth);
    names_in_words(simple.redirects.iter().map(target), names, depth);
}

fn target(redirect: &Redirect) -> &Word {
    &redirect.target
}

fn names_in_words<'n>(words: impl Iterator<Item = &'n Word>, names: &mut Vec<&'n str>, depth: usize) {
    for word in words {
        names_in_pieces(&word.pieces, names, depth);
    }
}

fn names_in_pieces<'n>(pieces: &'n [Piece], names: &mut Vec<&'n str>, depth: usize) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    for piece in pieces {
        match piece {
            Piece::Param(Param { name, word, .. }) => {
                names.push(name);
                names_in_pieces(word, names, deeper);
            }
            Piece::Arithmetic(pieces) => names_in_pieces(pieces, names, deeper),
            Piece::Command { body, .. } | Piece::Process { body, .. } => names_in_list(body, names, deeper),
            Piece::Bare(_) | Piece::Quoted(_) => {}
        }
    }
}

/// Names in the commands of a substitution; what stands in compound commands is tried where it is walked.
fn names_in_list<'n>(list: &'n List, names: &mut Vec<&'n str>, depth: usize) {
    for node in list {
        match node {
            Node::Simple(simple) => names_in_simple(simple, names, depth),
            Node::Pipe(nodes) | Node::Both(nodes) => names_in_list(nodes, names, depth),
            Node::Background(_)
            | Node::Group { .. }
            | Node::For { .. }
            | Node::Case { .. }
            | Node::Test { .. }
            | Node::Function { .. } => {}
        }
    }
}
