"""The table of release days (presets/signatures/release_days.yaml) anew, from the index of packages that is named.

    python3 tests/presets/days.py ADDRESS > days.yaml && mv days.yaml presets/signatures/release_days.yaml

ADDRESS/NAME/json answers as PyPI's JSON API does. The packages are those that the table has.
"""

import datetime
import json
import pathlib
import re
import sys
import urllib.request

TABLE = pathlib.Path(__file__).parents[2] / "presets/signatures/release_days.yaml"
FIRST_DAY = "2022-01-01"
# A patch that follows its release within so many days stands for it.
PATCHED = 30
WIDTH = 150


def releases(address, package):
    """Day and version of each release, without those that were tried first, the oldest first."""
    with urllib.request.urlopen(f"{address.rstrip('/')}/{package}/json", timeout=60) as answer:
        files = json.load(answer)["releases"]
    for name, uploads in files.items():
        version = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.post\d+)?", name)
        if version and uploads:
            day = min(upload["upload_time"][:10] for upload in uploads)
            if day >= FIRST_DAY:
                yield day, tuple(int(part or 0) for part in version.groups())


def newest(found):
    """Of releases in the order of their days those that are newer than all before."""
    kept = []
    for day, version in sorted(found):
        last_day, last = kept[-1] if kept else ("", (-1,))
        if version <= last:
            continue
        same = version[:2] == last[:2]
        if last_day and (day == last_day or same and days_between(last_day, day) < PATCHED):
            kept[-1] = (last_day, version)
        else:
            kept.append((day, version))
    return kept


def days_between(first, last):
    return (datetime.date.fromisoformat(last) - datetime.date.fromisoformat(first)).days


def lines(rows):
    line = "  {"
    for day, version in rows:
        item = f" '{day}': {'.'.join(map(str, version))},"
        if len(line) + len(item) > WIDTH:
            yield line
            line = "   "
        line += item
    yield line.rstrip(",") + " }"


def main():
    old = TABLE.read_text().splitlines()
    print(*(line for line in old if line.startswith("#")), sep="\n")
    for package in (line[:-1] for line in old if re.fullmatch(r"\S+:", line)):
        print(f"{package}:", *lines(newest(releases(sys.argv[1], package))), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
