//! The grammar of the shell above words: lists, pipelines, compound commands, functions, redirections.
//!
//! What is not shell is an error with a place. It is never skipped over, because what a reader skips the
//! shell may run.

use super::scan::{Parsed, Pending, Scanner};
use super::syntax::{Assignment, List, Node, Piece, Redirect, RedirectOp, Simple, Word};
use crate::text::Span;
use std::rc::Rc;

/// The most simple commands in one text.
const MAX_COMMANDS: usize = 1000;

/// Words that mean something where a command starts.
const RESERVED: &[&str] = &[
    "if", "then", "elif", "else", "fi", "do", "done", "case", "esac", "while", "until", "for", "select",
    "function", "{", "}", "!", "[[", "time", "coproc", "in",
];
/// Those that end a list.
const ENDS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];
/// Builtins whose arguments may be assignments of lists.
const DECLARES: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Parsed<List> {
    parse_nested(text, 0, None)
}

/// Reads a text that was found inside another.
pub(super) fn parse_nested(text: &str, depth: usize, origin: Option<Span>) -> Parsed<List> {
    let mut scanner = Scanner::new(text, depth, origin)?;
    let mut list = scanner.list()?;
    if scanner.peek().is_some() {
        return Err(scanner.unexpected());
    }
    // What a here-document without a body would read is empty.
    fill_bodies(&mut list, &scanner.bodies);
    let count = count(&list);
    if count > MAX_COMMANDS {
        return Err(scanner.error_at(0, format!("there are more than {MAX_COMMANDS} commands")));
    }
    Ok(list)
}

impl Scanner<'_> {
    fn unexpected(&self) -> super::scan::SyntaxError {
        let word = match self.reserved() {
            Some(word) => word.to_owned(),
            None => self.rest().chars().next().map_or_else(|| "end of the text".to_owned(), String::from),
        };
        let message = match word.as_str() {
            "\n" => "the line ends too early".to_owned(),
            word => format!("`{word}` is not expected here"),
        };
        self.error(message)
    }

    fn skip_lines(&mut self) -> Parsed<()> {
        self.skip_blanks()?;
        while self.peek() == Some(b'\n') {
            self.newline()?;
            self.skip_blanks()?;
        }
        Ok(())
    }

    /// The reserved word that stands here, whole and without quotes.
    fn reserved(&self) -> Option<&'static str> {
        let rest = self.rest();
        let end = rest.find([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>']).unwrap_or(rest.len());
        let word = rest.get(..end)?;
        RESERVED.iter().find(|reserved| **reserved == word).copied()
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        self.skip_lines()?;
        if self.reserved() == Some(word) {
            return self.advance(word.len());
        }
        if self.peek().is_none() {
            return Err(self.error(format!("`{word}` is missing")));
        }
        Err(self.unexpected())
    }

    fn at_list_end(&self) -> bool {
        matches!(self.peek(), None | Some(b')'))
            || self.rest().starts_with(";;")
            || self.rest().starts_with(";&")
            || self.reserved().is_some_and(|word| ENDS.contains(&word))
    }

    /// Commands up to what cannot start one.
    pub(super) fn list(&mut self) -> Parsed<List> {
        let mut list = List::new();
        loop {
            self.skip_lines()?;
            if self.at_list_end() {
                return Ok(list);
            }
            let node = self.nested(Self::and_or)?;
            self.skip_blanks()?;
            match self.peek() {
                Some(b'&') if self.peek_at(1) != Some(b'&') => {
                    self.advance(1)?;
                    list.push(Node::Background(Box::new(node)));
                }
                Some(b';') if !matches!(self.peek_at(1), Some(b';' | b'&')) => {
                    self.advance(1)?;
                    list.push(node);
                }
                Some(b'\n') => list.push(node),
                _ => {
                    list.push(node);
                    if self.at_list_end() {
                        return Ok(list);
                    }
                    return Err(self.unexpected());
                }
            }
        }
    }

    /// A list that has at least one command.
    fn some_list(&mut self) -> Parsed<List> {
        let list = self.list()?;
        if list.is_empty() { Err(self.unexpected()) } else { Ok(list) }
    }

    fn and_or(&mut self) -> Parsed<Node> {
        let first = self.pipeline()?;
        let mut parts = vec![first];
        loop {
            self.skip_blanks()?;
            if !(self.eat("&&")? || self.eat("||")?) {
                break;
            }
            self.skip_lines()?;
            parts.push(self.pipeline()?);
        }
        Ok(single(parts, Node::Both))
    }

    fn pipeline(&mut self) -> Parsed<Node> {
        loop {
            self.skip_blanks()?;
            match self.reserved() {
                Some(word @ ("!" | "time")) => {
                    self.advance(word.len())?;
                    self.skip_blanks()?;
                    if word == "time" && self.rest().starts_with("-p") {
                        self.advance(2)?;
                    }
                    // `!` and `time` may stand alone.
                    if matches!(self.peek(), None | Some(b'\n' | b';' | b')')) {
                        return Ok(Node::Both(Vec::new()));
                    }
                }
                _ => break,
            }
        }
        let mut stages = vec![self.command()?];
        loop {
            self.skip_blanks()?;
            if self.rest().starts_with("||") || self.peek() != Some(b'|') {
                break;
            }
            self.advance(1)?;
            self.eat("&")?;
            self.skip_lines()?;
            stages.push(self.command()?);
        }
        Ok(single(stages, Node::Pipe))
    }

    fn command(&mut self) -> Parsed<Node> {
        self.nested(|scanner| {
            scanner.skip_blanks()?;
            if scanner.peek() == Some(b'(') {
                return scanner.parenthesis();
            }
            match scanner.reserved() {
                Some(
                    word @ ("if" | "while" | "until" | "for" | "select" | "case" | "function" | "{" | "[["
                    | "coproc"),
                ) => {
                    scanner.advance(word.len())?;
                    scanner.compound(word)
                }
                Some(word) if word != "in" => Err(scanner.unexpected()),
                _ => scanner.simple(),
            }
        })
    }

    fn parenthesis(&mut self) -> Parsed<Node> {
        if self.rest().starts_with("((") {
            let (before, pending, bodies) = (self.at, self.pending.len(), self.bodies.len());
            let start = self.at;
            self.advance(2)?;
            match self.nested(Self::arithmetic) {
                Ok(pieces) => {
                    let words = vec![Word { pieces, span: self.span_from(start) }];
                    return Ok(Node::Test { words, redirects: self.redirects()? });
                }
                Err(_) => {
                    self.at = before;
                    self.pending.truncate(pending);
                    self.bodies.truncate(bodies);
                }
            }
        }
        self.advance(1)?;
        let list = self.some_list()?;
        self.close_parenthesis()?;
        Ok(Node::Group { lists: vec![list], redirects: self.redirects()?, subshell: true })
    }

    fn close_parenthesis(&mut self) -> Parsed<()> {
        self.skip_lines()?;
        if self.eat(")")? {
            return Ok(());
        }
        match self.peek() {
            None => Err(self.error("`)` is missing")),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// What stands in `$(…)` or `<(…)`, with its parenthesis.
    pub(super) fn until_close(&mut self) -> Parsed<List> {
        let list = self.list()?;
        self.close_parenthesis()?;
        Ok(list)
    }

    fn compound(&mut self, word: &'static str) -> Parsed<Node> {
        match word {
            "{" => {
                let list = self.some_list()?;
                self.expect("}")?;
                Ok(Node::Group { lists: vec![list], redirects: self.redirects()?, subshell: false })
            }
            "if" => self.conditional(),
            "while" | "until" => {
                let condition = self.some_list()?;
                let body = self.do_done()?;
                Ok(Node::Group {
                    lists: vec![condition, body],
                    redirects: self.redirects()?,
                    subshell: false,
                })
            }
            "for" | "select" => self.loop_over(),
            "case" => self.case(),
            "function" => self.function_keyword(),
            "[[" => self.test(),
            // coproc: the name is optional, and what follows runs.
            _ => {
                self.skip_blanks()?;
                let name = self.name();
                let after = self.rest().get(name.len()..).unwrap_or_default().trim_start_matches([' ', '\t']);
                if !name.is_empty() && after.starts_with(['{', '(']) {
                    self.advance(name.len())?;
                }
                let body = self.command()?;
                Ok(Node::Background(Box::new(body)))
            }
        }
    }

    fn conditional(&mut self) -> Parsed<Node> {
        let mut lists = vec![self.some_list()?];
        self.expect("then")?;
        lists.push(self.some_list()?);
        loop {
            self.skip_lines()?;
            match self.reserved() {
                Some("elif") => {
                    self.advance(4)?;
                    lists.push(self.some_list()?);
                    self.expect("then")?;
                    lists.push(self.some_list()?);
                }
                Some("else") => {
                    self.advance(4)?;
                    lists.push(self.some_list()?);
                    self.expect("fi")?;
                    break;
                }
                _ => {
                    self.expect("fi")?;
                    break;
                }
            }
        }
        Ok(Node::Group { lists, redirects: self.redirects()?, subshell: false })
    }

    fn do_done(&mut self) -> Parsed<List> {
        self.expect("do")?;
        let body = self.some_list()?;
        self.expect("done")?;
        Ok(body)
    }

    fn loop_over(&mut self) -> Parsed<Node> {
        self.skip_blanks()?;
        if self.eat("((")? {
            let start = self.at;
            let pieces = self.nested(Self::arithmetic)?;
            let header = Node::Test {
                words: vec![Word { pieces, span: self.span_from(start) }],
                redirects: Vec::new(),
            };
            self.separator()?;
            let body = match self.reserved() {
                Some("{") => {
                    self.advance(1)?;
                    let body = self.some_list()?;
                    self.expect("}")?;
                    body
                }
                _ => self.do_done()?,
            };
            return Ok(Node::Group {
                lists: vec![vec![header], body],
                redirects: self.redirects()?,
                subshell: false,
            });
        }
        let name = self.name().to_owned();
        if name.is_empty() {
            return Err(self.error("`for` needs a name"));
        }
        self.advance(name.len())?;
        self.skip_lines()?;
        let mut words = Vec::new();
        if self.reserved() == Some("in") {
            self.advance(2)?;
            loop {
                self.skip_blanks()?;
                if !self.at_word() {
                    break;
                }
                words.push(self.word()?);
            }
        }
        self.separator()?;
        let body = self.do_done()?;
        Ok(Node::For { name, words, body, redirects: self.redirects()? })
    }

    /// An optional `;` and line ends.
    fn separator(&mut self) -> Parsed<()> {
        self.skip_blanks()?;
        if self.peek() == Some(b';') && self.peek_at(1) != Some(b';') {
            self.advance(1)?;
        }
        self.skip_lines()
    }

    fn case(&mut self) -> Parsed<Node> {
        self.skip_blanks()?;
        let mut words = vec![self.word()?];
        let mut lists = Vec::new();
        self.expect("in")?;
        loop {
            self.skip_lines()?;
            if self.reserved() == Some("esac") {
                self.advance(4)?;
                return Ok(Node::Case { words, lists, redirects: self.redirects()? });
            }
            self.eat("(")?;
            loop {
                self.skip_blanks()?;
                words.push(self.word()?);
                self.skip_blanks()?;
                if !self.eat("|")? {
                    break;
                }
            }
            if !self.eat(")")? {
                return Err(self.unexpected());
            }
            lists.push(self.list()?);
            self.skip_lines()?;
            if !(self.eat(";;&")? || self.eat(";;")? || self.eat(";&")?) && self.reserved() != Some("esac") {
                return Err(self.unexpected());
            }
        }
    }

    fn test(&mut self) -> Parsed<Node> {
        let mut words = Vec::new();
        let mut open = 0usize;
        loop {
            self.skip_lines()?;
            match self.peek() {
                None => return Err(self.error("`]]` is missing")),
                Some(b'(') => {
                    open += 1;
                    self.advance(1)?;
                }
                Some(b')') if open > 0 => {
                    open -= 1;
                    self.advance(1)?;
                }
                Some(b'&' | b'|') if self.peek_at(1) == self.peek() => self.advance(2)?,
                Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => self.advance(1)?,
                Some(b';' | b'&' | b'|' | b')') => return Err(self.unexpected()),
                Some(_) => {
                    let word = self.word()?;
                    if word.pieces == [Piece::Bare("]]".to_owned())] {
                        return Ok(Node::Test { words, redirects: self.redirects()? });
                    }
                    let pattern = matches!(word.pieces.as_slice(), [Piece::Bare(op)] if op == "=~");
                    words.push(word);
                    if pattern {
                        words.push(self.regular_expression()?);
                    }
                }
            }
        }
    }

    /// The right side of `=~`, in which parentheses and bars are text.
    fn regular_expression(&mut self) -> Parsed<Word> {
        self.skip_blanks()?;
        let start = self.at;
        let mut pieces = super::scan::Pieces::default();
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' if open == 0 => break,
                b'(' | b')' | b'|' | b'<' | b'>' | b'&' | b';' | b' ' | b'\t' | b'\n' => {
                    open = match byte {
                        b'(' => open + 1,
                        b')' => open.saturating_sub(1),
                        _ => open,
                    };
                    self.advance(1)?;
                    pieces.quoted(char::from(byte));
                }
                _ => self.piece(&mut pieces)?,
            }
        }
        Ok(Word { pieces: pieces.done(), span: self.span_from(start) })
    }

    fn function_keyword(&mut self) -> Parsed<Node> {
        self.skip_blanks()?;
        let word = self.word()?;
        let name = plain(&word).ok_or_else(|| self.error("a function needs a plain name"))?;
        self.skip_blanks()?;
        if self.eat("(")? {
            self.close_parenthesis()?;
        }
        self.skip_lines()?;
        let body = self.command()?;
        Ok(Node::Function { name, body: Rc::new(body) })
    }

    fn simple(&mut self) -> Parsed<Node> {
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
                if simple.words.is_empty() || declares() {
                    if let Some(assignment) = self.assignment(!simple.words.is_empty())? {
                        simple.assignments.push(assignment);
                        end = self.at;
                        continue;
                    }
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

    fn function(&mut self, words: &[Word]) -> Parsed<Node> {
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
    fn assignment(&mut self, only_lists: bool) -> Parsed<Option<Assignment>> {
        let name = self.name();
        if name.is_empty() {
            return Ok(None);
        }
        let mut rest = self.rest().get(name.len()..).unwrap_or_default();
        let mut length = name.len();
        if rest.starts_with('[') {
            let line = rest.find(['\n', ' ', '$', '`']).unwrap_or(rest.len());
            let Some(close) = rest.get(..line).and_then(|index| index.find(']')) else { return Ok(None) };
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
        Ok(Some(Assignment { name, values, append }))
    }

    /// The redirections after a compound command.
    fn redirects(&mut self) -> Parsed<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
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
        let target = self.word()?;
        let (mut op, mut target) = (*op, target);
        match *token {
            "<<" | "<<-" => target = self.here_document(&target, *token == "<<-"),
            ">&" | "<&" if !duplicates(&target) => {
                op = if *token == ">&" { RedirectOp::Write } else { RedirectOp::Read };
            }
            _ => {}
        }
        Ok(Some(Redirect { op, target, span: self.span_from(start) }))
    }

    /// Notes a here-document; its slot stands for the body until that was read.
    fn here_document(&mut self, delimiter: &Word, strip_tabs: bool) -> Word {
        let quoted = delimiter.pieces.iter().any(|piece| matches!(piece, Piece::Quoted(_)));
        let text = delimiter.pieces.iter().map(|piece| match piece {
            Piece::Bare(text) | Piece::Quoted(text) => text.clone(),
            Piece::Param(param) => format!("${}", param.name),
            Piece::Command { .. } | Piece::Process { .. } | Piece::Arithmetic(_) => String::new(),
        });
        let slot = self.bodies.len();
        self.bodies.push(Word::default());
        self.pending.push(Pending { delimiter: text.collect(), strip_tabs, quoted, slot });
        Word { pieces: vec![Piece::Bare(format!("{SLOT}{slot}"))], span: delimiter.span }
    }
}

/// Marks a word that stands for the body of a here-document; NUL is refused in texts.
const SLOT: char = '\0';

fn duplicates(target: &Word) -> bool {
    match plain(target) {
        Some(text) => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
        None => {
            !matches!(target.pieces.first(), Some(Piece::Bare(text) | Piece::Quoted(text)) if text.contains('/'))
        }
    }
}

/// The text of a word without quotes or expansions.
pub(super) fn plain(word: &Word) -> Option<String> {
    match word.pieces.as_slice() {
        [Piece::Bare(text)] => Some(text.clone()),
        _ => None,
    }
}

fn single(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match (nodes.len(), nodes.pop()) {
        (1, Some(node)) => node,
        (_, Some(last)) => {
            nodes.push(last);
            many(nodes)
        }
        (_, None) => many(nodes),
    }
}

/// Puts bodies where their operators stand, also within substitutions.
fn fill_bodies(list: &mut List, bodies: &[Word]) {
    if !bodies.is_empty() {
        each_redirect(list, &mut |redirect| {
            let slot = match redirect.target.pieces.as_slice() {
                [Piece::Bare(text)] => text.strip_prefix(SLOT).and_then(|slot| slot.parse::<usize>().ok()),
                _ => None,
            };
            if let Some(slot) = slot {
                redirect.target = bodies.get(slot).cloned().unwrap_or_default();
            }
        });
    }
}

fn each_redirect(list: &mut List, change: &mut impl FnMut(&mut Redirect)) {
    for node in list {
        each_in_node(node, change);
    }
}

fn each_in_node(node: &mut Node, change: &mut impl FnMut(&mut Redirect)) {
    let (words, lists, redirects): (Vec<&mut Word>, Vec<&mut List>, &mut [Redirect]) = match node {
        Node::Simple(simple) => {
            let values = simple.assignments.iter_mut().flat_map(|assignment| assignment.values.iter_mut());
            (simple.words.iter_mut().chain(values).collect(), Vec::new(), &mut simple.redirects)
        }
        Node::Pipe(nodes) | Node::Both(nodes) => (Vec::new(), vec![nodes], &mut []),
        Node::Background(node) => return each_in_node(node, change),
        Node::Group { lists, redirects, .. } => (Vec::new(), lists.iter_mut().collect(), redirects),
        Node::For { words, body, redirects, .. } => (words.iter_mut().collect(), vec![body], redirects),
        Node::Case { words, lists, redirects } => {
            (words.iter_mut().collect(), lists.iter_mut().collect(), redirects)
        }
        Node::Test { words, redirects } => (words.iter_mut().collect(), Vec::new(), redirects),
        Node::Function { body, .. } => {
            if let Some(body) = Rc::get_mut(body) {
                each_in_node(body, change);
            }
            return;
        }
    };
    for redirect in redirects {
        each_in_pieces(&mut redirect.target.pieces, change);
        change(redirect);
    }
    words.into_iter().for_each(|word| each_in_pieces(&mut word.pieces, change));
    lists.into_iter().for_each(|list| each_redirect(list, change));
}

fn each_in_pieces(pieces: &mut [Piece], change: &mut impl FnMut(&mut Redirect)) {
    for piece in pieces {
        match piece {
            Piece::Command { body, .. } | Piece::Process { body } => each_redirect(body, change),
            Piece::Arithmetic(pieces) => each_in_pieces(pieces, change),
            Piece::Param(param) => each_in_pieces(&mut param.word, change),
            Piece::Bare(_) | Piece::Quoted(_) => {}
        }
    }
}

/// How many simple commands there are, those in substitutions included.
fn count(list: &List) -> usize {
    list.iter().map(count_in).sum()
}

fn count_in(node: &Node) -> usize {
    let words = |words: &[Word]| words.iter().map(|word| count_pieces(&word.pieces)).sum::<usize>();
    match node {
        Node::Simple(simple) => {
            let values: usize = simple.assignments.iter().map(|assignment| words(&assignment.values)).sum();
            1 + words(&simple.words) + values
        }
        Node::Pipe(nodes) | Node::Both(nodes) => count(nodes),
        Node::Background(node) => count_in(node),
        Node::Group { lists, .. } => lists.iter().map(count).sum(),
        Node::For { words: over, body, .. } => words(over) + count(body),
        Node::Case { words: over, lists, .. } => words(over) + lists.iter().map(count).sum::<usize>(),
        Node::Test { words: over, .. } => 1 + words(over),
        Node::Function { body, .. } => count_in(body),
    }
}

fn count_pieces(pieces: &[Piece]) -> usize {
    let count_piece = |piece: &Piece| match piece {
        Piece::Command { body, .. } | Piece::Process { body } => count(body),
        Piece::Arithmetic(pieces) => count_pieces(pieces),
        Piece::Param(param) => count_pieces(&param.word),
        Piece::Bare(_) | Piece::Quoted(_) => 0,
    };
    pieces.iter().map(count_piece).sum()
}
