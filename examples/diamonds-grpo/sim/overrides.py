"""Hydra's command line for verl's `ppo_trainer` configuration, without Hydra.

`key=value` changes a key that exists, `+key=value` adds one that does not, `++key=value` does either,
`~key` deletes. Which keys exist, and their defaults, depends on the verl version: see keys.txt.
Grammar: https://hydra.cc/docs/advanced/override_grammar/basic/ (the part that run scripts use).
"""

import json
import re
from pathlib import Path

KEYS_FILE = Path(__file__).with_name("keys.txt")
LINK = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)(?:,\s*([^}]*))?\}")
MAX_LINK_DEPTH = 8


class OverrideError(Exception):
    """Hydra would refuse this command line; the text is Hydra's."""


def version_tuple(text):
    """'0.9.1' -> (0, 9, 1). Raises ValueError on anything else."""
    parts = tuple(int(part) for part in text.split(".")[:3])
    return parts + (0,) * (3 - len(parts))


def load_keys(version):
    """The defaults of one verl version (key -> value) and the branches that are open in it."""
    wanted = version_tuple(version)
    defaults, branches = {}, []
    for line in KEYS_FILE.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        key, *changes = line.split("\t")
        value = _value_at(changes, wanted)
        if value == "-":
            continue
        if key.endswith(".*"):
            branches.append(key[:-1])
        else:
            defaults[key] = json.loads(value)
    return defaults, branches


def _value_at(changes, wanted):
    value = "-"
    for change in changes:
        since, text = change.split(" ", 1)
        if version_tuple(since) <= wanted:
            value = text
    return value


class Config:
    """A composed configuration: `get` follows `${...}` links as OmegaConf does."""

    def __init__(self, values):
        self.values = values

    def get(self, key, default=None):
        """The value of `key`, links followed; `default` where the version has no such key."""
        value = self.values.get(key, default)
        for _ in range(MAX_LINK_DEPTH):
            link = LINK.fullmatch(value) if isinstance(value, str) else None
            if not link:
                return self._fill(value)
            fallback = parse_value(link.group(2)) if link.group(2) else default
            value = self.values.get(link.group(1), fallback)
        return value

    def _fill(self, value):
        if not isinstance(value, str):
            return value
        return LINK.sub(lambda link: str(self.get(link.group(1), "")), value)


def compose(arguments, version):
    """The configuration of `version` with the overrides applied. Raises OverrideError."""
    values, branches = load_keys(version)
    for argument in arguments:
        _apply(argument, values, branches)
    return Config(values)


def _apply(argument, values, branches):
    match = re.fullmatch(r"(\+\+|\+|~)?([A-Za-z_][\w.\-/@]*)(?:=(.*))?", argument, re.DOTALL)
    if not match or (match.group(3) is None and match.group(1) != "~"):
        raise OverrideError(f"Error parsing override '{argument}'\nmissing EQUAL at '<EOF>'")
    sign, key, text = match.groups()
    exists = key in values or any(key.startswith(branch) for branch in branches)
    inside = any(known.startswith(key + ".") for known in values)
    if sign == "~":
        if values.pop(key, None) is None:
            raise OverrideError(f"Could not delete from config. '{key}' does not exist.")
        return
    value = parse_value(text, argument)
    if sign is None and not exists and not inside:
        raise OverrideError(_not_in_struct(key, text))
    if sign == "+" and key in values:
        raise OverrideError(
            f"Could not append to config. An item is already at '{key}'.\n"
            f"Either remove + prefix: '{key}={text}'\n"
            f"Or add a second + to add or override '{key}': '++{key}={text}'"
        )
    values[key] = value


def _not_in_struct(key, text):
    return (
        f"Could not override '{key}'.\n"
        f"To append to your config use +{key}={text}\n"
        f"Key '{key.rpartition('.')[2]}' is not in struct\n"
        f"    full_key: {key}\n"
        f"    object_type=dict"
    )


def parse_value(text, argument=""):
    """One value of the override grammar: null, bool, int, float, quoted, [list], {dict}, or bare text."""
    text = text.strip()
    lowered = text.lower()
    if lowered in ("null", ""):
        return None if lowered else ""
    if lowered in ("true", "false"):
        return lowered == "true"
    if text[0] in "[{" or text[-1] in "]}":
        return _parse_container(text, argument)
    if text[0] in "'\"":
        if len(text) < 2 or text[-1] != text[0]:
            raise OverrideError(f"Error parsing override '{argument}'\ntoken recognition error at: '{text}'")
        return text[1:-1].replace("\\" + text[0], text[0])
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _parse_container(text, argument):
    pairs = {"[": "]", "{": "}"}
    if text.startswith("${"):
        return text
    if text[-1] != pairs.get(text[0]):
        raise OverrideError(f"Error parsing override '{argument}'\nno viable alternative at input '{text}'")
    items = _split_top_level(text[1:-1])
    if text[0] == "[":
        return [parse_value(item, argument) for item in items]
    fields = (item.partition(":") for item in items)
    return {name.strip(): parse_value(value, argument) for name, _, value in fields}


def _split_top_level(text):
    items, depth, quote, item = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        if char == "," and depth == 0 and not quote:
            items.append(item)
            item = ""
        else:
            item += char
    return [*items, item] if item.strip() else items
