//! Walks over a whole tree: putting here-documents in their place, counting commands.

use super::heredoc::SLOT;
use super::syntax::{List, Node, Piece, Redirect, Word};
use std::rc::Rc;

/// Puts bodies where their operators stand, also within substitutions.
pub(super) fn fill_bodies(list: &mut List, bodies: &[Word]) {
    if !bodies.is_empty() {
        each_redirect(list, &mut |redirect| fill(redirect, bodies));
    }
}

/// The same in the pieces of a word.
pub(super) fn fill_in_pieces(pieces: &mut [Piece], bodies: &[Word]) {
    if !bodies.is_empty() {
        each_in_pieces(pieces, &mut |redirect| fill(redirect, bodies));
    }
}

fn fill(redirect: &mut Redirect, bodies: &[Word]) {
    let slot = match redirect.target.pieces.as_slice() {
        [Piece::Bare(text)] => text.strip_prefix(SLOT).and_then(|slot| slot.parse::<usize>().ok()),
        _ => None,
    };
    if let Some(slot) = slot {
        redirect.target = bodies.get(slot).cloned().unwrap_or_default();
    }
}

pub(super) fn each_redirect(list: &mut List, change: &mut impl FnMut(&mut Redirect)) {
    for node in list {
        each_in_node(node, change);
    }
}

pub(super) fn each_in_node(node: &mut Node, change: &mut impl FnMut(&mut Redirect)) {
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

pub(super) fn each_in_pieces(pieces: &mut [Piece], change: &mut impl FnMut(&mut Redirect)) {
    for piece in pieces {
        match piece {
            Piece::Command { body, .. } | Piece::Process { body, .. } => each_redirect(body, change),
            Piece::Arithmetic(pieces) => each_in_pieces(pieces, change),
            Piece::Param(param) => each_in_pieces(&mut param.word, change),
            Piece::Bare(_) | Piece::Quoted(_) => {}
        }
    }
}

/// How many simple commands there are, those in substitutions included.
pub(super) fn count(list: &List) -> usize {
    list.iter().map(count_in).sum()
}

pub(super) fn count_in(node: &Node) -> usize {
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

pub(super) fn count_pieces(pieces: &[Piece]) -> usize {
    let count_piece = |piece: &Piece| match piece {
        Piece::Command { body, .. } | Piece::Process { body, .. } => count(body),
        Piece::Arithmetic(pieces) => count_pieces(pieces),
        Piece::Param(param) => count_pieces(&param.word),
        Piece::Bare(_) | Piece::Quoted(_) => 0,
    };
    pieces.iter().map(count_piece).sum()
}
