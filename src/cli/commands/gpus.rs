//! `oomctl gpus`: what GPUs hold, who holds it, what is wrong, and which is free.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::gpus::{free, here, job};
use crate::cli::interrupt;
use crate::core::exit::Exit;
use crate::drive::gpus::{Looks, watch};
use crate::io::sampler::node_name;
use crate::view::gpus_view::{GpusStyle, GpusView, LOOKS};
use crate::view::{AlternateScreen, CommandFailure, print};
use oomctl_base::units::{Bytes, parse_duration_s};
use oomctl_gpu::nvml::GpuError;
use oomctl_gpu::{Machine, advise};

/// Arguments of `gpus`.
#[derive(Debug, clap::Args)]
pub struct GpusArgs {
    /// Refresh every SECONDS (2) until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
    /// Wait for a GPU with this much free memory (MiB, or 40GiB), and print its UUID
    #[arg(long, value_name = "MIB", value_parser = free::size, conflicts_with = "watch")]
    wait: Option<Bytes>,
    /// Longest wait
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = parse_duration_s, requires = "wait")]
    timeout: u64,
    /// The GPUs on every node of this Slurm job
    #[arg(long, value_name = "ID", conflicts_with_all = ["watch", "wait"])]
    job: Option<String>,
    /// Read Xids from this copy of the kernel's log instead of the machine's own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wait", "job"])]
    kernel_log: Option<PathBuf>,
    /// Print one JSON document; with --watch one a line
    #[arg(short, long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(-1.0);
    if (0.05..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not a number of seconds from 0.05 to 86400".to_owned())
    }
}

/// Runs `oomctl gpus`. A machine without a driver has no GPUs, which is an answer.
pub fn run(args: &GpusArgs) -> Result<Exit, CommandFailure> {
    if let Some(job) = &args.job {
        return job::show(job, args.json);
    }
    let mut looks = match Looks::open(args.kernel_log.as_deref()) {
        Ok(looks) => looks,
        Err(e @ GpuError::NoDriver(_)) if args.wait.is_some() => {
            return Err(free::none(&e));
        }
        Err(e @ GpuError::NoDriver(_)) => {
            let reason = Some(e.to_string());
            return show(&view(Machine::default(), reason, None), args.json);
        }
        Err(e) => return Err(refused(&e)),
    };
    if let Some(need) = args.wait {
        return free::wait(&looks, need, args.timeout, args.json);
    }
    if let Some(every) = args.watch {
        return live(&mut looks, every, args.json);
    }
    let machine = looks.look().map_err(|e| refused(&e))?;
    let me = looks.me();
    let of_project = here::advice(&machine);
    let mut view = view(machine, None, Some(&me));
    view.advice.extend(of_project);
    if !args.json {
        here::no_xids(&view.machine);
    }
    show(&view, args.json)
}

fn refused(error: &GpuError) -> CommandFailure {
    CommandFailure::failed(error.to_string())
}

fn view(machine: Machine, reason: Option<String>, me: Option<&str>) -> GpusView {
    GpusView {
        schema_version: 1,
        node: Some(node_name()),
        reason,
        advice: advise(&machine, me),
        machine,
    }
}

fn show(view: &GpusView, json: bool) -> Result<Exit, CommandFailure> {
    let look = GpusStyle {
        unicode: print::unicode(),
        history: None,
    };
    print::show(json, view, |view| view.text(look))?;
    Ok(Exit::Success)
}

fn live(looks: &mut Looks, every: Duration, json: bool) -> Result<Exit, CommandFailure> {
    let sources = interrupt::listen_quietly()?;
    let (me, unicode) = (looks.me(), print::unicode());
    let mut screen = if json { None } else { AlternateScreen::open() };
    let end = watch(looks, every, LOOKS, &sources, &mut |machine, history| {
        let view = view(machine.clone(), None, Some(&me));
        let look = GpusStyle {
            unicode,
            history: Some(history),
        };
        match &mut screen {
            Some(screen) => screen.draw(&view.text(look)),
            None if json => print::json_line(&view).is_ok(),
            None => print::data(&view.plain(jiff::Timestamp::now())).is_ok(),
        }
    });
    drop(screen);
    match end.map_err(|e| refused(&e))? {
        Some(signal) => Ok(Exit::Signal(signal)),
        None => Ok(Exit::Success),
    }
}
