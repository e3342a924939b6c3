"""In which way attention is computed: PyTorch's choice and graph, and its words if none is left."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradscope.runtime as ours
from tests.runtime.engines import torch

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SETUP = """
B, by, cuda = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel, torch.backends.cuda
attend = torch.nn.functional.scaled_dot_product_attention
torch.manual_seed(0)
q, k = (torch.randn(1, 2, 4, 8, dtype=torch.double, requires_grad=True) for _ in 'qk')
mask = torch.ones(4, 4).tril().bool()
def chain(out):
    names, node = [], out.grad_fn
    while node is not None:
        names.append(node.name()); node = node.next_functions[0][0] if node.next_functions else None
    return names
def under(ways, *args, **options):
    with by(ways): return chain(attend(q, k, k, *args, **options))
def twice(ways):
    with by(ways):
        g, = torch.autograd.grad(attend(q, k, k).sum(), q, create_graph=True)
        found, = torch.autograd.grad(g.pow(2).sum(), q)
        return [round(v, 4) for v in found.flatten().tolist()]
ways = 'flash', 'math', 'mem_efficient', 'cudnn'
def flags(): return [getattr(cuda, f'{name}_sdp_enabled')() for name in ways]
def old(**options):
    with cuda.sdp_kernel(**options) as given: return given, flags(), chain(attend(q, k, k))
def left(*names):
    with by(list(B.__members__.values())):
        for name in names: getattr(cuda, f'enable_{name}_sdp')(False)
        return flags(), chain(attend(q, k, k))
"""

QUESTIONS = """under(B.MATH)
under(B.MATH, mask)
under(B.MATH, is_causal=True)
under([B.MATH, B.FLASH_ATTENTION])
under(B.FLASH_ATTENTION)
under(B.FLASH_ATTENTION, dropout_p=0.5)
under(B.EFFICIENT_ATTENTION)
under((B.MATH,))
under([])
twice(B.MATH)
old(enable_flash=False)
old(enable_math=False, enable_cudnn=False)
left('flash', 'cudnn')
left('flash', 'math')
cuda.enable_math_sdp(1)
flags(), str(B.MATH), f'{B.CUDNN_ATTENTION}', repr(B.ERROR)
cuda.is_flash_attention_available()"""


def answer(engine: Any, code: str) -> Any:
    scope = {"torch": engine}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        __import__(f"{engine.__name__}.nn.attention")
        exec(SETUP, scope)
        try:
            return eval(code, scope)
        except (RuntimeError, AssertionError) as error:
            return type(error).__name__, str(error)


@pytest.mark.parametrize("code", QUESTIONS.split("\n"))
def test_attention_takes_the_way_that_is_allowed(code: str) -> None:
    assert answer(ours, code) == answer(torch, code)
    assert answer(ours, "flags()") == [True] * 4
