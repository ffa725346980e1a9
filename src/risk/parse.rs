//! The grammar of the shell above words: lists, pipelines, compound commands, functions, redirections.
//!
//! What is not shell is an error with a place. It is never skipped over, because what a reader skips the
//! shell may run.

use super::scan::{Parsed, Scanner};
use super::syntax::{List, Node, Piece, Word};
use super::tree::{count, fill_bodies};
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
    pub(super) fn unexpected(&self) -> super::scan::SyntaxError {
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

    pub(super) fn skip_lines(&mut self) -> Parsed<()> {
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

    pub(super) fn command(&mut self) -> Parsed<Node> {
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
            let before = self.mark();
            let start = self.at;
            self.advance(2)?;
            match self.nested(Self::arithmetic) {
                Ok(pieces) => {
                    let words = vec![Word { pieces, span: self.span_from(start) }];
                    return Ok(Node::Test { words, redirects: self.redirects()? });
                }
                Err(_) => self.go_back(before),
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
        // Lines in a substitution are not the bodies of what began before it.
        let outer = std::mem::take(&mut self.pending);
        let list = self.list()?;
        // bash takes the lines after it for the body, dash runs them.
        if !self.pending.is_empty() {
            return Err(self.error("a here-document begins in a substitution that ends before its body"));
        }
        self.close_parenthesis()?;
        self.pending = outer;
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
