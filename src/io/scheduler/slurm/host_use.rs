//! What a job used of its nodes, from the TRES that sacct prints: `cpu=4,mem=800M,node=1,gres/gpu=1` of what a job was
//! given, `cpu=00:00:04,mem=314360K,pages=16` of what a step used. Both columns are the same in 22.05 and 26.05.

use oomctl_base::job::HostUse;
use oomctl_base::units::{Bytes, parse_duration_s};

/// One value of a list of TRES.
fn value<'a>(tres: &'a str, name: &str) -> Option<&'a str> {
    let mut all = tres.split(',').filter_map(|one| one.split_once('='));
    all.find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

fn memory(tres: &str) -> Option<Bytes> {
    value(tres, "mem").and_then(|mem| Bytes::parse_mib(mem).ok())
}

/// What a job that ran so long was given; nothing where the site counts neither CPUs nor memory, and before it started.
pub(super) fn given(alloc_tres: &str, ran_s: u64) -> Option<Box<HostUse>> {
    let cpus = value(alloc_tres, "cpu").and_then(|cpus| cpus.parse::<u64>().ok());
    let host = HostUse {
        memory_given: memory(alloc_tres).filter(|given| given.0 > 0),
        cpu_given_s: cpus.and_then(|cpus| cpus.checked_mul(ran_s)),
        ..HostUse::default()
    };
    (host != HostUse::default()).then(|| Box::new(host))
}

/// Adds a step's `TRESUsageInTot`. A step without memory ended before it was looked at, or nobody looks
/// (`JobAcctGatherType=jobacct_gather/none`): it says nothing.
pub(super) fn add_step(host: &mut HostUse, usage_tot: &str) {
    let Some(peak) = memory(usage_tot).filter(|peak| peak.0 > 0) else {
        return;
    };
    host.memory_peak = host.memory_peak.max(Some(peak));
    let cpu = value(usage_tot, "cpu").and_then(|cpu| parse_duration_s(cpu).ok());
    if let Some(cpu) = cpu {
        host.cpu_s = Some(host.cpu_s.unwrap_or(0).saturating_add(cpu));
    }
}
