//! Faults of the hardware.
//!
//! What each figure means and when a GPU must be reset or exchanged: NVIDIA, "GPU Memory Error Management" and
//! "XID Errors".

use super::super::gpu::{Gpu, Machine, Throttle};
use super::super::xid::Xid;
use super::super::xid_table::XidOrigin;
use super::{GpuAdvice, Trouble, about};

/// Where the kernel tells why a GPU was lost.
const KERNEL_LOG: &str = "dmesg | grep -i xid";

pub(super) fn of(machine: &Machine) -> Vec<GpuAdvice> {
    let lost = machine
        .unavailable
        .iter()
        .filter(|u| u.lost)
        .map(|u| GpuAdvice {
            kind: Trouble::Lost,
            gpus: vec![u.index],
            text: format!("GPU {} does not answer: {}", u.index, u.error),
            command: KERNEL_LOG.to_owned(),
        });
    let faulty = machine.gpus.iter().filter_map(memory_errors);
    let slow = machine.gpus.iter().filter_map(throttled);
    let told = machine.xids.iter().filter_map(|xid| fault(machine, xid));
    lost.chain(faulty).chain(told).chain(slow).collect()
}

/// An Xid that no program is to blame for.
fn fault(machine: &Machine, xid: &Xid) -> Option<GpuAdvice> {
    let gpu = machine.gpus.iter().find(|gpu| Some(gpu.index) == xid.gpu);
    let command = match (xid.origin, gpu) {
        (XidOrigin::Program | XidOrigin::Follows | XidOrigin::Unknown, _) => return None,
        (XidOrigin::Driver, Some(gpu)) => {
            format!(
                "nvidia-smi --gpu-reset -i {}    # when nothing runs on it",
                gpu.uuid
            )
        }
        (XidOrigin::Hardware, Some(gpu)) => {
            format!("nvidia-smi -q -i {}    # for the administrators", gpu.uuid)
        }
        (_, None) => KERNEL_LOG.to_owned(),
    };
    Some(GpuAdvice {
        kind: Trouble::Xid,
        gpus: xid.gpu.into_iter().collect(),
        text: xid.to_string(),
        command,
    })
}

fn memory_errors(gpu: &Gpu) -> Option<GpuAdvice> {
    let (index, uuid, health) = (gpu.index, &gpu.uuid, &gpu.health);
    let errors = health.ecc_uncorrected.unwrap_or(0);
    let (text, command) = if health.replacement_failed {
        (
            format!("GPU {index} has faulty memory that it cannot remap: replace the GPU"),
            format!("nvidia-smi -q -d ECC,ROW_REMAPPER -i {uuid}"),
        )
    } else if health.replacement_pending {
        (
            format!("GPU {index} has faulty memory that is replaced when the GPU is reset"),
            format!("nvidia-smi --gpu-reset -i {uuid}"),
        )
    } else if errors > 0 {
        let plural = if errors == 1 { "error" } else { "errors" };
        (
            format!(
                "GPU {index} had {errors} uncorrectable memory {plural} since the driver was loaded"
            ),
            format!("nvidia-smi -q -d ECC,ROW_REMAPPER -i {uuid}"),
        )
    } else {
        return None;
    };
    Some(about(gpu, Trouble::Ecc, text, command))
}

fn throttled(gpu: &Gpu) -> Option<GpuAdvice> {
    let why = match gpu.health.throttled.first()? {
        Throttle::Thermal => "it is too hot",
        Throttle::PowerBrake => "the power supply is too weak",
        Throttle::Hardware => "the hardware protects itself",
    };
    let heat = gpu
        .temperature_c
        .map(|c| format!(" ({c} C)"))
        .unwrap_or_default();
    let text = format!("GPU {} is throttled: {why}{heat}", gpu.index);
    let command = format!(
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {}",
        gpu.uuid
    );
    Some(about(gpu, Trouble::Throttled, text, command))
}
