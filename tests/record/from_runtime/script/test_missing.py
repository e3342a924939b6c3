"""What gradscope's runtime does not have is named, with the script's line and the nearest name."""

from __future__ import annotations

import linecache
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from gradscope.record.run_script import TraceOptions, run_script
from gradscope.runtime.core.errors.packages import PACKAGES
from tests.record.running import House
from tests.runtime.core.ops.op_db.families import ask

MISSING = {
    "import torch.distributted": (
        "ModuleNotFoundError: No module named 'torch.distributted' (gradscope's runtime)"
        "; the nearest there is: distributed, distributions"
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
        "; the nearest there is: randn, rand, randint"
    ),
    "import torch; torch.ones(2).summ()": (
        "AttributeError: 'Tensor' object has no attribute 'summ'. Did you mean: 'sum'?"
    ),
    "import torch.road": (
        "ModuleNotFoundError: No module named 'torch.road' (gradscope's runtime)"
        "; the nearest there is: random"
    ),
    "import torch; torch.nn.functional.relux": (
        "AttributeError: module 'torch.nn.functional' has no attribute 'relux' (gradscope's "
        "runtime); the nearest there is: relu, rrelu, relu_. Did you mean: 'relu'?"
    ),
    "from torch.utils.data import DataLoadr": (
        "ImportError: cannot import name 'DataLoadr' from 'torch.utils.data' (gradscope's runtime)"
        "; the nearest there is: DataLoader, dataloader"
    ),
    "import torch.fx": (
        "ModuleNotFoundError: No module named 'torch.fx' (gradscope's runtime)"
        "; torch.fx is a part of PyTorch that gradscope's runtime does not have"
        " (programs as graphs that can be changed)"
    ),
    "import torch; torch.fx": (
        "AttributeError: module 'torch' has no attribute 'fx' (gradscope's runtime)"
        "; torch.fx is a part of PyTorch that gradscope's runtime does not have"
        " (programs as graphs that can be changed)"
    ),
    "from torch import export": (
        "ImportError: cannot import name 'export' from 'torch' (gradscope's runtime)"
        "; torch.export is a part of PyTorch that gradscope's runtime does not have"
        " (programs captured ahead of time)"
    ),
    "import torch.nn.quantized": (
        "ModuleNotFoundError: No module named 'torch.nn.quantized' (gradscope's runtime)"
        "; torch.nn.quantized is a part of PyTorch that gradscope's runtime does not have"
        " (quantization)"
    ),
    "import safetensors.torchh": (
        "ModuleNotFoundError: No module named 'safetensors.torchh' (gradscope's runtime)"
        "; the nearest there is: torch"
    ),
}


def test_what_is_missing_is_named_with_its_line_and_the_nearest(
    house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(house.folder)

    def is_named(line: str) -> None:
        script = house.write(f"print('first')\n{line}\n")
        linecache.checkcache(str(script))
        code = run_script(TraceOptions("script.py", on="gradscope", output=Path("trace.json"))).code
        out, err = capsys.readouterr()
        shown = err.splitlines()
        assert (code, out) == (1, "first\n")
        assert shown[0] == "Traceback (most recent call last):"
        assert shown[1:3] == [f'  File "{script}", line 2, in <module>', f"    {line}"]
        asks = re.compile(r"\. Did you mean: '\w+'\?$")  # newer Pythons do, and of more
        assert asks.sub("", shown[-1]) == asks.sub("", MISSING[line])
        assert "gradscope/runtime" not in err

    ask(is_named, ((line, line) for line in MISSING))


@pytest.mark.torch
def test_what_is_called_a_part_of_pytorch_is_one_and_is_not_here() -> None:
    there = {name for name in PACKAGES if not name.startswith("distributed.")}
    for name in PACKAGES:
        assert find_spec(f"torch.{name}") is not None, name
        assert name not in there or find_spec(f"gradscope.runtime.{name}") is None, name


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
        "run_script(TraceOptions('scripts/script.py', on='gradscope', output=Path('trace.json')))\n"
        "print(before == {n: m for n, m in sys.modules.items() if n.startswith('torch')})\n",
        "looks.py",
    )

    assert house.python("looks.py").out == "gradscope.runtime\nTrue\n"


SCRIPT = """
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data as data
import torch.multiprocessing as mp
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.hub, torch.cuda, torch.profiler, torch.linalg, torch.version
from torch import Tensor, nn, optim
from torch.autograd import Function, Variable, grad
from torch.autograd.functional import hessian, jacobian
from torch.autograd.profiler import record_function
from torch.nn import Linear, Module, Parameter
from torch.nn.modules.loss import _Loss
from torch.nn.parallel import DataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import Adam, lr_scheduler
from torch.optim.lr_scheduler import StepLR
from torch.optim.optimizer import Optimizer
from torch.serialization import add_safe_globals
from torch.testing import assert_close
from torch.types import Number
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, random_split
from torch.utils.data.sampler import SubsetRandomSampler
from safetensors import safe_open
from safetensors.torch import load_file, save_file
import neighbour
from package.inside import VALUE
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--no-cuda", action="store_true")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(parser.parse_args(), device, neighbour.VALUE, VALUE, open("data.txt").read())
    save_file(nn.Linear(1, 1).state_dict(), "w.safetensors")
    print(list(load_file("w.safetensors")))
    raise SystemExit(3)
"""


def test_what_scripts_import_is_there(house: House) -> None:
    house.write(SCRIPT, "scripts/script.py")
    house.write("VALUE = 1", "scripts/neighbour.py")
    house.write("", "scripts/package/__init__.py")
    house.write("from .beside import VALUE", "scripts/package/inside.py")
    house.write("VALUE = 2", "scripts/package/beside.py")
    house.write("read", "data.txt")

    ran = house.trace("scripts/script.py", "--lr", "0.5", "--no-cuda")

    assert ran.err == ""
    assert ran.code == 3
    assert ran.out == "Namespace(lr=0.5, no_cuda=True) cpu 1 2 read\n['bias', 'weight']\n"


SPAWNS = """
import torch
import torch.multiprocessing as mp
def work(rank, shared):
    x = torch.ones(2, requires_grad=True)
    (x * rank).sum().backward()
    shared.put((rank, x.grad.tolist(), torch.__version__.endswith("gradscope")))
if __name__ == "__main__":
    shared = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, (shared,), nprocs=2)
    print(sorted(shared.get() for _ in range(2)))
"""


def test_processes_that_are_spawned_have_the_runtime_too(house: House) -> None:
    house.write(SPAWNS)

    ran = house.trace("script.py")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "[(0, [0.0, 0.0], True), (1, [1.0, 1.0], True)]\n"
