"""When Python's garbage collector rests."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from gradscope.runtime.core.state.collecting import without_collecting


def test_the_collector_rests_inside_the_block() -> None:
    with without_collecting():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_collects_again_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), without_collecting():
        raise ZeroDivisionError

    assert gc.isenabled()


def test_it_stays_off_where_the_program_has_switched_it_off() -> None:
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_reading_the_tables_collects_no_garbage() -> None:
    """There is none: a collection only walks over all operations, which stay."""
    code = (
        "import gc, ml_dtypes, numpy\n"  # their own imports may collect
        "before = gc.get_stats()[2]['collections']\n"
        "import gradscope.runtime\n"
        "print(gc.get_stats()[2]['collections'] - before, gc.isenabled())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "0 True\n"
