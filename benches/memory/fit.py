#!/usr/bin/env python3
"""Fits the constants of the memory profiles to measured peaks, and says what that is worth on rows not seen.

    benches/memory/fit.py TABLE.jsonl [PROFILE]... [--oomctl PATH] [--pull 0.1] [--write]

The cost is the sum of the absolute ln(estimated / measured); for a row of which only is known whether it fits, what
the probability of the right answer lacks to one half; and `--pull` for each constant that leaves its general value
(the default in profile.rs) by a factor of e, so that a constant moves only where rows ask for it. Rows of low
confidence and of the metric `budget` are left out. The first table has, for each profile, the error of the constants
as they are, of a fit, and of fits with each group of rows (one curve or table of a source) left out in turn; then the
factor on the widths of the intervals with which 90 % would lie inside, drawn towards that of all stacks. A new row of
a known stack lies between the fit and a group left out, so that both count for the width. The second leaves out each framework in turn, fits the general constants to the others and estimates it
as a stack of which nothing is known. Behind each stand subgroups of 30 or more rows with the share that lies in the interval, of rows that were left out
alone (score.py says what stands beside it). `--write` puts the constants and the widths into presets/memory. Takes minutes.
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

import score

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PROFILES = os.path.join(ROOT, "presets", "memory")
# Constants that the rows of each profile can tell apart; a loss as `logits.NAME`.
FITTED = {
    "litgpt": ["activations", "logits.litgpt", "adapter", "constant_gib", "quantised_inputs", "load_copies", "save_copies"],
    "ms-swift": ["logits.hf", "reserved", "reserved_most_gib", "constant_gib", "scores", "scores_backward"],
    "qwen-finetune": ["logits.hf", "logits.hf.hf_fp16", "constant_gib", "reserved"],
    "megatron": ["logits.megatron", "constant_gib", "activations", "scores"],
    "torchtune": ["logits.ce", "constant_gib", "reserved"],
    "hf-trainer": ["logits.hf", "logits.hf.one", "context_gib", "constant_gib", "activations_compiled", "working_set", "reserved"],
    "fsdp-qlora": ["logits.hf", "constant_gib", "reserved"],
    "torchtitan": ["logits.titan", "selective", "constant_gib"],
    "axolotl": ["constant_gib", "quantised_embedding"],
    "unknown": ["logits.other", "constant_gib", "reserved"],
}
STEPS = [0.7, 0.9, 0.97, 1.03, 1.1, 1.4]
SPREADS = ["spread_static", "spread_activations", "spread_logits", "spread_gib"]
# What the intervals should hold, and rows of all stacks that count beside a stack's own for their width.
COVERAGE = 0.9
BORROWED = 20
UNSEEN = 1.28
FEW_ROWS = 3.0
# How much harder it is to move what holds for every stack.
FIRM = 10


def general():
    """The defaults in profile.rs."""
    with open(os.path.join(ROOT, "src", "core", "memory", "profile.rs"), encoding="utf-8") as file:
        text = file.read()
    block = text[text.index("impl Default for Profile"):]
    values = {key: float(value) for key, value in re.findall(r"^ {12}(\w+): ([\d.]+),$", block, re.M)}
    losses = re.findall(r'^    \("(\w+)", ([\d.]+)\),$', block, re.M)
    return values | {f"logits.{loss}": float(value) for loss, value in losses}


def text_of(profile):
    with open(os.path.join(PROFILES, profile + ".yaml"), encoding="utf-8") as file:
        return file.read()


def constant(text, key):
    if key.startswith("logits."):
        found = re.search(rf"\b{re.escape(key[7:])}: ([\d.]+)", "".join(re.findall(r"^logits: .*$", text, re.M)))
    else:
        found = re.search(rf"^{key}: ([\d.]+)", text, re.M)
    return float(found.group(1)) if found else None


def with_constants(text, constants):
    for key, value in constants.items():
        if key.startswith("logits."):
            loss, line = key[7:], re.search(r"^logits: \{(.*)\}$", text, re.M)
            entries = [e.split(": ") for e in line.group(1).strip().split(", ")] if line else []
            entries = {**dict(entries), loss: f"{value:.3g}"}
            new = "logits: { " + ", ".join(f"{k}: {v}" for k, v in entries.items()) + " }"
            text = text.replace(line.group(0), new) if line else text + new + "\n"
        else:
            line = f"{key}: {value:.3g}"
            text, found = re.subn(rf"^{key}:.*$", line, text, flags=re.M)
            text += "" if found else line + "\n"
    return text


class Model:
    """`oomctl estimate --jsonl` with changed constants of one profile."""

    def __init__(self, oomctl, profile, rows):
        self.oomctl, self.profile, self.rows = os.path.abspath(oomctl), profile, rows
        self.text = text_of(profile)
        self.folder = tempfile.TemporaryDirectory()
        os.makedirs(os.path.join(self.folder.name, "presets", "memory"))
        self.input = "".join(json.dumps(row) + "\n" for row in rows)
        self.known = {}

    def answers(self, constants):
        key = tuple(sorted((k, f"{v:.3g}") for k, v in constants.items()))
        if key not in self.known:
            path = os.path.join(self.folder.name, "presets", "memory", self.profile + ".yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(with_constants(self.text, constants))
            done = subprocess.run([self.oomctl, "estimate", "--jsonl", "-"], input=self.input, capture_output=True,
                                  text=True, cwd=self.folder.name, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            self.known[key] = {r["id"]: r for r in map(json.loads, done.stdout.splitlines())}
        return self.known[key]

    def told(self, rows, constants):
        """The measured ones of these rows, each with its answer."""
        answers = self.answers(constants)
        return [(r, answers[r["id"]]) for r in rows if r["measured_peak_gib"]]

    def errors(self, rows, constants):
        return [math.log(a["predicted_peak_gib"] / r["measured_peak_gib"]) for r, a in self.told(rows, constants)]

    def doubts(self, rows, constants):
        told = self.answers(constants)
        bare = [(r["fits"], told[r["id"]]["fits_probability"]) for r in rows if not r["measured_peak_gib"]]
        return [max(0.0, 0.5 - (p if fits else 1 - p)) for fits, p in bare]


def fit(model, rows, keys, prior, pull):
    """Constants of least cost for `rows`, by steps along each in turn."""
    def cost(constants):
        away = sum(abs(math.log(max(v, 1e-2) / max(prior[k], 1e-2))) for k, v in constants.items())
        # A sum over rows against a pull that does not grow with them: few rows move little.
        return sum(map(abs, model.errors(rows, constants) + model.doubts(rows, constants))) + pull * away
    best = {k: constant(model.text, k) or prior[k] for k in keys}
    least = cost(best)
    for _ in range(6):
        before = least
        for key in keys:
            for step in STEPS:
                trial = {**best, key: max(best[key], 0.02) * step}
                if cost(trial) < least - 1e-6:
                    best, least = trial, cost(trial)
        if before - least < 1e-3:
            break
    return best


def line(name, *columns):
    cells = "".join(f"  {statistics.median(c):7.1%} {score.quantile(c, 0.9):7.1%}" if c else " " * 17 for c in columns)
    print(f"{name[:32]:32} {len(columns[0]):4d}{cells}", flush=True)


def relative(told):
    return [abs(error) for _, error, _ in (score.judged(*t) for t in told)]


def distances(told):
    """How far the truth lies from the middle, in widths of that side of the interval."""
    far = []
    for row, answer in told:
        peak, middle = row["measured_peak_gib"], answer["predicted_peak_gib"]
        side = answer["high_gib"] - middle if peak > middle else middle - answer["low_gib"]
        far.append(abs(peak - middle) / max(1e-9, side))
    return far


def left_out(model, rows, keys, prior, pull):
    """The measured rows, each with what constants say of it that are fitted without its group."""
    told = []
    for group in sorted({r["group"] for r in rows}):
        constants = fit(model, [r for r in rows if r["group"] != group], keys, prior, pull)
        told += model.told([r for r in rows if r["group"] == group], constants)
    return told


def each_profile(given, usable, profile_of):
    """Each profile as it is, fitted, and with groups left out."""
    print(f"{'profile':32} rows    as is     p90   fitted     p90 left out     p90")
    prior, found, columns = general(), {}, ([], [], [])
    for profile in given.profiles or sorted(set(profile_of.values())):
        rows = [r for r in usable if profile_of[r["id"]] == profile]
        if not any(r["measured_peak_gib"] for r in rows):
            continue
        model, keys = Model(given.oomctl, profile, rows), FITTED.get(profile, [])
        for key in keys:
            prior.setdefault(key, prior.get(key.rsplit(".", 1)[0], prior["logits.other"]))
        whole = fit(model, rows, keys, prior, given.pull)
        outside = left_out(model, rows, keys, prior, given.pull)
        present = {k: constant(model.text, k) or prior[k] for k in keys}
        cells = [model.told(rows, present), model.told(rows, whole), outside]
        for column, cell in zip(columns, cells):
            column += cell
        line(profile, *map(relative, cells))
        print("    " + ", ".join(f"{k} {v:.3g}" for k, v in whole.items()), flush=True)
        found[profile] = (model, whole, distances(outside), distances(cells[1]))
    line("all", *map(relative, columns))
    widths(given, found, prior)
    print("\neach row under constants that are fitted without its group, by subgroup")
    score.subgroups([score.judged(*t) for t in columns[2]])


def unseen(text):
    """How much wider than its widths the intervals of a profile are stated, as `unseen` in estimate.rs."""
    rows, constants = (constant(text, key) or 0.0 for key in ("rows", "constants"))
    few = min(math.sqrt((rows + constants) / (rows - constants)), FEW_ROWS) if rows > constants else FEW_ROWS if constants else 1.0
    return max(UNSEEN, few)


def widths(given, found, prior):
    """What the intervals of each stack must be multiplied by."""
    everyone = score.quantile([d for _, _, far, near in found.values() for d in far + near], COVERAGE)
    print(f"\n{'profile':32} rows  inside when left out, and the width for {COVERAGE:.0%}")
    for profile, (model, whole, far, near) in found.items():
        own = score.quantile(far + near, COVERAGE)
        # The widths of a profile; what is stated is wider.
        factor = unseen(model.text) * math.exp((len(far) * math.log(own) + BORROWED * math.log(everyone)) / (len(far) + BORROWED))
        inside = score.coverage([d <= 1 for d in far])
        print(f"{profile[:32]:32} {len(far):4d}  {inside}  x {factor:.2f}", flush=True)
        if given.write:
            spreads = {key: (constant(model.text, key) or prior[key]) * factor for key in SPREADS}
            with open(os.path.join(PROFILES, profile + ".yaml"), "w", encoding="utf-8") as file:
                file.write(with_constants(model.text, whole | spreads))


def general_word(row, profile_of):
    """A stack's own word for a format, in the words of all."""
    words = re.search(rf"^precisions: .*\b{row['precision']}: (\w+)", text_of(profile_of[row["id"]]), re.M)
    return words.group(1) if words else row["precision"]


def each_unseen(given, usable, profile_of):
    """Each framework as one of which nothing is known, with general constants from the other stacks."""
    print(f"\n{'framework left out':32} rows    as is     p90   fitted     p90")
    prior, columns, every = general(), ([], []), {}
    named = {r["id"]: r for r in usable}
    blind = [{**r, "framework": None, "precision": general_word(r, profile_of)} for r in usable]
    model = Model(given.oomctl, "unknown", blind)
    keys = FITTED["unknown"]
    present = {k: constant(model.text, k) or prior[k] for k in keys}
    for framework in sorted({r["framework"] for r in usable}):
        own = {r["id"] for r in usable if r["framework"] == framework}
        stacks = {profile_of[i] for i in own}
        seen = [r for r in blind if profile_of[r["id"]] not in stacks]
        left = [r for r in blind if r["id"] in own]
        constants = fit(model, seen, keys, prior, given.pull * FIRM)
        cells = [[(named[r["id"]], a) for r, a in model.told(left, c)] for c in (present, constants)]
        for column, cell in zip(columns, cells):
            column += cell
        every[framework] = distances(cells[1])
        line(framework, *map(relative, cells))
    line("all", *map(relative, columns))
    medians = [statistics.median(relative([t for t in columns[1] if t[0]["framework"] == f])) for f in every]
    print(f"median of the frameworks' medians {statistics.median(medians):.1%}")
    widths(given, {"unknown": (model, {}, sum(every.values(), []), [])}, prior)
    print("\nframework left out               rows  inside, of this width and of the width that the others ask for")
    for framework, far in every.items():
        others = score.quantile(sum((d for f, d in every.items() if f != framework), []), COVERAGE)
        print(f"{framework[:32]:32} {len(far):4d}  {score.coverage([d <= 1 for d in far])}  "
              f"x {others:.2f} {score.coverage([d <= others for d in far])}")
    print("\nthe same rows by subgroup")
    score.subgroups([score.judged(*t) for t in columns[1]])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table")
    arguments.add_argument("profiles", nargs="*")
    arguments.add_argument("--oomctl", default="target/debug/oomctl")
    arguments.add_argument("--pull", type=float, default=0.1)
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    with open(given.table, encoding="utf-8") as lines:
        rows = [json.loads(text) for text in lines if text.strip()]
    usable = [r for r in rows if r["confidence"] != "low" and r["metric"] != "budget"]
    told = subprocess.run([given.oomctl, "estimate", "--jsonl", "-"], capture_output=True, text=True, check=False,
                          input="".join(json.dumps(r) + "\n" for r in usable))
    profile_of = {r["id"]: r["profile"] for r in map(json.loads, told.stdout.splitlines())}
    if given.profiles != ["unknown"]:
        each_profile(given, usable, profile_of)
    if not given.profiles or "unknown" in given.profiles:
        each_unseen(given, [r for r in usable if r["measured_peak_gib"]], profile_of)


if __name__ == "__main__":
    main()
