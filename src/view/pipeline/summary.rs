//! A job summary that keeps to its size.

/// Bytes that a step may put into its summary.
///
/// Source: docs.github.com, "Workflow commands for GitHub Actions": job summaries are at most 1 MiB a step, and more
/// than that fails the upload of all of it.
pub const SUMMARY_MAX: usize = 1 << 20;

/// Said where something had to be left out.
const CUT: &str =
    "\n\n… cut here: a job summary has at most 1 MiB; `oomctl report` has all of it.\n";

/// Markdown of at most `most` bytes, cut between lines. A block of code that is open there is closed.
pub fn within(markdown: &str, most: usize) -> String {
    if markdown.len() <= most {
        return markdown.to_owned();
    }
    let mut kept = String::new();
    let mut fence: Option<&str> = None;
    for line in markdown.split_inclusive('\n') {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        let opened = match fence {
            None if ticks.len() >= 3 => Some(ticks),
            Some(open) if line.trim_end() == open => None,
            as_it_was => as_it_was,
        };
        let close = opened.map_or(0, |open| open.len() + 1);
        if kept.len() + line.len() + close + CUT.len() > most {
            break;
        }
        kept.push_str(line);
        fence = opened;
    }
    if let Some(open) = fence {
        kept.push_str(open);
        kept.push('\n');
    }
    if kept.len() + CUT.len() <= most {
        kept.push_str(CUT);
    }
    kept
}
