"""The PyTorch that a program here would import, found without importing it."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path


def folder() -> Path | None:
    """Where it is; None if there is none."""
    spec = PathFinder.find_spec("torch")
    origin = None if spec is None else spec.origin
    return None if origin is None or Path(origin).name != "__init__.py" else Path(origin).parent


def version() -> str:
    """Which it is; "" if nothing says so."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch")
    except PackageNotFoundError:
        return ""
