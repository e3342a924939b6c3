"""Finds the objects of a class in this process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

# Note [A list of all objects]
# While another thread fills a tuple (`tuple(… for …)`), there must be no other reference to it: a
# list of all objects (`gc.get_objects`) would hold one, and that thread would raise a SystemError.
# Objects that refer to a class are its instances, and hardly anything else.


def instances(base: type) -> list[Any]:
    """All of a class and of those derived from it that Python's collector knows, in its order."""
    classes = tuple(_derived(base))
    return [each for each in gc.get_referrers(*classes) if issubclass(type(each), classes)]


def _derived(base: type) -> Iterator[type]:
    yield base
    below: list[type] = type.__subclasses__(base)
    for each in below:
        yield from _derived(each)
