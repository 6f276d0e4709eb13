//! Writing into a buffer: whatever text it is, in its place and no further.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use oomctl_diagnose::sanitize;

/// What the terminal can show.
#[derive(Debug, Clone, Copy)]
pub struct TerminalFeatures {
    /// More than ASCII.
    pub unicode: bool,
    /// Colours.
    pub colour: bool,
}

/// A meaning, which the look turns into a style: without colours every one of them still differs from plain text where
/// that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Plain,
    Title,
    Good,
    Bad,
    Warn,
    Name,
    Dim,
    /// The row that is chosen.
    Chosen,
    /// The line that proves why an attempt failed.
    Evidence,
    /// What was searched for.
    Hit,
}

impl TerminalFeatures {
    fn style(self, ink: Ink) -> Style {
        let colour = |colour: Color| match self.colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        };
        match ink {
            Ink::Plain => Style::new(),
            Ink::Title => Style::new().add_modifier(Modifier::BOLD),
            Ink::Good => colour(Color::Green),
            Ink::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
            Ink::Warn => colour(Color::Yellow),
            Ink::Name => colour(Color::Cyan),
            Ink::Dim => Style::new().add_modifier(Modifier::DIM),
            Ink::Chosen => Style::new().add_modifier(Modifier::REVERSED),
            Ink::Evidence => colour(Color::Red).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Ink::Hit => colour(Color::Yellow).add_modifier(Modifier::REVERSED),
        }
    }
}

/// A buffer with the rules of this view.
pub struct Pen<'a> {
    buffer: &'a mut Buffer,
    pub look: TerminalFeatures,
}

impl<'a> Pen<'a> {
    /// Writes into this buffer.
    pub fn new(buffer: &'a mut Buffer, look: TerminalFeatures) -> Self {
        Self { buffer, look }
    }

    /// Writes pieces one after the other into the row `y` of an area; what is too long is cut, and shows it.
    pub fn row(&mut self, area: Rect, y: u16, pieces: &[(&str, Ink)]) {
        if y >= area.height {
            return;
        }
        let (mut x, y, end) = (area.x, area.y + y, area.right());
        for (text, ink) in pieces {
            let text = self.shown(text);
            let style = self.look.style(*ink);
            let left = end.saturating_sub(x);
            if Span::raw(&text).width() <= usize::from(left) {
                (x, _) = self.buffer.set_stringn(x, y, &text, left.into(), style);
                continue;
            }
            let most = usize::from(left.saturating_sub(1));
            let (at, _) = self.buffer.set_stringn(x, y, &text, most, style);
            if left > 0 {
                let dots = if self.look.unicode { "…" } else { "~" };
                self.buffer.set_stringn(at, y, dots, 1, style);
            }
            return;
        }
    }

    /// A rule with a title over the whole width of an area's first row.
    pub fn title(&mut self, area: Rect, title: &str, tail: &str) {
        let line = if self.look.unicode { "─" } else { "-" };
        self.row(area, 0, &[(&line.repeat(area.width.into()), Ink::Dim)]);
        let (title, tail) = (format!(" {title} "), format!(" {tail} "));
        let inner = Rect {
            x: area.x + 1,
            width: area.width.saturating_sub(2),
            ..area
        };
        self.row(inner, 0, &[(&title, Ink::Title)]);
        let (taken, wanted) = (Span::raw(&title).width(), Span::raw(&tail).width());
        if tail.trim().is_empty() || taken + wanted + 1 > usize::from(inner.width) {
            return;
        }
        let wanted = u16::try_from(wanted).unwrap_or(inner.width);
        let right = Rect {
            x: inner.right().saturating_sub(wanted),
            width: wanted,
            ..inner
        };
        self.row(right, 0, &[(&tail, Ink::Dim)]);
    }

    /// Gives a row of an area another look, text and all.
    pub fn mark(&mut self, area: Rect, y: u16, ink: Ink) {
        let row = Rect {
            y: area.y + y,
            height: 1,
            ..area
        };
        let style = self.look.style(ink);
        self.buffer
            .set_style(row.intersection(self.buffer.area), style);
    }

    /// Wipes an area.
    pub fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for position in area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.reset();
            }
        }
    }

    /// A text as this terminal can show it, without anything that could drive it.
    fn shown(&self, text: &str) -> String {
        let text = sanitize(text.as_bytes());
        if self.look.unicode || text.is_ascii() {
            return text;
        }
        let plain = |c: char| match c {
            '→' => '>',
            '·' => '|',
            c if c.is_ascii() => c,
            _ => '?',
        };
        text.chars().map(plain).collect()
    }
}
