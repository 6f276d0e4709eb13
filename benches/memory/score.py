#!/usr/bin/env python3
"""Scores `oomctl estimate --jsonl` against a table of measured peaks.

    benches/memory/score.py TABLE.jsonl [--oomctl PATH] [--by framework] [--show N] [--subgroups]

The table has one JSON object a line in the fields of `docs/memory.md`, with `measured_peak_gib`, `metric`,
`fits`, `confidence` and `group`. Rows of low confidence and of the metric `budget` are left out. `--subgroups` shows
every subgroup of 30 or more measured rows, by each of the fields in SUBGROUPS. Beside the share of rows in the interval
stands what that many rows tell of it (Wilson's interval of 95 %); `!` marks one that excludes all of AIM.
"""
import argparse
import collections
import json
import math
import statistics
import subprocess

SUBGROUPS = ["framework", "metric", "precision", "optimizer", "sharding", "grad_checkpointing", "attention", "quant", "loss_impl",
             "mlp", "tied", "gpu_type", "task"]
LEAST = 30
# What a stated interval of 90 % should hold.
AIM = (0.86, 0.94)


def estimates(oomctl, table):
    done = subprocess.run([oomctl, "estimate", "--jsonl", table], capture_output=True, text=True, check=False)
    if done.stderr:
        print(done.stderr.strip())
    return {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def wilson(inside, of):
    """Between which shares the true one lies with 95 %, where `inside` of so many were seen (Wilson 1927)."""
    z, seen = 1.96, inside / of
    middle = (seen + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(seen * (1 - seen) / of + z * z / (4 * of * of))
    return middle - half, middle + half


def coverage(insides):
    """The share of rows in their interval, with what it tells."""
    low, high = wilson(sum(insides), len(insides))
    mark = "" if low <= AIM[1] and high >= AIM[0] else " !"
    return f"{sum(insides) / len(insides):6.1%} ({low:.0%} to {high:.0%}){mark}"


def figures(rows):
    errors = [abs(e) for _, e, _ in rows]
    return (f"n {len(rows):4d}  median {statistics.median(errors):6.1%}  p90 {quantile(errors, 0.9):6.1%}  "
            f"bias {statistics.median(e for _, e, _ in rows):+6.1%}  in the 90 % interval {coverage([c for _, _, c in rows])}")


def judged(row, answer):
    """A measured row with its relative error, and whether it lies in the interval."""
    peak = row["measured_peak_gib"]
    return row, answer["predicted_peak_gib"] / peak - 1, answer["low_gib"] <= peak <= answer["high_gib"]


def by(field, measured):
    groups = collections.defaultdict(list)
    for entry in measured:
        groups[str(entry[0].get(field))].append(entry)
    return sorted(groups.items(), key=lambda g: -len(g[1]))


def subgroups(measured):
    for field in SUBGROUPS:
        for name, entries in by(field, measured):
            if len(entries) >= LEAST:
                print(f"  {field + ' ' + name:36.36}", figures(entries))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table")
    arguments.add_argument("--oomctl", default="target/debug/oomctl")
    arguments.add_argument("--by", default="framework")
    arguments.add_argument("--show", type=int, default=0)
    arguments.add_argument("--subgroups", action="store_true")
    given = arguments.parse_args()
    with open(given.table, encoding="utf-8") as lines:
        table = [json.loads(line) for line in lines if line.strip()]
    told = estimates(given.oomctl, given.table)
    measured, calls = [], []
    for row in table:
        answer = told.get(row["id"])
        if answer is None or row["confidence"] == "low" or row["metric"] == "budget":
            continue
        if row["measured_peak_gib"]:
            measured.append(judged(row, answer))
        if row.get("gpu_total_gib"):
            calls.append((row, answer["predicted_peak_gib"] <= row["gpu_total_gib"]))
    print("all           ", figures(measured))
    sharded = [m for m in measured if m[0]["gpus"] > 1 and m[0]["sharding"] in ("fsdp", "fsdp2", "zero1", "zero2", "zero3")]
    if sharded:
        print("FSDP and ZeRO ", figures(sharded))
    fits = [call for row, call in calls if row["fits"]]
    ooms = [not call for row, call in calls if not row["fits"]]
    if fits and ooms:
        balanced = (sum(fits) / len(fits) + sum(ooms) / len(ooms)) / 2
        print(f"fits {sum(fits)} of {len(fits)}, does not fit {sum(ooms)} of {len(ooms)}, balanced {balanced:.1%}")
    for name, entries in by(given.by, measured):
        print(f"  {name[:28]:28}", figures(entries))
    if given.subgroups:
        subgroups(measured)
    worst = sorted(measured, key=lambda m: -abs(m[1]))[: given.show]
    for row, error, _ in worst:
        answer = told[row["id"]]
        terms = ", ".join(f"{t['name']} {t['gib']:.1f}" for t in answer["terms"][:6])
        print(f"  {row['id']:34} {row['measured_peak_gib']:7.2f} {answer['predicted_peak_gib']:7.2f} {error:+.0%} "
              f"{answer['phase']}: {terms}")
    for row, call in calls:
        if given.show and call != row["fits"]:
            answer = told[row["id"]]
            print(f"  {row['id']:34} of {row['gpu_total_gib']} {'fits' if row['fits'] else 'OOM'}: "
                  f"{answer['predicted_peak_gib']:.1f} {answer['phase']} p {answer['fits_probability']}")


if __name__ == "__main__":
    main()
