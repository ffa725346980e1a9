//! Did you mean …?

/// How alike two words must be before one is offered for the other.
const NEAR: f64 = 0.8;

/// The candidate most like `word`, if any is near enough.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro(&word, candidate), candidate))
        .filter(|(score, _)| *score >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_of_the_finger_finds_the_word() {
        assert_eq!(closest("pathz", ["in", "paths"]), Some("paths"));
        assert_eq!(closest("records.reed", ["records.read", "fs.read"]), Some("records.read"));
    }

    #[test]
    fn an_unrelated_word_finds_nothing() {
        assert_eq!(closest("totally_bogus", ["in", "paths"]), None);
    }
}
