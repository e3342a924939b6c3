"""Notices the package of PyPI that has the same import name and command as this one.

Its files and ours overwrite each other, so whichever was installed last may lack some of its own.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

NAME, OURS = "gradscope", "gradscope-trace"
FILE = "gradscope/alerts.py"
"""A file that only the other package installs."""


def warning(folders: list[str] | None = None) -> str:
    """How to solve the conflict with the other package; "" if it is not installed."""
    version = next(_versions(sys.path if folders is None else folders), None)
    if version is None:
        return ""
    return (
        f"another package named {NAME} ({version}, from PyPI) is installed here, and its files and "
        f"those of {OURS} overwrite each other; remove both (pip uninstall {NAME} {OURS}), then "
        f"install {OURS} again"
    )


def _versions(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for record in Path(folder or ".").glob(f"{NAME}-*.dist-info/RECORD"):
            try:
                is_other = FILE in record.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if is_other:
                yield record.parent.name.removeprefix(f"{NAME}-").removesuffix(".dist-info")
