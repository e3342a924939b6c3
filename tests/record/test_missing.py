"""What gradscope's runtime does not have is named, with the script's line and the nearest name."""

from __future__ import annotations

import pytest

from tests.record.running import House

MISSING = {
    "import torch.distributted": (
        "ModuleNotFoundError: No module named 'torch.distributted' (gradscope's runtime)"
        "; the nearest there is: distributed"
    ),
    "import torch.autogard": (
        "ModuleNotFoundError: No module named 'torch.autogard' (gradscope's runtime)"
        "; the nearest there is: autograd"
    ),
    "from torch import randnn": (
        "ImportError: cannot import name 'randnn' from 'torch' (gradscope's runtime)"
        "; the nearest there is: randn, rand, randint"
    ),
    "from torch.autograd import backwards": (
        "ImportError: cannot import name 'backwards' from 'torch.autograd' (gradscope's runtime)"
        "; the nearest there is: backward"
    ),
    "import torch; torch.randnn(2)": (
        "AttributeError: module 'torch' has no attribute 'randnn' (gradscope's runtime)"
        "; the nearest there is: randn, rand, randint. Did you mean: 'randn'?"
    ),
    "import torch; torch.ones(2).summ()": (
        "AttributeError: 'Tensor' object has no attribute 'summ'"
        "; the nearest there is: sum, mm, nansum. Did you mean: 'sum'?"
    ),
}


@pytest.mark.parametrize("line", MISSING)
def test_what_is_missing_is_named_with_its_line_and_the_nearest(house: House, line: str) -> None:
    house.write(f"print('first')\n{line}\n")

    ran = house.trace("script.py")

    shown = ran.err.splitlines()
    assert (ran.code, ran.out) == (1, "first\n")
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[1:3] == [f'  File "{house.folder}/script.py", line 2, in <module>', f"    {line}"]
    assert shown[-1] == MISSING[line]
    assert "gradscope/runtime" not in ran.err


def test_a_script_may_ask_and_do_without(house: House) -> None:
    house.write(
        "try:\n    from torch import compile_me\nexcept ImportError as e:\n    print('without')\n"
        "try:\n    import torch.distributted\nexcept ModuleNotFoundError as e:\n    print(e.name)\n"
        "import torch\nprint(hasattr(torch, 'compile_me'))\n"
    )

    assert house.trace("script.py").out == "without\ntorch.distributted\nFalse\n"


IMPORTS = """
import sys
import torch
import torch.autograd
import torch.autograd as autograd
import torch.optim.lr_scheduler
from torch import Tensor, autograd as again, nn
from torch.autograd import Function
from torch.optim.lr_scheduler import StepLR
import torch.nn.functional as F
import gradscope.runtime
print(torch is gradscope.runtime, sys.modules["torch"] is torch)
print(autograd is torch.autograd is again is sys.modules["torch.autograd"])
print(F is torch.nn.functional is nn.functional, torch.optim.lr_scheduler.StepLR is StepLR)
print(Tensor is torch.Tensor, Function is torch.autograd.Function)
print(torch.__spec__.name, torch.autograd.__spec__.name)
found = [m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "torch"]
print([file for file in found if "gradscope" not in file])
"""


def test_every_way_to_import_torch_gives_the_runtime(house: House) -> None:
    house.write(IMPORTS)

    ran = house.trace("script.py")

    assert ran.err == ""
    assert ran.out == (
        "True True\nTrue\nTrue True\nTrue True\ngradscope.runtime gradscope.runtime.autograd\n[]\n"
    )


def test_pytorch_of_this_process_comes_back_after_a_script(house: House) -> None:
    house.write("class Tensor: pass", "torch/__init__.py")
    house.write("", "torch/nn.py")
    house.write("import torch; print(torch.__name__)", "scripts/script.py")
    house.write(
        "import sys\nfrom pathlib import Path\nimport torch, torch.nn\n"
        "before = {n: m for n, m in sys.modules.items() if n.startswith('torch')}\n"
        "from gradscope.record.run_script import TraceOptions, run_script\n"
        "run_script(TraceOptions('scripts/script.py', output=Path('trace.json')))\n"
        "print(before == {n: m for n, m in sys.modules.items() if n.startswith('torch')})\n",
        "looks.py",
    )

    assert house.python("looks.py").out == "gradscope.runtime\nTrue\n"
