"""Everything `gradscope inspect` looks for: one function for each rule, by topic."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from gradscope.analysis.rules.registry import Rule, registered


def all_rules() -> tuple[Rule, ...]:
    """Every rule that a file of this package declares, by id."""
    _import_all()
    return registered()


@cache
def _import_all() -> None:
    for _, name, _ in walk_packages(__path__, f"{__name__}."):
        import_module(name)
