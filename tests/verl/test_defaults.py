"""What the presets of verl take for a knob that a command leaves out, and for the age of a file, is what each release has.

Run by `tests/stories/verl_legality.rs`, or by hand: `python test_defaults.py` in the environment of `setup`.
"""

import re
import unittest
from pathlib import Path

import yaml
from composed import FOLDER, defaults, package
from legal import at
from omegaconf import OmegaConf
from packaging.specifiers import SpecifierSet
from packaging.version import Version

PRESETS = Path(__file__).resolve().parents[2] / "presets"
VERSIONS = sorted((p.name for p in FOLDER.iterdir() if (p / "ready").exists() and p.name[0].isdigit()), key=at)
# Placeholders of verl's own; what the preset is recognised by; an engine, which verl does not choose from 0.6 on.
GIVEN = {"model.path", "train_files", "val_files", "adv_estimator", "rollout.name"}
# Not stated where nothing rests on it.
UNSET = (None, False, 0)


def knobs(preset):
    """The knobs of a preset and of its sets; what the preset says itself wins."""
    own = yaml.safe_load((PRESETS / f"{preset}.yaml").read_text(encoding="utf-8"))
    found = {}
    for name in own["uses"]:
        shared = yaml.safe_load((PRESETS / "sets" / f"{name}.yaml").read_text(encoding="utf-8"))
        found.update((knob["name"], knob) for knob in shared["knobs"])
    found.update((knob["name"], knob) for knob in own["knobs"])
    return found.values()


def entry(entries, version):
    """The first entry whose range of versions holds."""
    return next((e for e in entries if Version(version) in SpecifierSet(e.get("versions", ""))), {})


def left_out(knob, version):
    """Key and value of a knob that a command does not name; None where there is nothing to compare."""
    differs, framework = entry(knob.get("by_version", []), version), entry(knob.get("framework_default", []), version)
    own = differs if "default" in differs else knob
    said = framework if framework or knob.get("framework_default") == [{}] else own
    spelling = differs.get("spelling", knob.get("spelling", {}))
    if differs.get("absent") or "hydra" not in spelling or "default_expr" in said:
        return None
    return spelling["hydra"], said.get("default")


def has(version, row):
    """Whether a release has the file, or any in the folder, and the function in it."""
    path = package(version) / row["file"]
    files = sorted(path.rglob("*.py")) if row["file"].endswith("/") else [path]
    function = re.compile(rf"def {row.get('function', '')}\b" if "function" in row else "")
    return any(function.search(file.read_text(encoding="utf-8")) for file in files if file.is_file())


class Releases(unittest.TestCase):
    def test_a_frame_is_of_the_releases_that_its_row_says(self):
        rows = yaml.safe_load((PRESETS / "signatures" / "releases.yaml").read_text(encoding="utf-8"))["verl"]
        for row in rows:
            found = [version for version in VERSIONS if has(version, row)]
            oldest, newest = (Version(row.get(end, default)) for end, default in (("oldest", VERSIONS[0]), ("newest", VERSIONS[-1])))
            said = [version for version in VERSIONS if oldest <= Version(version) <= newest]
            self.assertEqual(found, said, row)


class Defaults(unittest.TestCase):
    def test_a_knob_that_a_command_leaves_out_has_verls_own_default(self):
        for preset, first in (("verl-grpo", "0.4.0"), ("verl-ppo", "0.6.0")):
            compared = 0
            for version in (v for v in VERSIONS if at(v) >= at(first)):
                for knob in knobs(preset):
                    found = left_out(knob, version)
                    if found is None or knob["name"] in GIVEN:
                        continue
                    key, ours = found
                    verls = OmegaConf.select(defaults(version), key)
                    compared += 1
                    with self.subTest(preset=preset, version=version, knob=knob["name"]):
                        self.assertTrue(ours == verls or (ours is None and verls in UNSET), f"{ours} here, {verls} in verl")
            self.assertGreater(compared, 200)


if __name__ == "__main__":
    unittest.main()
