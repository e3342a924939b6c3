"""Wrappers that check the arguments of a call after it failed.

Generated functions check automatically. Other functions that users call get a wrapper: a correct
call takes one more frame, less than a tenth of a microsecond.
"""

from __future__ import annotations

from typing import TypeVar, cast

from gradscope.runtime.core.errors.arguments.raise_wrong_call import OR_BLAME
from gradscope.runtime.core.errors.arguments.wrappers import around
from gradscope.runtime.core.rows.parameters import parameters

Made = TypeVar("Made")

LINES = f"    try:\n        return {{call}}\n{OR_BLAME}"


def judged(inner: Made) -> Made:
    """A wrapper around a function, with the same parameters."""
    made = around(inner, LINES, parameters(inner), "asking about its arguments")
    made.__dict__.update(inner.__dict__)
    return cast("Made", made)
