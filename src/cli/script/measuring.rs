//! The command that measures a job without a GPU, as it runs.

use super::absent::fails_at_once;
use crate::cli::request::known::LookupTables;
use crate::cli::session::Session;
use crate::core::request::Request;
use oomctl_base::Role;
use oomctl_memory::Capacity;

/// A type of GPU, where the job names none that the tables have.
const ANY: &str = "h100";

/// The command, with what the job does not say of its GPU; none for a script whose program cannot be started here.
pub fn measure_command(session: &Session, request: &Request) -> Option<String> {
    let card = card(session, request);
    let Some(scripts) = &request.inputs().scripts else {
        return Some(format!("oomctl measure{card}"));
    };
    let adoption = request.adoption()?;
    adoption.program().ok()?;
    let starts = fails_at_once(request, &adoption).is_none();
    starts.then(|| format!("oomctl measure{card} {}", scripts.command()))
}

/// The options that name a card.
fn card(session: &Session, request: &Request) -> String {
    let known = LookupTables::new(&session.library, &session.folder);
    let named = request.value_of(&[], Role::GpuType).map(|v| v.to_string());
    let named = named.filter(|name| matches!(known.processor(name), Ok(Some(_))));
    let size = named.and_then(|name| known.gpu(&name).ok().flatten());
    match size {
        None => format!(" --gpu-type {ANY}"),
        Some((Capacity::Several(all), _)) if request.gpu_memory().is_none() => {
            let first = all.first().map_or("", String::as_str);
            format!(" --gpu-memory {first}")
        }
        Some(_) => String::new(),
    }
}
