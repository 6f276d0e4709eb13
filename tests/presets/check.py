"""Looks for the keys of presets in the sources of their frameworks: `check.py FOLDER [PRESET …]`.

FOLDER keeps what was downloaded. Exits with 1 where a key is found in no version, or where a version has none of the
ways in which a knob is spelled and the preset does not say so.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Sets with words of programs of one's own, which no framework need have.
OWN_WORDS = {"own-program"}
# Text in which a key can stand.
SUFFIXES = {".py", ".yaml", ".yml", ".json", ".md", ".sh", ".toml"}


def unpacked(package: str, folder: pathlib.Path) -> pathlib.Path:
    """The source of `name==version`, downloaded without dependencies."""
    at = folder / package.replace("==", "-")
    if at.exists():
        return at
    wheels = folder / "wheels" / package
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--ignore-requires-python", "--dest", str(wheels), package],
        check=True,
    )
    (file,) = wheels.iterdir()
    new = at.with_name(at.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    if file.suffix == ".whl":
        zipfile.ZipFile(file).extractall(new)
    else:
        tarfile.open(file).extractall(new, filter="data")
    new.rename(at)
    return at


def cloned(repository: str, tag: str, folder: pathlib.Path) -> pathlib.Path:
    """The source of a tag."""
    at = folder / (repository.rsplit("/", 1)[1] + "-" + tag)
    if not at.exists():
        new = at.with_name(at.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        git = ["git", "-c", "advice.detachedHead=false"]
        subprocess.run(
            [*git, "clone", "--quiet", "--no-checkout", "--depth", "1", "--branch", tag, repository, str(new)],
            check=True,
        )
        # Text alone is wanted, and not the data beside it.
        git += ["-C", str(new)]
        listed = subprocess.run([*git, "ls-tree", "-r", "--name-only", tag], check=True, capture_output=True, text=True)
        wanted = [line for line in listed.stdout.splitlines() if pathlib.Path(line).suffix in SUFFIXES]
        names = "\n".join(wanted)
        subprocess.run([*git, "checkout", "--quiet", tag, "--pathspec-from-file=-"], check=True, input=names, text=True)
        new.rename(at)
    return at


def words(source: pathlib.Path) -> set[str]:
    """All words of a source, with dashes and dots as they stand, and in pieces."""
    found: set[str] = set()
    for path in source.rglob("*"):
        if path.suffix in SUFFIXES and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))
            found.update(re.findall(r"--[A-Za-z][A-Za-z0-9_.-]*", text))
    return found


def has(known: set[str], key: str, nested: bool) -> bool:
    """Whether a flag, or every part of a path, occurs. Nested flags are paths of fields, those that begin with `no-` switched off."""
    if key.startswith("-") and nested:
        name = key.lstrip("-").removeprefix("no-")
        return all(part in known for part in name.replace("-", "_").split("."))
    if key.startswith("-"):
        name = key.lstrip("-")
        plain = name.replace("-", "_")
        spelled = {"--" + name, "--" + plain, "--" + plain.replace("_", "-")}
        return bool(spelled & known) or ("." not in name and plain in known)
    return all(part in known for part in key.split("."))


def spelled(text: str) -> tuple[str, str]:
    """Kind and key of a spelling in `spellings`."""
    kind, _, rest = text.partition(":")
    if kind in ("env", "key", "switch"):
        return kind, rest
    return ("flag" if text.startswith("-") else "hydra"), text


def keys_of(preset: dict, knob: dict, version: Version) -> list[str] | None:
    """The keys of a knob; None where the preset says that the version lacks it."""
    found = []
    own = knob.get("spelling")
    for entry in knob.get("by_version", []):
        if version in SpecifierSet(entry["versions"]):
            if entry.get("absent"):
                return None
            own = entry.get("spelling", own)
            break
    if own:
        ((kind, key),) = own.items()
        found.append((kind, key))
    for style in preset.get("spellings", []):
        if knob["name"] in style:
            found.append(spelled(style[knob["name"]]))
    return [key.rstrip("=") for kind, key in found if kind != "env"]


def check(name: str, source: dict, everywhere: set[str], folder: pathlib.Path) -> list[str]:
    preset = yaml.safe_load((ROOT / "presets" / f"{name}.yaml").read_text(encoding="utf-8"))
    # A set whose knobs are spelled is the framework's own; what the preset says of the same name wins.
    own = {knob["name"] for knob in preset["knobs"]}
    for name_of_set in [name for name in preset.get("uses", []) if name not in OWN_WORDS]:
        shared = yaml.safe_load((ROOT / "presets/sets" / f"{name_of_set}.yaml").read_text(encoding="utf-8"))
        preset["knobs"] += [knob for knob in shared.get("knobs", []) if knob["name"] not in own]
        preset["spellings"] = preset.get("spellings", []) + shared.get("spellings", [])
    passed = everywhere | set(source.get("others", [])) | set(source.get("between", []))
    nested = source.get("nested", False)
    also: set[str] = set()
    for package in source.get("with", []):
        also |= words(unpacked(package, folder))
    faults, anywhere, checked = [], {}, 0
    for version in map(str, source["versions"]):
        if "pip" in source:
            known = words(unpacked(f"{source['pip']}=={version}", folder))
        else:
            known = words(cloned(source["git"], version, folder))
        known |= also
        for knob in preset["knobs"]:
            keys = keys_of(preset, knob, Version(re.sub(r"^\D+", "", version)))
            keys = [key for key in keys or [] if key not in passed]
            for key in keys:
                anywhere[key] = anywhere.get(key, False) or has(known, key, nested)
            checked += len(keys)
            if keys and not any(has(known, key, nested) for key in keys) and len(keys) == len(keys_of(preset, knob, Version(re.sub(r"^\D+", "", version))) or []):
                faults.append(f"{name}: {source.get('pip', name)} {version} has none of {', '.join(keys)} ({knob['name']})")
    faults += [f"{name}: {key} occurs in no version" for key, seen in anywhere.items() if not seen]
    versions = ", ".join(map(str, source["versions"]))
    spelled_knobs = sum(1 for knob in preset["knobs"] if "spelling" in knob)
    print(f"{name}: {spelled_knobs} knobs, {checked} keys looked for in {versions}, {len(faults)} not found")
    return faults


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    table = yaml.safe_load((ROOT / "tests/presets/sources.yaml").read_text(encoding="utf-8"))
    names = sys.argv[2:] or list(table["presets"])
    faults = []
    for name in names:
        faults += check(name, table["presets"][name], set(table["everywhere"]), folder)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
