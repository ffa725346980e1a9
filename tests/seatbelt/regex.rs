//! Expressions of the profile language, as far as our profiles use them; anything else is an error.
//!
//! Extended expressions with `.`, `[…]`, `(…|…)`, `*`, `+`, `?` and the two anchors. Backtracking, so meant for
//! paths of ordinary length only.

#[derive(Debug)]
enum Node {
    Any,
    One(char),
    Class { negated: bool, chars: Vec<(char, char)> },
    Group(Vec<Vec<Node>>),
    Repeat(Box<Node>, usize, usize),
}

#[derive(Debug)]
pub(crate) struct Regex {
    start: bool,
    end: bool,
    alternatives: Vec<Vec<Node>>,
}

impl Regex {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let start = text.starts_with('^');
        let end = text.ends_with('$');
        let body = &text[usize::from(start)..text.len() - usize::from(end)];
        let chars: Vec<char> = body.chars().collect();
        let mut at = 0;
        let alternatives = alternatives(&chars, &mut at)?;
        if at != chars.len() {
            return Err(format!("unbalanced expression {text}"));
        }
        Ok(Self { start, end, alternatives })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let starts = if self.start { 0..=0 } else { 0..=chars.len() };
        starts.into_iter().any(|from| {
            self.alternatives
                .iter()
                .any(|nodes| run(nodes, &chars, from, &mut |at| !self.end || at == chars.len()))
        })
    }
}

fn alternatives(chars: &[char], at: &mut usize) -> Result<Vec<Vec<Node>>, String> {
    let mut all = vec![Vec::new()];
    while *at < chars.len() && chars[*at] != ')' {
        let c = chars[*at];
        *at += 1;
        let node = match c {
            '|' => {
                all.push(Vec::new());
                continue;
            }
            '(' => {
                let inner = alternatives(chars, at)?;
                if chars.get(*at) != Some(&')') {
                    return Err("a group is not closed".to_owned());
                }
                *at += 1;
                Node::Group(inner)
            }
            '[' => class(chars, at)?,
            '.' => Node::Any,
            '*' | '+' | '?' | '\\' | '{' | '}' | ']' | '^' | '$' => {
                return Err(format!("{c} is not used by our profiles here"));
            }
            c => Node::One(c),
        };
        let node = match chars.get(*at) {
            Some('*') => Node::Repeat(Box::new(node), 0, usize::MAX),
            Some('+') => Node::Repeat(Box::new(node), 1, usize::MAX),
            Some('?') => Node::Repeat(Box::new(node), 0, 1),
            _ => {
                all.last_mut().ok_or("nothing")?.push(node);
                continue;
            }
        };
        *at += 1;
        all.last_mut().ok_or("nothing")?.push(node);
    }
    Ok(all)
}

fn class(chars: &[char], at: &mut usize) -> Result<Node, String> {
    let negated = chars.get(*at) == Some(&'^');
    *at += usize::from(negated);
    let mut ranges = Vec::new();
    loop {
        let c = *chars.get(*at).ok_or("a class is not closed")?;
        *at += 1;
        if c == ']' && !ranges.is_empty() {
            return Ok(Node::Class { negated, chars: ranges });
        }
        if chars.get(*at) == Some(&'-') && chars.get(*at + 1).is_some_and(|next| *next != ']') {
            ranges.push((c, chars[*at + 1]));
            *at += 2;
        } else {
            ranges.push((c, c));
        }
    }
}

fn run(nodes: &[Node], text: &[char], at: usize, done: &mut dyn FnMut(usize) -> bool) -> bool {
    let Some((first, rest)) = nodes.split_first() else { return done(at) };
    step(first, text, at, &mut |next| run(rest, text, next, done))
}

fn step(node: &Node, text: &[char], at: usize, done: &mut dyn FnMut(usize) -> bool) -> bool {
    let one = |fits: bool| fits && at < text.len();
    match node {
        Node::Any => one(true) && done(at + 1),
        Node::One(c) => one(text.get(at) == Some(c)) && done(at + 1),
        Node::Class { negated, chars } => {
            let inside = text.get(at).is_some_and(|c| chars.iter().any(|(low, high)| low <= c && c <= high));
            one(inside != *negated) && done(at + 1)
        }
        Node::Group(alternatives) => alternatives.iter().any(|nodes| run(nodes, text, at, done)),
        Node::Repeat(inner, least, most) => repeat(inner, *least, *most, text, at, done),
    }
}

fn repeat(
    inner: &Node,
    least: usize,
    most: usize,
    text: &[char],
    at: usize,
    done: &mut dyn FnMut(usize) -> bool,
) -> bool {
    let longer = most > 0
        && step(inner, text, at, &mut |next| {
            let most = if most == usize::MAX { most } else { most - 1 };
            next > at && repeat(inner, least.saturating_sub(1), most, text, next, done)
        });
    longer || (least == 0 && done(at))
}

#[test]
fn expressions_match_as_they_should() {
    for (regex, text, matches) in [
        ("^/(.*/)?[.][gG]it/hooks(/.*)?$", "/w/.Git/hooks/x", true),
        ("^/(.*/)?[.][gG]it/hooks(/.*)?$", "/.git/hooks", true),
        ("^/(.*/)?[.][gG]it/hooks(/.*)?$", "/w/x.git/hooks", false),
        ("^/(.*/)?[.][gG]it/hooks(/.*)?$", "/w/.git/hooksx", false),
        ("^/a/[^/]+/.+/b$", "/a/x/y/z/b", true),
        ("^/a/[^/]+/.+/b$", "/a/x/b", false),
        ("^/mp-", "/mp-123", true),
        ("^/mp-", "x/mp-123", false),
        ("^/(one|two)([.]lock)?$", "/two.lock", true),
        ("^/(one|two)([.]lock)?$", "/twoxlock", false),
    ] {
        assert_eq!(Regex::new(regex).unwrap().matches(text), matches, "{regex} {text}");
    }
    for odd in ["a{2}", "a\\.b", "(a", "a)", "[a", "*a"] {
        assert!(Regex::new(odd).is_err(), "{odd}");
    }
}
