//! Shipped tables, read while compiling: one row a line, cells apart by `|`, `#` for comments.
//!
//! Answers for cutting text into cells. What the cells mean is for each list to say.
//! Invariant: a row with fewer cells than asked for stops the build.

/// The number of rows in a table.
pub(super) const fn count(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut rows, mut at) = (0, 0);
    while at < bytes.len() {
        let end = line_end(bytes, at);
        if is_row(bytes, at, end) {
            rows += 1;
        }
        at = end + 1;
    }
    rows
}

/// The first cells of every row.
pub(super) const fn rows<const ROWS: usize, const CELLS: usize>(
    text: &'static str,
) -> [[&'static str; CELLS]; ROWS] {
    let bytes = text.as_bytes();
    let mut rows = [[""; CELLS]; ROWS];
    let (mut row, mut at) = (0, 0);
    while at < bytes.len() {
        let end = line_end(bytes, at);
        if is_row(bytes, at, end) {
            rows[row] = cells(text, at, end);
            row += 1;
        }
        at = end + 1;
    }
    rows
}

const fn cells<const CELLS: usize>(text: &'static str, mut at: usize, end: usize) -> [&'static str; CELLS] {
    let bytes = text.as_bytes();
    let mut cells = [""; CELLS];
    let mut cell = 0;
    while cell < CELLS {
        assert!(at <= end, "a row of a table has too few cells");
        let mut bar = at;
        while bar < end && bytes[bar] != b'|' {
            bar += 1;
        }
        let (_, rest) = text.split_at(at);
        let (found, _) = rest.split_at(bar - at);
        cells[cell] = found.trim_ascii();
        at = bar + 1;
        cell += 1;
    }
    cells
}

const fn line_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    at
}

const fn is_row(bytes: &[u8], mut at: usize, end: usize) -> bool {
    if at < end && bytes[at] == b'#' {
        return false;
    }
    while at < end && bytes[at].is_ascii_whitespace() {
        at += 1;
    }
    at < end
}

#[cfg(test)]
mod tests {
    use super::{count, rows};

    const TEXT: &str = "# a comment\n\n  one | 1 | because \ntwo|2|of | bars\n   \nthree | 3 |";

    #[test]
    fn cells_are_trimmed_and_comments_left_out() {
        const ROWS: [[&str; 3]; count(TEXT)] = rows(TEXT);
        assert_eq!(ROWS, [["one", "1", "because"], ["two", "2", "of"], ["three", "3", ""]]);
    }
}
