//! What programs do as a matter of course, as data: calls they make for nothing, and networks they need.

use super::table::{count, rows};

const CALLS: &str = include_str!("../../profiles/base/tried-anyway.txt");
static CALL_ROWS: [[&str; 3]; count(CALLS)] = rows(CALLS);
const PROGRAMS: &str = include_str!("../../profiles/net/programs.txt");
static PROGRAM_ROWS: [[&str; 3]; count(PROGRAMS)] = rows(PROGRAMS);

/// The kinds of a system call that nobody gets and that programs do without, from `profiles/base/tried-anyway.txt`.
pub fn tried_anyway(call: &str) -> impl Iterator<Item = &'static str> {
    CALL_ROWS.iter().filter(move |[name, ..]| *name == call).map(|[_, kind, _]| *kind)
}

/// Whether a program does nothing without a network when this is its first argument.
#[must_use]
pub fn needs_network(program: &str, first: Option<&str>) -> bool {
    PROGRAM_ROWS
        .iter()
        .any(|[name, argument, _]| *name == program && (*argument == "*" || Some(*argument) == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_program_and_argument() {
        assert!(needs_network("curl", None) && needs_network("git", Some("fetch")));
        assert!(!needs_network("git", Some("commit")) && !needs_network("ls", Some("fetch")));
        assert!(tried_anyway("socket").any(|kind| kind == "unix"));
    }
}
