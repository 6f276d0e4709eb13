//! Cells in columns.

use super::Paint;

/// Where the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// At its left.
    Left,
    /// At its right, as numbers do.
    Right,
}

/// Rows of cells, in columns that are as wide as their widest cell, with two blanks between them.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<(Side, usize)>,
    rows: Vec<Vec<TableCell>>,
}

/// A cell, and how it is painted.
#[derive(Debug)]
pub struct TableCell {
    text: String,
    style: Option<anstyle::Style>,
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            style: None,
        }
    }
}

impl TableCell {
    /// The same in this style.
    pub fn painted(self, style: Option<anstyle::Style>) -> Self {
        Self { style, ..self }
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn padded(&self, side: Side, width: usize) -> String {
        let text = &self.text;
        let text = match side {
            Side::Left => format!("{text:<width$}"),
            Side::Right => format!("{text:>width$}"),
        };
        match self.style {
            Some(style) => Paint(style, &text).to_string(),
            None => text,
        }
    }
}

impl Table {
    /// No rows yet, in columns of which each is at least so wide.
    pub fn new(columns: impl IntoIterator<Item = (Side, usize)>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// One more row.
    pub fn row<C: Into<TableCell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<TableCell> = cells.into_iter().map(Into::into).collect();
        for ((_, width), cell) in self.columns.iter_mut().zip(&cells) {
            *width = (*width).max(cell.text.chars().count());
        }
        self.rows.push(cells);
    }

    /// Its lines, without blanks at their ends.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.columns).enumerate();
            let cells = cells.map(|(at, (cell, (side, width)))| {
                // Blanks at the end of a painted cell could not be trimmed.
                let ends = at + 1 == row.len() && *side == Side::Left;
                cell.padded(*side, if ends { 0 } else { *width })
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            line.trim_end().to_owned()
        })
    }

    /// Its lines, each behind `indent`.
    pub fn text(&self, indent: &str) -> String {
        self.lines()
            .map(|line| format!("{indent}{line}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Side, Table};

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_in_no_blanks() {
        let mut table = Table::new([(Side::Left, 0), (Side::Right, 6), (Side::Left, 0)]);
        table.row(["knob", "peak", "note"]);
        table.row(["é", "12.5", ""]);
        assert_eq!(table.text("> "), "> knob    peak  note\n> é       12.5\n");
    }
}
