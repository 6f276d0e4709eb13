#!/usr/bin/env python3
"""Fits the constants of one memory profile to measured peaks, and says what that is worth on rows not seen.

    benches/memory/fit.py TABLE.jsonl PROFILE CONSTANT=LOW:HIGH[:STEP]... [--oomctl PATH] [--pull 0.02]

Coordinate descent over the constants; the cost is the mean absolute ln(estimated / measured), plus `--pull` for
each constant that leaves its present value by a factor of e, so that a constant moves only where several rows
ask for it. Rows of low confidence are left out. The second figure is from a fit with each group of
rows left out in turn. `logits.NAME` is one loss. Nothing is written: the constants are printed.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROFILES = os.path.join(HERE, "..", "..", "presets", "memory")


def read_profile(name):
    with open(os.path.join(PROFILES, name + ".yaml"), encoding="utf-8") as file:
        return file.read()


def with_constants(text, constants):
    for key, value in constants.items():
        if key.startswith("logits."):
            loss = key.split(".")[1]
            line = re.search(r"^logits: \{(.*)\}$", text, re.M)
            entries = dict(e.split(":") for e in line.group(1).split(",")) if line else {}
            entries = {k.strip(): v.strip() for k, v in entries.items()}
            entries[loss] = f"{value:.4g}"
            new = "logits: { " + ", ".join(f"{k}: {v}" for k, v in entries.items()) + " }"
            text = text.replace(line.group(0), new) if line else text + new + "\n"
        else:
            line = f"{key}: {value:.4g}"
            text, found = re.subn(rf"^{key}:.*$", line, text, flags=re.M)
            if not found:
                text += line + "\n"
    return text


class Fit:
    def __init__(self, oomctl, profile, start, pull):
        self.oomctl, self.profile, self.start, self.pull = os.path.abspath(oomctl), profile, start, pull
        self.text = read_profile(profile)
        self.folder = tempfile.TemporaryDirectory()
        os.makedirs(os.path.join(self.folder.name, "presets", "memory"))
        self.known = {}

    def errors(self, rows, constants):
        key = tuple(sorted(constants.items()))
        if key not in self.known:
            path = os.path.join(self.folder.name, "presets", "memory", self.profile + ".yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(with_constants(self.text, constants))
            text = "".join(json.dumps(row) + "\n" for row in self.rows)
            done = subprocess.run([self.oomctl, "estimate", "--jsonl", "-"], input=text, capture_output=True, text=True,
                                  cwd=self.folder.name, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            told = {r["id"]: r["predicted_peak_gib"] for r in map(json.loads, done.stdout.splitlines())}
            self.known[key] = {r["id"]: math.log(told[r["id"]] / r["measured_peak_gib"]) for r in self.rows}
        known = self.known[key]
        return [known[row["id"]] for row in rows]

    def cost(self, rows, constants):
        away = sum(abs(math.log(max(v, 1e-3) / max(self.start[k], 1e-3))) for k, v in constants.items())
        return statistics.mean(abs(e) for e in self.errors(rows, constants)) + self.pull * away

    def best(self, rows, ranges):
        constants = dict(self.start)
        for _ in range(4):
            before = dict(constants)
            for key, (low, high, steps) in ranges.items():
                values = {low + (high - low) * i / steps for i in range(steps + 1)} | {constants[key]}
                constants[key] = min(sorted(values), key=lambda v: self.cost(rows, {**constants, key: v}))
            if constants == before:
                break
        return constants


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table")
    arguments.add_argument("profile")
    arguments.add_argument("constants", nargs="+")
    arguments.add_argument("--oomctl", default="target/debug/oomctl")
    arguments.add_argument("--pull", type=float, default=0.02)
    given = arguments.parse_args()
    ranges, start = {}, {}
    for text in given.constants:
        key, bounds = text.split("=")
        parts = bounds.split(":")
        ranges[key] = (float(parts[0]), float(parts[1]), int(parts[3]) if len(parts) > 3 else 10)
        start[key] = float(parts[2]) if len(parts) > 2 and parts[2] else (ranges[key][0] + ranges[key][1]) / 2
    fit = Fit(given.oomctl, given.profile, start, given.pull)
    with open(given.table, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    usable = [r for r in rows if r["measured_peak_gib"] and r["confidence"] != "low" and r["metric"] != "budget"]
    with_profile = subprocess.run([given.oomctl, "estimate", "--jsonl", "-"], capture_output=True, text=True, check=False,
                                  input="".join(json.dumps(r) + "\n" for r in usable))
    profile_of = {r["id"]: r["profile"] for r in map(json.loads, with_profile.stdout.splitlines())}
    fit.rows = [r for r in usable if profile_of.get(r["id"]) == given.profile]
    whole = fit.best(fit.rows, ranges)
    inside = [abs(e) for e in fit.errors(fit.rows, whole)]
    outside = []
    groups = sorted({r["group"] for r in fit.rows})
    for group in groups:
        seen = [r for r in fit.rows if r["group"] != group]
        left = [r for r in fit.rows if r["group"] == group]
        if seen:
            outside += [abs(e) for e in fit.errors(left, fit.best(seen, ranges))]
    print(f"{len(fit.rows)} rows, {len(groups)} groups: " + ", ".join(f"{k} {v:.4g}" for k, v in whole.items()))
    print(f"fitted median {statistics.median(inside):.1%} mean {statistics.mean(inside):.1%}; "
          f"group left out median {statistics.median(outside or [float('nan')]):.1%} "
          f"mean {statistics.mean(outside or [float('nan')]):.1%}")


if __name__ == "__main__":
    main()
