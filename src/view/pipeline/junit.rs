//! A JUnit report: a suite for each run, a case for each attempt and one for the run.
//!
//! The format is that of the Jenkins xUnit plugin (`junit-10.xsd`), which GitLab and the actions that show reports on
//! GitHub read too. The cases agree with the exit code: an attempt that failed in a run that did not is skipped, with the
//! cause as its message, and its evidence as its output.

use std::fmt::Write as _;

use super::{PipelineFailure, PipelineRun, is_failure};
use crate::core::exit::Exit;
use crate::view::run_view::{AttemptView, RunView};

/// What has come of a case.
enum Came {
    Passed,
    Failed {
        message: String,
        kind: String,
        text: String,
    },
    Skipped {
        message: String,
        text: String,
    },
}

struct Case {
    name: String,
    seconds: i64,
    came: Came,
}

/// How many cases there are, and how many failed and were skipped.
#[derive(Default, Clone, Copy)]
struct Counts {
    cases: usize,
    failed: usize,
    skipped: usize,
}

/// The report of some runs.
pub fn junit(runs: &[PipelineRun]) -> String {
    let suites: Vec<(&RunView, Vec<Case>)> = runs.iter().map(|t| (&t.view, cases(t))).collect();
    let all = counts(suites.iter().flat_map(|(_, cases)| cases));
    let seconds: i64 = runs.iter().map(|t| t.view.elapsed_s).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"oomctl\" {} time=\"{seconds}.000\">",
        all.attributes()
    );
    for (view, cases) in &suites {
        suite(&mut out, view, cases);
    }
    out.push_str("</testsuites>\n");
    out
}

fn suite(out: &mut String, view: &RunView, cases: &[Case]) {
    let created = view.created.map(|at| {
        let at = at.strftime("%Y-%m-%dT%H:%M:%S");
        format!(" timestamp=\"{at}\"")
    });
    let _ = writeln!(
        out,
        "  <testsuite name=\"{}\" {} time=\"{}.000\"{}>",
        xml(&view.run),
        counts(cases).attributes(),
        view.elapsed_s,
        created.unwrap_or_default()
    );
    for case in cases {
        write_case(out, &view.run, case);
    }
    out.push_str("  </testsuite>\n");
}

fn write_case(out: &mut String, run: &str, case: &Case) {
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}.000\"",
        xml(run),
        xml(&case.name),
        case.seconds
    );
    match &case.came {
        Came::Passed => out.push_str("/>\n"),
        Came::Failed {
            message,
            kind,
            text,
        } => {
            let (message, kind, text) = (xml(message), xml(kind), xml(text));
            let _ = writeln!(
                out,
                ">\n      <failure message=\"{message}\" type=\"{kind}\">{text}</failure>\n    </testcase>"
            );
        }
        Came::Skipped { message, text } => {
            let _ = writeln!(out, ">\n      <skipped message=\"{}\"/>", xml(message));
            if !text.is_empty() {
                let _ = writeln!(out, "      <system-out>{}</system-out>", xml(text));
            }
            out.push_str("    </testcase>\n");
        }
    }
}

fn cases(told: &PipelineRun) -> Vec<Case> {
    let mut findings = told.findings();
    let attempts = told.view.attempts.iter();
    let mut cases: Vec<Case> = attempts
        .map(|attempt| {
            let finding = is_failure(attempt).then(|| findings.next()).flatten();
            case(attempt, finding.as_ref())
        })
        .collect();
    cases.push(of_run(&told.view));
    cases
}

fn case(attempt: &AttemptView, finding: Option<&PipelineFailure<'_>>) -> Case {
    let came = match finding {
        None if attempt.ended.is_some() => Came::Passed,
        None => Came::Skipped {
            message: "not over".to_owned(),
            text: String::new(),
        },
        Some(finding) => {
            let then = Some(finding.then()).filter(|then| !then.is_empty());
            let lines = std::iter::once(finding.headline()).chain(then);
            let text = lines.chain(finding.evidence()).collect::<Vec<_>>();
            let text = text.join("\n");
            match finding.healed {
                true => Came::Skipped {
                    message: finding.headline(),
                    text,
                },
                false => Came::Failed {
                    message: finding.headline(),
                    kind: finding.kind().to_owned(),
                    text,
                },
            }
        }
    };
    let took = attempt.ended.map(|e| e.duration_since(attempt.intended));
    Case {
        name: format!("attempt {}", attempt.attempt),
        seconds: took.map_or(0, |took| took.as_secs().max(0)),
        came,
    }
}

fn of_run(view: &RunView) -> Case {
    let came = match view.exit_code {
        Some(Exit::Success) => Came::Passed,
        None => Came::Skipped {
            message: format!("not over: {}", view.state),
            text: String::new(),
        },
        Some(code) => {
            let reason = view.reason.clone().unwrap_or_else(|| view.state.clone());
            let hint = view.hint.as_ref().map(|hint| format!("hint: {hint}"));
            let exit = Some(format!("exit code {code}"));
            let text = [Some(reason.clone()), hint, exit];
            let text: Vec<String> = text.into_iter().flatten().collect();
            Came::Failed {
                message: reason,
                kind: view.state.clone(),
                text: text.join("\n"),
            }
        }
    };
    Case {
        name: "run".to_owned(),
        seconds: view.elapsed_s,
        came,
    }
}

fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Counts {
    cases
        .into_iter()
        .fold(Counts::default(), |mut counts, case| {
            counts.cases += 1;
            match case.came {
                Came::Passed => {}
                Came::Failed { .. } => counts.failed += 1,
                Came::Skipped { .. } => counts.skipped += 1,
            }
            counts
        })
}

impl Counts {
    fn attributes(self) -> String {
        format!(
            "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
            self.cases, self.failed, self.skipped
        )
    }
}

/// Text as content or as an attribute. What XML 1.0 has no way to write (section 2.2, `Char`) is replaced.
fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            '\t' => safe.push_str("&#9;"),
            '\r' => safe.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                safe.push('\u{fffd}')
            }
            c => safe.push(c),
        }
    }
    safe
}
