"""Recurrent networks against PyTorch's: values, gradients, graphs, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import ENGINES, answer, graph, torch

pytestmark = pytest.mark.filterwarnings("ignore")

NETWORKS = (
    "nn.LSTM(3, 4)",
    "nn.LSTM(3, 4, 2, bias=False, bidirectional=True)",
    "nn.LSTM(3, 4, 2, dropout=0.5, batch_first=True)",
    "nn.LSTM(3, 4, proj_size=2)",
    "nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True, batch_first=True)",
    "nn.GRU(3, 4)",
    "nn.GRU(3, 4, 2, bidirectional=True, dropout=0.3)",
    "nn.GRU(3, 4, bias=False, batch_first=True)",
    "nn.RNN(3, 4)",
    "nn.RNN(3, 4, 2, 'relu', bidirectional=True)",
    "nn.RNN(3, 4, bias=False, batch_first=True)",
)


def tensors(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [one for item in value for one in tensors(item)]
    return [] if value is None else [value]


def trained(engine: Any, code: str, feed: str, dtype: str) -> tuple[list[str], list[Any]]:
    """The graph of one call, and its outputs and gradients."""
    engine.manual_seed(3)
    scope = {"torch": engine, "nn": engine.nn, "rnn": engine.nn.utils.rnn}
    module = eval(code, scope).to(getattr(engine, dtype))
    numbers = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(dtype)
    x = engine.from_numpy(numbers).requires_grad_(True)
    given = eval(feed, {**scope, "x": x})
    engine.manual_seed(4)
    made = tensors(module(*given) if isinstance(given, list) else module(given))
    floats = [t for t in made if t.is_floating_point()]
    nodes = graph(floats)
    sum((t * t).sum() for t in floats).backward()
    grads = [x.grad, *(p.grad for p in module.parameters())]
    return nodes, [t.detach().double().numpy() for t in (*floats, *grads) if t is not None]


FEEDS = {
    "whole": "x",
    "one": "x[:, 0]",
    "packed": "rnn.pack_padded_sequence(x, [2, 5], False, False)",
}


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("code", NETWORKS)
def test_they_compute_what_pytorchs_do_with_the_same_graph(
    code: str, feed: str, dtype: str
) -> None:
    text = FEEDS[feed]
    nodes, numbers = trained(ours, code, text, dtype)
    expected_nodes, expected = trained(torch, code, text, dtype)

    assert nodes == expected_nodes
    rtol = 1e-5 if dtype == "float32" else 1e-10
    for found, wanted in zip(numbers, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol / 10)


HIDDEN = {
    "nn.LSTM(3, 4, bidirectional=True)": "[x, (torch.ones(2, 2, 4), x.sum().expand(2, 2, 4))]",
    "nn.GRU(3, 4)": "[x, x.sum() * torch.ones(1, 2, 4)]",
}


@pytest.mark.torch
@pytest.mark.parametrize("code", HIDDEN)
def test_they_go_on_from_a_hidden_state(code: str) -> None:
    nodes, numbers = trained(ours, code, HIDDEN[code], "float32")
    expected_nodes, expected = trained(torch, code, HIDDEN[code], "float32")

    assert nodes == expected_nodes
    for found, wanted in zip(numbers, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


QUESTIONS = """repr(nn.LSTM(3, 4, 2, proj_size=2, batch_first=True, dropout=.2, bidirectional=True))
repr(nn.RNNCell(3, 4, nonlinearity='relu', bias=False))
list(nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True).state_dict())
list(nn.GRU(3, 4, bias=False).parameters())
nn.LSTMCell(3, 4)(torch.ones(2, 3))
nn.LSTMCell(3, 4)(torch.ones(3), (torch.ones(4), torch.ones(4)))
nn.GRUCell(3, 4)(torch.ones(2, 3), torch.ones(2, 4))
nn.RNNCell(3, 4, nonlinearity='relu')(torch.ones(3))
nn.LSTM(3, 4)(torch.ones(0, 5, 3))
nn.LSTM(3, 4)(torch.ones(2, 0, 3))[0].shape
nn.LSTM(3, 4)(torch.ones(3))
nn.LSTM(3, 4)(torch.ones(2, 2, 4))
nn.LSTM(3, 4)(torch.ones(2, 2, 3).double())
nn.LSTM(3, 4)(torch.ones(2, 2, 3), (torch.ones(1, 3, 4), torch.ones(1, 2, 4)))
nn.LSTM(3, 4)(torch.ones(2, 2, 3), (torch.ones(1, 2, 4), torch.ones(2, 2, 4)))
nn.LSTM(3, 4)(torch.ones(2, 3), (torch.ones(1, 2, 4), torch.ones(1, 4)))
nn.GRU(3, 4)(torch.ones(2, 2, 3), torch.ones(2, 2, 4))
nn.GRU(3, 4)(torch.ones(3, 3), torch.ones(2, 2, 4))
nn.RNN(3, 4, nonlinearity='x')
nn.LSTM(3, 4, dropout=2.)
nn.LSTM(3, 4, proj_size=5)
nn.GRU(3, 4, proj_size=2)
nn.LSTM(3, 'a')
nn.LSTM(3, 0)
nn.RNNCell(3, 4)(torch.ones(2, 2, 3))
nn.RNNCell(3, 4)(torch.ones(2, 4))
nn.LSTMCell(3, 4)(torch.ones(2, 3), (torch.ones(3, 4), torch.ones(2, 4)))
rnn.pad_sequence([torch.ones(2, 2), torch.ones(3, 2)], padding_value=-1.)
rnn.pad_sequence([torch.ones(2, 2), torch.ones(3, 2)], True, padding_side='left')
rnn.pad_sequence(3)
rnn.pad_sequence([])
rnn.pack_sequence([torch.arange(3), torch.arange(2)])
rnn.unpack_sequence(rnn.pack_sequence([torch.arange(2), torch.arange(3)], enforce_sorted=False))
rnn.pack_padded_sequence(torch.ones(3, 2), [2, 3])
rnn.pack_padded_sequence(torch.ones(3, 2), [3, 0])
rnn.pack_padded_sequence(torch.ones(3, 2), [3])
rnn.pad_packed_sequence(rnn.pack_sequence([torch.arange(3), torch.arange(2)]), True, -1, 5)
rnn.pad_packed_sequence(rnn.pack_sequence([torch.arange(3), torch.arange(2)]), total_length=2)
rnn.pack_sequence([torch.arange(3)]).double().data.dtype"""


@as_pytorch_answered({"nn/rnn": QUESTIONS.split("\n")}, tolerance=100)
def test_they_answer_as_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, code.replace("rnn.", "nn.utils.rnn."))


@pytest.mark.torch
def test_a_fused_layer_can_be_differentiated_twice() -> None:
    results = []
    for engine in ENGINES:
        engine.manual_seed(0)
        module = engine.nn.LSTM(3, 4)
        x = engine.randn(3, 2, 3).requires_grad_(True)
        (slope,) = engine.autograd.grad(module(x)[0].pow(2).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
        results.append([x.grad.numpy(), *(p.grad.numpy() for p in module.parameters())])

    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
