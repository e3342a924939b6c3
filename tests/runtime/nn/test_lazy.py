"""Modules that learn their shapes from the first input, against PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gradscope.runtime as ours
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import answer

nn = ours.nn

QUESTIONS = """repr(nn.LazyLinear(4))
repr(nn.LazyLinear(4).weight)
nn.LazyLinear(4).weight.shape
nn.LazyLinear(4).weight + 1
nn.LazyLinear(4).weight.dim()
nn.LazyLinear(4).weight.size()
nn.LazyLinear(4).weight.requires_grad
nn.LazyLinear(4).double().weight.dtype
list(nn.LazyLinear(4).state_dict())
nn.LazyLinear(4).load_state_dict(nn.Linear(3, 4).state_dict())
nn.LazyLinear(4).load_state_dict(nn.LazyLinear(4).state_dict())
nn.Linear(3, 4).load_state_dict(nn.LazyLinear(4).state_dict())
nn.LazyLinear(4)(torch.ones(2, 3))
nn.LazyLinear(4, bias=False, dtype=torch.float64)(torch.ones(2, 3).double())
nn.parameter.is_lazy(nn.LazyLinear(3).weight), nn.parameter.is_lazy(torch.ones(2))
nn.UninitializedBuffer()"""


@pytest.mark.filterwarnings("ignore")
@as_pytorch_answered({"nn/lazy": QUESTIONS.split("\n")}, tolerance=100)
def test_they_answer_as_pytorchs(torch: Any, code: str) -> Any:
    return answer(torch, code)


def test_the_first_call_makes_an_ordinary_module() -> None:
    module = nn.LazyLinear(4)
    waiting = copy.deepcopy(module)

    module(ours.ones(2, 3))

    assert type(module) is nn.Linear
    assert (module.in_features, tuple(module.weight.shape)) == (3, (4, 3))
    assert nn.parameter.is_lazy(waiting.weight)


def test_a_class_that_forgets_a_parameter_says_so() -> None:
    class Forgetful(nn.modules.lazy.LazyModuleMixin, nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, input: object) -> None:
            pass

    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(ours.ones(2))
