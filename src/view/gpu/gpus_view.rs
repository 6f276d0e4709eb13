//! The GPUs of a machine, as text and as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bars::{bar, fitted, sparkline};
use super::figures::{in_gib, of_gib};
use super::style::{BAD, DIM, NAME, Paint, WARN};
use oomctl_gpu::{
    DeviceMemory, Gpu, GpuAdvice, Machine, Process, ProcessLife, Trouble, Unavailable, UseHistory,
    Xid, XidOrigin,
};

/// Most processes of a GPU that are shown.
const PROCESSES: usize = 12;
/// Cells of a bar, and of one beside a sparkline.
const CELLS: usize = 20;
const NARROW: usize = 10;
/// Looks that a sparkline shows.
pub const LOOKS: usize = 12;
/// Widest name of a GPU.
const NAME_MAX: usize = 18;

/// One machine.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GpusView {
    /// Version of the document.
    pub schema_version: u32,
    /// Host name; on a node of a job the scheduler's name for it.
    #[serde(default)]
    pub node: Option<String>,
    /// Why there are no GPUs, where that is known.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the look found.
    #[serde(flatten)]
    pub machine: Machine,
    /// What is wrong.
    #[serde(default)]
    pub advice: Vec<GpuAdvice>,
}

/// The nodes of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JobGpusView {
    /// Version of the document.
    pub schema_version: u32,
    /// The job.
    pub job: String,
    /// Its nodes that answered, by name.
    pub nodes: Vec<GpusView>,
    /// What the scheduler said of those that did not.
    pub error: Option<String>,
}

/// How the text looks.
#[derive(Debug, Clone, Copy)]
pub struct GpusStyle<'a> {
    /// Does the terminal show more than ASCII?
    pub unicode: bool,
    /// Earlier looks, for sparklines.
    pub history: Option<&'a UseHistory>,
}

impl GpusView {
    /// The text; whoever prints it folds its lines.
    pub fn text(&self, look: GpusStyle<'_>) -> String {
        let machine = &self.machine;
        let mut out = Vec::new();
        let width = machine.gpus.iter().map(|g| short(&g.name).chars().count());
        let width = width.max().unwrap_or(0).min(NAME_MAX);
        let mut closed = machine.unavailable.iter().peekable();
        for gpu in &machine.gpus {
            while let Some(gone) = closed.next_if(|gone| gone.index < gpu.index) {
                out.push(closed_line(gone));
            }
            gpu_lines(gpu, width, look, &mut out);
        }
        out.extend(closed.map(closed_line));
        if machine.gpus.is_empty() && machine.unavailable.is_empty() {
            let why = self.reason.as_deref().unwrap_or("the driver finds none");
            let said = format!(
                "No GPUs: {why}. On a login node, `oomctl gpus --job JOBID` shows those of a job."
            );
            out.push(said);
        }
        let programs = |xid: &&Xid| !matches!(xid.origin, XidOrigin::Hardware | XidOrigin::Driver);
        let xids = machine.xids.iter().filter(programs);
        for xid in xids {
            out.push(xid.to_string());
        }
        if !self.advice.is_empty() {
            out.push(String::new());
        }
        for advice in &self.advice {
            advice_lines(advice, &mut out);
        }
        out.join("\n") + "\n"
    }

    /// One line a GPU, with the time, for logs.
    pub fn plain(&self, now: jiff::Timestamp) -> String {
        let line = |gpu: &Gpu| {
            let use_ = gpu.utilization_percent.map(|u| format!(" {u}%"));
            let heat = gpu.temperature_c.map(|c| format!(" {c}C"));
            format!(
                "{now:.0} GPU {} {}{}{} {}\n",
                gpu.index,
                used_of(gpu.memory),
                use_.unwrap_or_default(),
                heat.unwrap_or_default(),
                gpu.uuid
            )
        };
        self.machine.gpus.iter().map(line).collect()
    }
}

impl JobGpusView {
    /// The text: the nodes one below the other.
    pub fn text(&self, look: GpusStyle<'_>) -> String {
        let mut out = String::new();
        for node in &self.nodes {
            let name = node.node.as_deref().unwrap_or("?");
            out.push_str(&format!("{}\n{}", Paint(NAME, name), node.text(look)));
        }
        out
    }
}

fn gpu_lines(gpu: &Gpu, width: usize, look: GpusStyle<'_>, out: &mut Vec<String>) {
    let rates = [
        gpu.utilization_percent.map(|u| format!("{u}%")),
        gpu.temperature_c.map(|c| format!("{c}C")),
    ];
    let [busy, heat] = rates.map(Option::unwrap_or_default);
    let name = fitted(short(&gpu.name), width, look.unicode);
    let name = format!("{name:width$}");
    let start = format!("{:>2} {}", gpu.index, Paint(NAME, &name));
    if let Some(parts) = &gpu.mig {
        out.push(
            format!("{start} split, {busy:>4} {heat:>4}")
                .trim_end()
                .to_owned(),
        );
        for part in parts {
            let profile = part.name.rsplit("MIG ").next().unwrap_or(&part.name);
            let profile = fitted(&format!("MIG {profile}"), width, look.unicode);
            let meter = meter(part.memory, &part.uuid, look);
            out.push(format!("   {profile:width$} {meter}"));
            process_lines(&part.processes, out);
        }
        return;
    }
    let meter = meter(gpu.memory, &gpu.uuid, look);
    let line = format!("{start} {meter} {busy:>4} {heat:>4}");
    out.push(line.trim_end().to_owned());
    process_lines(&gpu.processes, out);
}

fn closed_line(gone: &Unavailable) -> String {
    format!("{:>2} cannot be opened: {}", gone.index, gone.error)
}

/// Bar, figures, and the sparkline where there is a history.
fn meter(memory: DeviceMemory, uuid: &str, look: GpusStyle<'_>) -> String {
    let share = memory.used_percent();
    let cells = if look.history.is_some() {
        NARROW
    } else {
        CELLS
    };
    let bar = bar(share, cells, look.unicode);
    let style = if share >= 95 { WARN } else { DIM };
    let figures = format!("{:>18}", used_of(memory));
    match look.history {
        None => format!("{} {figures}", Paint(style, &bar)),
        Some(history) => {
            let line = sparkline(history.shares(uuid), look.unicode);
            format!("{} {line:>LOOKS$} {figures}", Paint(style, &bar))
        }
    }
}

fn used_of(memory: DeviceMemory) -> String {
    of_gib(memory.used.gib(), memory.total.gib())
}

/// Without the maker, who is known.
fn short(name: &str) -> &str {
    name.strip_prefix("NVIDIA ").unwrap_or(name)
}

fn process_lines(processes: &[Process], out: &mut Vec<String>) {
    let mut sorted: Vec<&Process> = processes.iter().collect();
    sorted.sort_by_key(|p| (std::cmp::Reverse(p.used_bytes), p.pid));
    for process in sorted.iter().take(PROCESSES) {
        let used = process
            .used_bytes
            .map_or_else(|| "?".to_owned(), |b| in_gib(b.gib()));
        let job = process.job.as_ref().map(|job| format!("job {job}"));
        let life = match process.life {
            ProcessLife::Runs | ProcessLife::Unknown => None,
            ProcessLife::Ending => Some("has ended".to_owned()),
            ProcessLife::Stopped => Some("stopped".to_owned()),
            ProcessLife::Gone => Some("does not exist".to_owned()),
        };
        let pid = Some(format!("pid {}", process.pid));
        let words = [
            process.user.clone(),
            job,
            pid,
            life,
            process.command.clone(),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        out.push(format!("   {used:>9}  {}", words.join("  ")));
    }
    if sorted.len() > PROCESSES {
        out.push(format!(
            "              and {} more",
            sorted.len() - PROCESSES
        ));
    }
}

fn advice_lines(advice: &GpuAdvice, out: &mut Vec<String>) {
    let style = match advice.kind {
        Trouble::Lost | Trouble::Ecc | Trouble::Zombie => BAD,
        _ => WARN,
    };
    out.push(Paint(style, &advice.text).to_string());
    out.push(format!("  {}", advice.command));
}
