//! A made-up framework, `weaver`: a preset, a template and a trainer in bash, with knob names, rules and a
//! ladder of its own. What the trainer does is told by variables.

use super::place::Place;

pub const PRESET: &str = r#"
preset: weaver
summary: A loom, for tests
uses: [slurm]
files:
  - { name: job.sbatch, template: weaver/job.sbatch.j2, entry: true }

knobs:
  - name: launcher
    role: launcher
    type: list
    default: [bash, trainer.sh]
    effect: resources
    doc: The command.
  - name: threads
    role: micro_batch
    spelling: { flag: --threads }
    type: int
    unit: threads
    min: 1
    max: 4096
    default: 8
    effect: same-math
    doc: Threads that are woven at once.
  - name: bundles
    role: grad_accumulation
    spelling: { flag: --bundles }
    type: int
    min: 1
    default: 1
    effect: same-math
    doc: Passes for one row.
  - name: cloth
    role: train_batch
    spelling: { flag: --cloth }
    type: int
    min: 1
    default: 64
    effect: changes-training
    doc: Width of the cloth.
  - name: motto
    spelling: { flag: --motto= }
    type: text
    effect: changes-training
    doc: Woven into the border.
  - name: dye
    spelling: { env: WEAVER_DYE }
    type: text
    effect: changes-training
    doc: Colour.
  - name: n_gpus
    role: gpus_per_node
    type: int
    min: 0
    default: 1
    effect: resources
    doc: GPUs.

derived:
  - { name: job_nodes, expr: '1' }
  - { name: job_gpus, expr: n_gpus }
  - { name: row, expr: threads * bundles }

rules:
  - name: cloth-in-rows
    must: cloth % row == 0
    message: 'cloth {{ cloth }} is no multiple of a row of {{ row }} threads'
    hint: 'cloth {{ row * (cloth // row) }} would be legal'
    stage: driver
    source: the loom's manual

ladder:
  - rung: thin
    title: weave half as many threads, twice as often
    moves:
      - { knob: threads, times: 0.5 }
      - { knob: bundles, along: true, to_expr: bundles * 2 }
    laps: 16
    notes:
      - a row stays {{ row }} threads wide
  - rung: narrow
    title: halve the cloth
    moves:
      - { knob: cloth, times: 0.5 }
    laps: 2

progress:
  - 'woven (?P<step>\d+) of (?P<total>\d+)'
"#;

const TEMPLATE: &str = r#"#!/bin/bash
{% include "slurm/_header.sbatch.j2" %}

# Run {{ attempt.run|comment }}, attempt {{ attempt.number }}.
{% include "slurm/_start.sh.j2" %}
{% include "slurm/_environment.sh.j2" %}
cd {{ attempt.workdir }}
exec {% for word in launcher %}{{ word }} {% endfor %}{% for word in flags %}{{ word }} {% endfor %}

"#;

/// `WEAVER` says what happens: `fits N` (default 2), `deaf` to what is changed, `fail`, `survive` an OOM and fail 150 rows on, `mute`, `host_oom`, `sleep`, `hang`.
const TRAINER: &str = r#"#!/bin/bash
attempt=$OOMCTL_ATTEMPT
printf '%s\0' "$@" >"argv.$attempt"
/usr/bin/env -0 >"env.$attempt"
pwd >"pwd.$attempt"
while (($#)); do case $1 in --threads) threads=$2; shift 2 ;; *) shift ;; esac; done
set -- ${WEAVER:-fits 2}
oom() {
  echo "Traceback (most recent call last):" >&2
  echo '  File "/opt/weaver/loom.py", line 12, in weave' >&2
  echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.18 GiB memory in use. Of the allocated memory $((78 - attempt)).00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated." >&2
}
case $1 in
  fits) if ((threads > $2)); then oom; exit 1; fi ;;
  deaf) attempt=1; oom; exit 1 ;;
  fail) echo "Traceback (most recent call last):" >&2; echo "KeyError: 'shuttle'" >&2; exit 1 ;;
  survive) oom; for ((row = 60; row <= 200; row += 10)); do echo "row done, step: $row, loss: 0.3" >&2; done
    echo "Traceback (most recent call last):" >&2; echo '  File "/opt/weaver/loom.py", line 61, in shed' >&2; echo "KeyError: 'txt'" >&2; exit 1 ;;
  mute) for ((row = 1; row <= 14; row++)); do printf 'row \033[1m%d\033[0m\n' $row >&2; done; exit 7 ;;
  host_oom) echo "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks have been OOM Killed." >&2; exit 137 ;;
  sleep) echo $$ >"pid.$attempt"; sleep 300 & echo $! >"child.$attempt"; wait; ;;
  hang) if ((attempt == 1)); then oom; sleep 300; fi ;;
  wait) for ((i = 0; i < 600; i++)); do [ -e go ] && break; sleep 0.05; done ;;
esac
for step in 1 2 3; do echo "woven $step of 3"; done
"#;

/// A project of this framework, all of whose files lie in the project's folder.
pub fn project(yaml: &str) -> Place {
    let place = Place::with(&format!("preset: weaver\n{yaml}"));
    furnish(&place);
    place
}

/// Puts preset, template and trainer into a folder.
pub fn furnish(place: &Place) {
    place.write("presets/weaver.yaml", PRESET);
    place.write("templates/weaver/job.sbatch.j2", TEMPLATE);
    place.write("trainer.sh", TRAINER);
}

/// The words that the trainer of an attempt got.
#[track_caller]
pub fn words(place: &Place, attempt: u32) -> Vec<String> {
    let text = place.read(&format!("argv.{attempt}"));
    let mut words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    words.pop();
    words
}
