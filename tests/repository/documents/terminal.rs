//! A terminal as a picture: what a program printed, with its colours, as SVG for light and dark pages.

use regex::Regex;

/// Characters of a line; longer ones are cut.
const COLUMNS: usize = 110;
const LINE_HEIGHT: usize = 17;
const CHARACTER_WIDTH: f64 = 7.8;
const MARGIN: usize = 14;

/// The look, light and dark. A page that shows the picture as an image passes on what its reader prefers.
const STYLE: &str =
    "text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
    rect { fill: #f6f8fa; stroke: #d1d9e0 }
    .green { fill: #1a7f37 } .red { fill: #cf222e; font-weight: bold } .yellow { fill: #9a6700 }
    .cyan { fill: #0969da } .dim { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } rect { fill: #0d1117; stroke: #3d444d }
      .green { fill: #3fb950 } .red { fill: #ff7b72 } .yellow { fill: #d29922 }
      .cyan { fill: #58a6ff } .dim { fill: #9198a1 }
    }";

/// Text without its escapes.
pub fn plain(coloured: &str) -> String {
    escape().replace_all(coloured, "").into_owned()
}

fn escape() -> Regex {
    Regex::new("\u{1b}\\[([0-9;]*)m").unwrap()
}

/// The picture of a command and what it printed. What differs from run to run is left out or made the same.
pub fn drawn(command: &str, coloured: &str) -> String {
    let left_out = Regex::new(r"^ +step \d|^attempt \d+  RUNNING on").unwrap();
    let durations = Regex::new(r"\b\d+s\b").unwrap();
    let hours = Regex::new(r"[\d.]+ GPU-hours").unwrap();
    let printed = coloured.lines().filter(|l| !left_out.is_match(&plain(l)));
    let printed = printed.map(|l| durations.replace_all(l, "3s").into_owned());
    let printed = printed.map(|l| hours.replace_all(&l, "0.01 GPU-hours").into_owned());
    let lines: Vec<String> = std::iter::once(command.to_owned()).chain(printed).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + LINE_HEIGHT * (number + 1) - 4;
        text.push_str(&format!(
            "  <text x=\"{MARGIN}\" y=\"{y}\">{}</text>\n",
            spans(line)
        ));
    }
    let width = (COLUMNS as f64 * CHARACTER_WIDTH) as usize + 2 * MARGIN;
    let height = LINE_HEIGHT * lines.len() + 2 * MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n  <style>\n    {STYLE}\n  </style>\n  <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{text}</svg>\n",
        quoted(command),
        width - 1,
        height - 1,
    )
}

/// A line with a `tspan` for each stretch of one colour.
fn spans(line: &str) -> String {
    let (escape, mut out, mut colour, mut room, mut at) = (escape(), String::new(), "", COLUMNS, 0);
    let ends = escape.captures_iter(line).map(|c| {
        let found = c.get(0).unwrap();
        (found.start(), found.end(), colour_of(&c[1]))
    });
    let ends: Vec<(usize, usize, Option<&str>)> =
        ends.chain([(line.len(), line.len(), None)]).collect();
    for (start, end, next) in ends {
        let whole = &line[at..start];
        let mut shown: String = whole.chars().take(room).collect();
        let length = whole.chars().count();
        if length > room && room > 0 {
            shown.pop();
            shown.push('…');
        }
        room = room.saturating_sub(length);
        match (shown.is_empty(), colour) {
            (true, _) => {}
            (_, "") => out.push_str(&quoted(&shown)),
            (_, colour) => out.push_str(&format!(
                "<tspan class=\"{colour}\">{}</tspan>",
                quoted(&shown)
            )),
        }
        // Escapes follow each other: bold, then red.
        colour = next.map_or(colour, |next| if next == "bold" { colour } else { next });
        at = end;
    }
    out
}

/// The class for an escape's numbers; None for the end of the line.
fn colour_of(numbers: &str) -> Option<&'static str> {
    Some(match numbers {
        "31" => "red",
        "32" => "green",
        "33" => "yellow",
        "36" => "cyan",
        "2" => "dim",
        "1" => "bold",
        _ => "",
    })
}

fn quoted(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
