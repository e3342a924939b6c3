"""Arguments that PyTorch does not take are refused in its words, whatever they made fail here."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradscope import runtime
from gradscope.record.recorder import record
from gradscope.runtime.core.dispatch.overrides import public
from gradscope.runtime.core.errors.arguments.kinds import _FITS
from gradscope.runtime.core.errors.arguments.refusal import refusal
from gradscope.runtime.core.errors.arguments.signatures import table
from tests.runtime.answers.kept import as_pytorch_answered

HOUSE = Path(__file__).parents[5]

CALLS = """
x.mean(dim='a')
x.mean(dim='a', keepdim=True)
torch.mean(x, dim='a')
torch.mean(x, 'a', keepdim=True)
x.cumsum(1.0)
torch.cumsum(x, dim=1.0)
x.permute(0,'a')
x.permute([0,'a'])
x.permute(['a',0])
x.permute((1.5,0))
x.expand(2.5,3)
x.reshape(['a'])
x.amax(dim=1.)
x.amax(1.)
torch.amax(x,1.)
torch.transpose(x,0,'a')
torch.transpose(x,dim0=0,dim1='a')
x.softmax(0, foo=1)
torch.softmax(x)
x.clamp('a')
x.clamp(min='a')
torch.clamp(x, 'a', 'b')
x.add('a')
x.add(1, alpha='a')
torch.add(x,'a')
x.pow('a')
torch.pow('a', x)
x.squeeze('a')
x.unsqueeze(1.5)
x.index_select('a', x)
x.index_select(0, 5)
x.gather(0, 'a')
x.fill_('a')
x.topk('a')
x.new_zeros('a')
x.new_full('a', 3)
torch.zeros(2, dtype='float32')
torch.zeros(2, device=1.5)
torch.arange('a')
torch.full((2,),'a')
torch.eye('a')
torch.cat(x)
torch.cat([x,'a'])
torch.stack('a')
torch.cat((x,x), dim='a')
torch.where(x,'a',x)
torch.where('a')
x.masked_fill(x>0, 'a')
x.masked_fill('a', 0)
x.repeat_interleave('a')
x.roll('a')
x.flip('a')
x.narrow(0,'a',1)
x.std('a')
x.var(0, 'a')
x.argmax('a')
x.max('a')
x.max(0.5)
x.norm('a')
x.sort('a')
x.view('a')
x.view(2,'a')
x.uniform_('a')
x.normal_(0,'a')
torch.normal('a',1.)
torch.bernoulli('a')
torch.multinomial(x,'a')
torch.randperm('a')
torch.randint('a',(2,))
x.tril('a')
torch.tril(x,diagonal='a')
x.diagonal('a')
x.unbind('a')
x.chunk('a')
torch.dropout(x,'a',True)
torch.dot(x,'a')
x.copy_('a')
x.lerp(x,'a')
x.addcmul(x,x,value='a')
torch.nn.functional.softplus(x,'a')
torch.nn.functional.gelu(x,approximate=5)
torch.nn.functional.leaky_relu(x,'a')
torch.nn.functional.conv1d(x[None],x[None],stride='a')
torch.nn.functional.linear(x,'a')
torch.linalg.norm(x,dim='a')
torch.linalg.inv('a')
torch.fft.fft(x,'a')
x.requires_grad_('a')
x.size('a')
x.stride('a')
x.softmax("ä" if x is not None else 0)
torch.nn.functional.elu(x, "a")
torch.nn.functional.glu(x, "a")
torch.nn.functional.layer_norm(x, "a")
torch.nn.functional.batch_norm(x, "a", x)
torch.nn.functional.group_norm(x, 1, "a")
torch.nn.functional.pad(x, "a")
torch.randint(2.0, (2,))
torch.randint(0, 2.0, (2,))
torch.rand(2, dtype="float32")
torch.zeros_like(x, device=[])
torch.empty_like(x, dtype=5)
F.softplus(x, "a")
softmax(x, "a")
softplus(x, "a")
torch.linalg.det("a")
torch.special.polygamma("a", x)
""".strip()


OUT_OF_RANGE = "Dimension out of range (expected to be in range of [-2, 1], but got "


def said(text: str, torch: ModuleType) -> str:
    """The error of a call, written in a file that can be read."""
    name = f"<call {text}>"
    linecache.cache[name] = len(text), None, [f"{text}\n"], name
    functional: Any = torch.nn.functional
    scope = {
        "torch": torch, "x": torch.ones(2, 3), "F": functional, "softmax": torch.softmax,
        "softplus": functional.softplus,
    }  # fmt: skip
    with pytest.raises(Exception) as caught:
        eval(compile(text, name, "eval"), scope)
    return f"{caught.type.__name__}: {str(caught.value).partition(chr(10))[0]}"


@as_pytorch_answered({"wrong_arguments": CALLS.splitlines()})
def test_wrong_arguments_are_refused_in_pytorchs_words(torch: Any, text: str) -> Any:
    return said(text, torch)


@pytest.mark.torch
def test_they_are_refused_so_behind_gates() -> None:
    """Once somebody in this process overrides functions, each call goes through a gate."""
    import torch

    public.put_up_gates()

    assert [said(text, runtime) for text in CALLS.splitlines()] == [
        said(text, torch) for text in CALLS.splitlines()
    ]


@pytest.mark.parametrize("level", ["engine", "full"])
def test_they_are_refused_so_while_somebody_watches(level: str) -> None:
    with record(level=level):
        told = said("x.argmax('a')", runtime), said("x.gather(0, 'a')", runtime)

    assert told == (
        "TypeError: argmax(): argument 'dim' (position 1) must be int, not str",
        "TypeError: gather(): argument 'index' (position 2) must be Tensor, not str",
    )


def test_a_choice_of_ways_is_shown() -> None:
    x = runtime.ones(2, 3)

    with pytest.raises(TypeError) as caught:
        x.mean("a")

    assert str(caught.value).splitlines()[1:] == [
        " * (*, torch.dtype dtype = None)",
        " * (tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None)",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x.softmax(5)", f"IndexError: {OUT_OF_RANGE}5)"),
        ("x.sum(axis=7)", f"IndexError: {OUT_OF_RANGE}7)"),
        (
            "torch.cat((x, x[0]))",
            "RuntimeError: Tensors must have same number of dimensions: got 2 and 1",
        ),
    ],
)
def test_a_call_with_the_right_kinds_keeps_its_error(text: str, error: str) -> None:
    assert said(text, runtime) == error


def test_what_cannot_be_told_is_not_blamed() -> None:
    x, given = runtime.ones(2, 3), ["a"]

    with pytest.raises(TypeError, match="'str' object cannot be interpreted as an integer"):
        x.transpose(0, *given)  # which arguments these are, the text does not say


def test_arguments_given_by_a_library_of_the_users_are_looked_at_there() -> None:
    def of_a_library(tensor: Any, dim: Any) -> Any:
        return tensor.unbind(dim)

    with pytest.raises(TypeError, match=r"unbind\(\): argument 'dim' \(position 1\) must be int"):
        of_a_library(runtime.ones(2), "a")


def test_modules_give_their_arguments_on() -> None:
    layer = runtime.nn.Flatten("a")

    with pytest.raises(TypeError, match=r"flatten\(\): argument 'start_dim' \(position 1\)"):
        layer(runtime.ones(2))


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((0, 1), {}, None),
        ((0,), {"dim1": 1}, None),
        ((), {}, 'transpose() missing 2 required positional argument: "dim0", "dim1"'),
        ((0,), {}, 'transpose() missing 1 required positional arguments: "dim1"'),
        ((0, 1, 2), {}, "transpose() takes 2 positional arguments but 3 were given"),
        ((0, 1), {"dim": 1}, "transpose() got an unexpected keyword argument 'dim'"),
        ((0,), {"dim1": "a"}, "transpose(): argument 'dim1' must be int, not str"),
    ],
)
def test_arguments_against_one_way(args: Any, kwargs: Any, text: str | None) -> None:
    assert refusal("transpose", table()[".transpose"], args, kwargs) == text


def test_every_kind_in_the_table_is_known() -> None:
    kinds = {p.kind for ways in table().values() for way in ways for p in way.parameters}

    assert kinds <= _FITS.keys()
    assert all(
        p.name.isidentifier() for ways in table().values() for way in ways for p in way.parameters
    )


@pytest.mark.torch
def test_the_table_is_pytorchs() -> None:
    command = [sys.executable, HOUSE / "tools" / "docs" / "signatures.py", "--check"]

    assert subprocess.run(command, check=False).returncode == 0, "run python docs/signatures.py"
