"""Ordinary programs, by room: each is called with `torch`, and runs a backward or more."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import isfunction
from typing import Any

ROOMS = ("autograd", "formulas", "layers", "writes_and_steps")


def programs_of(room: str) -> list[Callable[[Any], None]]:
    """The programs of a room."""
    module = import_module(f"{__name__}.{room}")
    return [
        each for name, each in vars(module).items() if isfunction(each) and not name.startswith("_")
    ]
