//! `oomctl gpus`: what the GPUs of this machine hold, and who holds it.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::print::{self, Failure, NAME, Paint};
use crate::io::gpu::{Gpu, GpuError, gpus};

/// Arguments of `gpus`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    schema_version: u32,
    /// Why there are none, where that is known.
    reason: Option<String>,
    gpus: Vec<Gpu>,
}

/// Runs `oomctl gpus`. A machine without a driver has no GPUs, which is an answer.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let view = match gpus() {
        Ok(gpus) => View {
            schema_version: 1,
            reason: None,
            gpus,
        },
        Err(e @ GpuError::NoDriver(_)) => View {
            schema_version: 1,
            reason: Some(e.to_string()),
            gpus: Vec::new(),
        },
        Err(e) => return Err(Failure::new(1, e.to_string())),
    };
    if args.json {
        print::json(&view)?;
    } else {
        print::data(&text(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(view: &View) -> String {
    if view.gpus.is_empty() {
        let why = view.reason.as_deref().unwrap_or("the driver sees none");
        return format!(
            "no GPUs: {why}\non a login node, `srun --jobid=JOBID oomctl gpus` looks at a job's\n"
        );
    }
    let mut out = String::new();
    for gpu in &view.gpus {
        let _ = writeln!(
            out,
            "{:>2}  {}  {} free of {}  {}",
            gpu.index,
            Paint(NAME, &gpu.name),
            gpu.free_bytes,
            gpu.total_bytes,
            gpu.uuid
        );
        for process in &gpu.processes {
            let used = process
                .used_bytes
                .map_or_else(|| "unknown".to_owned(), |b| b.to_string());
            let _ = writeln!(out, "      pid {}: {used}", process.pid);
        }
    }
    out
}
