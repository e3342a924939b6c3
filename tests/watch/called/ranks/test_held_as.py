"""What is known of the tensors that a program passes to collectives."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType

import pytest

from gradscope.trace.schema import Collective
from tests.record.running import House

pytestmark = pytest.mark.torch

SCRIPT = """
import os, sys
import gradscope, torch
import torch.distributed as dist
recording = gradscope.record("trace.json", on="torch", level="engine")
recording.__enter__()
store = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
memory = torch.ones(8)
weight = torch.nn.Parameter(memory[:4])
(weight * 2).sum().backward()
dist.all_reduce(weight.grad)
dist.all_reduce(weight.data)
dist.all_reduce(memory)  # begins where the parameter does
kept = weight.grad
weight.grad = None
dist.all_reduce(kept)  # was the gradient
(weight * 2).sum().backward()
dist.all_reduce(weight.grad)
recording.__exit__(None, None, None)
os._exit(0)
"""


def own(code: CodeType) -> bool:
    """No code is machinery."""
    return False


def test_a_collective_holds_gradients_or_parameters_only_as_long_as_they_are_there(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.write(SCRIPT)
    ran = house.run(sys.executable, "script.py")
    assert ran.code == 0, ran.err

    rows = sorted(house.recorded("trace.json").rows(Collective), key=lambda row: row.span)
    assert [row.holds for row in rows] == ["gradients", "parameters", "", "", "gradients"]
    assert [len(row.parameters) for row in rows] == [1, 1, 0, 0, 1]


def test_the_variable_of_the_innermost_loop_is_kept_if_it_tells_rounds_apart() -> None:
    import torch

    from gradscope.record.from_pytorch.memory.held_as import held_as

    said: list[str] = []
    for number in (8, 0):
        for tensor in (torch.ones(1),):
            said += [held_as(tensor, sys._getframe(), own)]
    for number in (999, 1_000, -1, True):
        said += [held_as(torch.ones(1), sys._getframe(), own)]
    for name in ("depth", "x" * 100):
        said += [held_as(torch.ones(1), sys._getframe(), own)]
    said += [held_as(torch.ones(1), sys._getframe(), own)]

    few = ["number = 8", "number = 0", "number = 999", "", "", ""]
    assert said == [*few, "name = 'depth'", "", ""]


def test_the_key_of_a_dict_comes_before_the_variable_of_a_loop() -> None:
    import torch

    from gradscope.record.from_pytorch.memory.held_as import held_as

    totals, said = {"one": torch.ones(1), "two": torch.ones(1)}, list[str]()
    for number in (1, 2):
        said += [held_as(totals["one"] if number == 1 else torch.ones(1), sys._getframe(), own)]

    assert said == ["totals['one']", "number = 2"]
