//! `oomctl estimate`: how much GPU memory a job needs, before it runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::load;
use super::print::{self, Failure};
use crate::core::memory::{Estimate, Phase, Row, Term, Unknown, estimate};
use crate::io::files::read_text;

/// Largest file of specifications that is read, in bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Exit code for specifications that cannot be estimated.
const CONFIGURATION: u8 = 5;

/// Arguments of `estimate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Estimate one bare specification, a JSON object in a file (`-` for standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "jsonl")]
    spec: Option<PathBuf>,
    /// Estimate many, one JSON object a line
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
}

/// One line of the answer.
#[derive(Serialize)]
struct Line {
    id: Option<String>,
    predicted_peak_gib: f64,
    low_gib: f64,
    high_gib: f64,
    phase: Phase,
    terms: Vec<TermView>,
    host_gib: f64,
    fits_probability: Option<f64>,
    profile: String,
}

#[derive(Serialize)]
struct TermView {
    name: &'static str,
    gib: f64,
}

const GIB: f64 = 1_073_741_824.0;

fn gib(bytes: f64) -> f64 {
    (bytes / GIB * 1000.0).round() / 1000.0
}

/// Runs `oomctl estimate`.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (path, lines) = match (&args.spec, &args.jsonl) {
        (Some(path), _) => (path, false),
        (None, Some(path)) => (path, true),
        (None, None) => {
            return Err(Failure::new(
                2,
                "nothing to estimate: give --spec or --jsonl",
            ));
        }
    };
    let text = text_of(path)?;
    let profiles = load::profiles(&load::project(None)?.library)?;
    let specs: Vec<(usize, &str)> = if lines {
        let numbered = text.lines().enumerate().map(|(i, line)| (i + 1, line));
        numbered
            .filter(|(_, line)| !line.trim().is_empty())
            .collect()
    } else {
        vec![(1, text.as_str())]
    };
    let mut bad = 0;
    for (number, line) in specs {
        match one(line, &profiles) {
            Ok(view) => print::data(&format!(
                "{}\n",
                serde_json::to_string(&view).unwrap_or_default()
            ))?,
            Err(why) => {
                bad += 1;
                print::talk(&format!("{}:{number}: {why}", path.display()));
            }
        }
    }
    Ok(if bad == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CONFIGURATION)
    })
}

fn text_of(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::stdin(), &mut text)
            .map_err(|e| Failure::new(2, format!("standard input: {e}")))?;
        return Ok(text);
    }
    read_text(path, MOST_BYTES).map_err(|e| Failure::new(2, e.to_string()))
}

fn one(line: &str, profiles: &crate::core::memory::Profiles) -> Result<Line, String> {
    let row: Row = serde_json::from_str(line).map_err(|e| format!("no specification: {e}"))?;
    let profile = profiles.of_framework(row.framework.as_deref().unwrap_or(""));
    let spec = row.spec(profile).map_err(|e: Unknown| e.to_string())?;
    let estimate: Estimate = estimate(&spec, profile);
    let terms = estimate
        .fullest()
        .map(|p| p.terms.clone())
        .unwrap_or_default();
    Ok(Line {
        id: row.id,
        predicted_peak_gib: gib(estimate.peak_bytes),
        low_gib: gib(estimate.low_bytes),
        high_gib: gib(estimate.high_bytes),
        phase: estimate.phase,
        terms: terms
            .iter()
            .map(|t: &Term| TermView {
                name: t.name,
                gib: gib(t.bytes),
            })
            .collect(),
        host_gib: gib(estimate.fullest().map_or(0.0, |p| p.host_bytes)),
        fits_probability: estimate
            .fits_probability
            .map(|p| (p * 1000.0).round() / 1000.0),
        profile: profile.profile.clone(),
    })
}
