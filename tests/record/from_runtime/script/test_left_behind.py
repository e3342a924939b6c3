"""A script that registers operators and formulas, and leaves blocks open, runs twice alike."""

from __future__ import annotations

import pytest

from tests.record.running import House

SCRIPT = """
import torch
from torch import distributions
from torch.library import Library, custom_op

class Own(distributions.Distribution):
    pass

def found():
    p = Own(torch.Size([2]), validate_args=False)
    try:
        known = distributions.kl_divergence(p, p)
    except NotImplementedError:
        known = None
    x = torch.ones(2, requires_grad=True)
    return [
        known, torch.cos(x).tolist(), (x @ x).dtype, torch.is_autocast_enabled("cpu"),
        torch.get_num_threads(), torch.backends.cudnn.benchmark, torch.is_inference_mode_enabled(),
        torch.backends.mha.get_fastpath_enabled(), torch.backends.cuda.matmul.allow_tf32,
        distributions.Distribution._validate_args, torch.autograd.forward_ad._current_level,
        hasattr(torch.ops.mine, "twice"), hasattr(torch.ops.theirs, "thrice"),
    ]

print(*found())
library = Library("mine", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
torch.library.define("loose::once", "(Tensor x) -> Tensor")

@custom_op("theirs::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3

thrice.register_autograd(lambda ctx, grad: grad * 3)
built_in = Library("aten", "IMPL")
built_in.impl("sin", lambda keys, x: x * 0, "AutogradCPU", with_keyset=True)
below = Library("aten", "IMPL")
below.impl("cos", lambda x: x * 0, "CPU")

@distributions.register_kl(Own, Own)
def of_own(p, q):
    return 7

x = torch.ones(2, requires_grad=True)
(torch.ops.mine.twice(x) + torch.ops.theirs.thrice(x)).sum().backward()
print(x.grad.tolist())
torch.set_num_threads(torch.get_num_threads() + 1)
torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.mha.set_fastpath_enabled(False)
distributions.Distribution.set_default_validate_args(False)
dual = torch.autograd.forward_ad.dual_level()
open_blocks = [torch.autocast("cpu"), torch.inference_mode(), dual]
for block in open_blocks:
    block.__enter__()
print(*found())
"""

TWICE = """
import sys
from pathlib import Path
from gradscope.record.run_script import TraceOptions, run_script
HOST
for number in range(2):
    code = run_script(TraceOptions("script.py", on="gradscope", output=Path(f"{number}.json"))).code
    print(code, torch.ops.mine.host(torch.ones(2)).tolist() if "torch" in globals() else "")
"""

HOST = """
import gradscope.runtime as torch, gradscope.runtime.library
library = torch.library.Library("mine", "DEF")
library.define("host(Tensor x) -> Tensor")
library.impl("host", lambda x: x + 5, "CompositeExplicitAutograd")
torch.library.Library("aten", "IMPL")
"""


@pytest.mark.parametrize("host", ["", HOST], ids=["alone", "in a process with operators"])
def test_what_a_script_registers_and_leaves_open_is_gone(house: House, host: str) -> None:
    house.write(SCRIPT, "script.py")
    house.write(TWICE.replace("HOST", host), "twice.py")

    ran = house.python("twice.py")

    assert (ran.code, ran.err) == (0, "")
    shown = ran.out.splitlines()
    assert len(shown) == 8
    first, grad, changed, end = shown[:4]
    assert first.startswith("None [0.54")
    assert first.endswith("-1 False False")
    assert grad == "[5.0, 5.0]"
    assert changed.startswith("7 [0.0, 0.0] torch.bfloat16 True")
    assert end == ("0 [6.0, 6.0]" if host else "0 ")
    assert shown[4:] == shown[:4]
