"""Which release this is. Cargo.toml has the version; nothing repeats it."""

import pathlib
import re


def version() -> str:
    """The version in Cargo.toml of a checkout, else that of the wheel; `unknown` without either."""
    package = pathlib.Path(__file__).resolve().parent
    manifest = package.parent.parent / "Cargo.toml"
    if package.parent.name == "python" and manifest.is_file():
        found = re.search(r'^version = "(.+)"$', manifest.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return found.group(1)
    from importlib import metadata

    try:
        return metadata.version("oomctl")
    except metadata.PackageNotFoundError:
        return "unknown"
