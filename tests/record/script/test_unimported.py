"""A script finds NumPy as it does alone, though gradscope has imported it before."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gradscope.record.script.unimported import unimported
from tests.record.running import House

ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)
LOOKS = """
import importlib.util, sys, warnings
print([name for name in sys.modules if name.startswith("numpy")])
print(importlib.util.find_spec("numpy").origin.endswith("__init__.py"))
warnings.simplefilter("error")
import numpy.linalg
import numpy as np
print(np.polyfit([1.0, 1.0], [1.0, 1.0], 1), np is sys.modules["numpy"], np.__spec__.loader.name)
print([each[0] for each in warnings.filters][:5])
"""


@ENGINES
def test_it_is_not_imported_yet_and_its_filters_come_when_it_is(house: House, engine: str) -> None:
    house.write(LOOKS)

    alone = house.python("script.py")
    watched = house.trace("--on", engine, "script.py")

    assert alone.out.startswith("[]\nTrue\n[0.5 0.5] True numpy\n")
    assert "RankWarning" in alone.err
    assert watched == alone


@ENGINES
def test_a_script_that_never_imports_it_is_recorded_all_the_same(house: House, engine: str) -> None:
    house.write("print('no arrays')\n")

    assert house.trace("--on", engine, "script.py").out == "no arrays\n"
    assert house.recorded().meta["exit"] == "ok"


class Importing(str):
    """The name of a module; while it is looked at, another thread imports something."""

    __slots__ = ()

    def startswith(self, *prefix: Any) -> bool:
        sys.modules["imported_meanwhile"] = sys
        return super().startswith(*prefix)


def test_modules_that_another_thread_imports_meanwhile_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    sys.modules[Importing("first")] = sys

    with unimported():
        assert "numpy" not in sys.modules
    assert {"numpy", "imported_meanwhile"} <= sys.modules.keys()
