//! Text tables that fit the terminal; whatever came from a client is made harmless.

use std::fmt::Write as _;

use streamside_topology::text::sanitize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The narrowest that a column is cut to, in terminal columns.
const NARROWEST: usize = 8;
const GAP: &str = "  ";

/// Rows under a line of headings.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these headings.
    pub fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the headings are dropped, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| sanitize(&cell).into_owned()).collect();
        row.resize(self.headings.len(), String::new());
        self.rows.push(row);
    }

    /// The text, each line with its end; `width` is the terminal's, none means no limit.
    pub fn text(&self, width: Option<usize>) -> String {
        let headings = self.headings.iter().map(|heading| heading.width());
        let mut widths: Vec<usize> = headings.collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        if let Some(limit) = width {
            self.shrink(&mut widths, limit);
        }
        let mut text = String::new();
        let headings: Vec<String> = self.headings.iter().map(|&heading| heading.to_owned()).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (cell, &width) in row.iter().zip(&widths) {
                let cell = cut(cell, width);
                let pad = width - cell.width();
                let _ = write!(line, "{cell}{:pad$}{GAP}", "");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Takes from the widest column, as long as there is one worth cutting.
    fn shrink(&self, widths: &mut [usize], limit: usize) {
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let floors: Vec<usize> = self.headings.iter().map(|heading| heading.width().max(NARROWEST)).collect();
        loop {
            let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
            let spare = |(at, width): (usize, &usize)| width.saturating_sub(floors.get(at).copied().unwrap_or(0));
            let widest = widths.iter().enumerate().max_by_key(|&(at, width)| (spare((at, width)) > 0, *width));
            match widest.map(|(at, width)| (at, spare((at, width)))) {
                Some((at, spare)) if over > 0 && spare > 0 => {
                    // By steps, so that two wide columns end up alike.
                    if let Some(width) = widths.get_mut(at) {
                        *width -= 1;
                    }
                }
                _ => return,
            }
        }
    }
}

/// The text in at most `width` columns; an ellipsis shows that there was more.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["GROUP", "STATE", "CLIENT"]);
        table.row(["orders".to_owned(), "Stable".to_owned(), "a".repeat(30)]);
        table.row(["b\u{1b}[2J\u{202e}x".to_owned(), "Empty".to_owned()]);
        table.row(["店".repeat(10), String::new(), "c".to_owned()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_hostile_text_is_shown() {
        let text = table().text(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "GROUP                 STATE   CLIENT");
        assert_eq!(lines[1], "orders                Stable  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(lines[2], "b\\u{1b}[2J\\u{202e}x   Empty");
        assert_eq!(lines[3], "店店店店店店店店店店          c");
    }

    #[test]
    fn a_table_fits_the_terminal() {
        for width in [30, 40, 50] {
            let text = table().text(Some(width));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
            assert!(text.contains("…"), "{text}");
        }
        // Nothing below what can still be read.
        assert!(table().text(Some(5)).lines().all(|line| line.width() <= 8 + 8 + 8 + 4));
    }
}
