"""Other packages that a fleet needs: those of the extras `fleet`, `dask` and `ray`."""

from __future__ import annotations

import re
from importlib import import_module

from gradscope.errors import MissingProgramError, how_to_install

OLDEST = {"duckdb": "1.4", "pyarrow": "18", "distributed": "2025.1", "ray": "2.40"}
"""The oldest version of each, as in pyproject.toml."""


def needs(packages: tuple[str, ...], extra: str = "fleet", what: str = "a fleet") -> None:
    """Raise MissingProgramError if one of the packages is not installed, or is too old."""
    lacks = [each for package in packages if (each := _lack(package))]
    if not lacks:
        return
    ours = how_to_install(f"gradscope-trace[{extra}]")
    theirs = how_to_install(" ".join(f"'{each}>={OLDEST[each]}'" for each in packages))
    raise MissingProgramError(f"{what} needs {' and '.join(lacks)}: {ours}, or {theirs}")


def _lack(package: str) -> str:
    """What is lacking of a package, in words; "" if nothing is."""
    try:
        version = str(import_module(package).__version__)
    except ImportError:
        return package
    oldest = OLDEST[package]
    return f"{package} {oldest} or newer (not {version})" if _is_older(version, oldest) else ""


def _is_older(version: str, oldest: str) -> bool:
    found, least = ([int(each) for each in re.findall(r"\d+", text)] for text in (version, oldest))
    return found[: len(least)] < least
