#!/usr/bin/env bash
# Trains in a pipeline: train.sh RUN [options of oomctl submit]
#
# The first call submits the run. Every later one goes on with it, whatever job or pipeline calls: the run is in Slurm
# and in .oomctl, not in here, and outlives a job that is cancelled or out of time.
set -euo pipefail

run=${1:?the name of a run}
shift
reports=(--junit oomctl-junit.xml --code-quality oomctl-quality.json --dotenv oomctl.env)

# With exec, for GitHub signals the first process of a step alone.
if oomctl status "$run" >/dev/null 2>&1; then
    exec oomctl watch "$run" "${reports[@]}"
fi
exec oomctl submit --run "$run" --watch "${reports[@]}" "$@"
