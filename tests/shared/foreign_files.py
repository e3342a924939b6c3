"""A file of ours that is somebody else's now, or could be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def others_can_write(path: Path) -> None:
    path.chmod(0o620)


def another_owns(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 4242, -1)


def becomes_a_link(path: Path) -> None:
    """To a file outside of the folder, which is ours."""
    elsewhere = path.parent.parent / f"elsewhere-{path.name}"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
