"""How long random searches go on: a fixed few examples in every run of the tests, many on demand.

    make search             # the searches alone, 20 times as long, from another seed each time
    make search TIMES=500 ARGS='tests/runtime/test_random_programs.py'

A property that Hypothesis draws for is a search without further ado (tests/conftest.py), and takes
FEW examples or says how many: `@searching(300)`. A test that draws otherwise multiplies by TIMES
and is marked `search`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import hypothesis

TIMES = int(os.environ.get("GRADSCOPE_SEARCH", "1"))
SEARCHING = TIMES > 1
FEW = 25
"""How many examples a property takes that does not say."""


def searching(few: int, **options: Any) -> Callable[[Any], Any]:
    """Settings of a property: this many examples, in a search as many times more."""
    return hypothesis.settings(max_examples=few * TIMES, **options)


def set_up() -> None:
    """The same examples in every run of the tests; no deadlines, as a machine pauses at will."""
    hypothesis.settings.register_profile(
        "tests", deadline=None, max_examples=FEW, derandomize=True, database=None
    )
    hypothesis.settings.register_profile(
        "search", deadline=None, max_examples=FEW * TIMES, print_blob=True
    )
    hypothesis.settings.load_profile("search" if SEARCHING else "tests")
    if not SEARCHING:
        draw_no_constants_of_ours()


def draw_no_constants_of_ours() -> None:
    """Hypothesis draws numbers and words, too, that it finds in the sources of whatever is loaded:
    each worker reads 700 files for that, and the examples are others when fewer tests are run.
    """
    with suppress(ImportError):  # as long as it did not
        from hypothesis.internal.conjecture import providers

        providers._get_local_constants = lambda: providers._local_constants
