//! Simple commands: words, assignments, redirections, here-documents, and functions that look like them.

use super::parse::plain;
use super::scan::{Parsed, Scanner};
use super::syntax::{Assignment, Node, Piece, Redirect, RedirectOp, Simple, Word};
use std::rc::Rc;

/// Builtins whose arguments may be assignments of lists.
const DECLARES: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

impl Scanner<'_> {
    pub(super) fn simple(&mut self) -> Parsed<Node> {
        let start = self.at;
        let mut simple = Simple::default();
        let mut end = start;
        loop {
            self.skip_blanks()?;
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if self.at_word() {
                let declares = || {
                    simple.words.first().and_then(plain).is_some_and(|name| DECLARES.contains(&name.as_str()))
                };
                if (simple.words.is_empty() || declares())
                    && let Some(assignment) = self.assignment(!simple.words.is_empty())?
                {
                    simple.assignments.push(assignment);
                    end = self.at;
                    continue;
                }
                simple.words.push(self.word()?);
            } else if self.peek() == Some(b'(') && simple.words.len() == 1 && simple.assignments.is_empty() {
                return self.function(&simple.words);
            } else {
                break;
            }
            end = self.at;
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() {
            return Err(match self.peek() {
                None => self.error("a command is missing"),
                Some(_) => self.unexpected(),
            });
        }
        let at = std::mem::replace(&mut self.at, end);
        simple.span = self.span_from(start);
        self.at = at;
        Ok(Node::Simple(simple))
    }

    pub(super) fn function(&mut self, words: &[Word]) -> Parsed<Node> {
        let name = words.first().and_then(plain).ok_or_else(|| self.unexpected())?;
        self.advance(1)?;
        self.skip_blanks()?;
        if !self.eat(")")? {
            return Err(self.unexpected());
        }
        self.skip_lines()?;
        let body = self.command()?;
        Ok(Node::Function { name, body: Rc::new(body) })
    }

    /// `NAME=…`, `NAME+=…`, `NAME[…]=…`; after a builtin that declares, only lists are taken.
    pub(super) fn assignment(&mut self, only_lists: bool) -> Parsed<Option<Assignment>> {
        let name = self.name();
        if name.is_empty() {
            return Ok(None);
        }
        let mut rest = self.rest().get(name.len()..).unwrap_or_default();
        let mut length = name.len();
        let mut index = None;
        if rest.starts_with('[') {
            let line = rest.find(['\n', ' ', '$', '`']).unwrap_or(rest.len());
            let Some(close) = rest.get(..line).and_then(|index| index.find(']')) else { return Ok(None) };
            index = rest.get(1..close).map(str::to_owned);
            length += close + 1;
            rest = rest.get(close + 1..).unwrap_or_default();
        }
        let append = rest.starts_with("+=");
        if !append && !rest.starts_with('=') {
            return Ok(None);
        }
        length += if append { 2 } else { 1 };
        let list = self.text.as_bytes().get(self.at + length) == Some(&b'(');
        if only_lists && !list {
            return Ok(None);
        }
        let name = name.to_owned();
        self.advance(length)?;
        let mut values = Vec::new();
        if list {
            self.advance(1)?;
            loop {
                self.skip_lines()?;
                if self.eat(")")? {
                    break;
                }
                if !self.at_word() {
                    return Err(self.unexpected());
                }
                values.push(self.word()?);
            }
        } else if self.at_word() {
            values.push(self.word()?);
        } else {
            let at = self.at;
            values.push(Word { pieces: Vec::new(), span: self.span_from(at) });
        }
        Ok(Some(Assignment { name, index, values, list, append }))
    }

    /// The redirections after a compound command.
    pub(super) fn redirects(&mut self) -> Parsed<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        const OPS: &[(&str, RedirectOp)] = &[
            ("&>>", RedirectOp::Append),
            ("&>", RedirectOp::Write),
            ("<<<", RedirectOp::Text),
            ("<<-", RedirectOp::Text),
            ("<<", RedirectOp::Text),
            ("<&", RedirectOp::Duplicate),
            (">&", RedirectOp::Duplicate),
            ("<>", RedirectOp::Both),
            (">>", RedirectOp::Append),
            (">|", RedirectOp::Write),
            ("<", RedirectOp::Read),
            (">", RedirectOp::Write),
        ];
        let start = self.at;
        let rest = self.rest();
        let mut skip = rest.bytes().take_while(u8::is_ascii_digit).count();
        if skip == 0 && rest.starts_with('{') {
            let close = rest.find('}').unwrap_or(0);
            let inside = rest.get(1..close).unwrap_or_default();
            let named =
                !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            skip = if named { close + 1 } else { 0 };
        }
        let after = rest.get(skip..).unwrap_or_default();
        let process = after.starts_with("<(") || after.starts_with(">(");
        let Some((token, op)) = OPS.iter().find(|(token, _)| after.starts_with(token)).filter(|_| !process)
        else {
            return Ok(None);
        };
        if token.starts_with('&') && skip > 0 {
            return Ok(None);
        }
        self.advance(skip + token.len())?;
        self.skip_blanks()?;
        if !self.at_word() {
            return Err(self.unexpected());
        }
        let from = self.at;
        let target = self.word()?;
        let (mut op, mut target) = (*op, target);
        match *token {
            "<<" | "<<-" => {
                let written = self.text.get(from..self.at).unwrap_or_default();
                target = self.here_document(written, target.span, *token == "<<-")?;
            }
            ">&" | "<&" if !duplicates(&target) => {
                op = if *token == ">&" { RedirectOp::Write } else { RedirectOp::Read };
            }
            _ => {}
        }
        Ok(Some(Redirect { op, target, span: self.span_from(start) }))
    }
}

pub(super) fn duplicates(target: &Word) -> bool {
    match plain(target) {
        Some(text) => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
        None => {
            !matches!(target.pieces.first(), Some(Piece::Bare(text) | Piece::Quoted(text)) if text.contains('/'))
        }
    }
}
