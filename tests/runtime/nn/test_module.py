"""Modules: what they hold, how they are called, what they save and load."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime import nn
from gradscope.runtime.core import probe


class Small(nn.Module):
    """A module with a parameter, two buffers and a part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.part(x)


def test_parts_are_found_by_their_dotted_names() -> None:
    module = nn.Sequential(Small(), nn.Tanh())

    assert [name for name, _ in module.named_parameters()] == [
        "0.weight",
        "0.part.weight",
        "0.part.bias",
    ]
    assert [name for name, _ in module.named_buffers()] == ["0.kept", "0.passing"]
    assert [name for name, _ in module.named_modules()] == ["", "0", "0.part", "1"]
    assert module.get_submodule("0.part") is module[0].part
    assert module.get_parameter("0.part.bias") is module[0].part.bias


def test_a_shared_parameter_is_met_once() -> None:
    module = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    module[1].weight = module[0].weight

    assert [name for name, _ in module.named_parameters()] == ["0.weight", "0.bias", "1.bias"]


def test_its_state_is_what_outlives_it() -> None:
    assert list(Small().state_dict()) == ["weight", "kept", "part.weight", "part.bias"]


def test_a_state_loaded_into_another_module_makes_them_equal() -> None:
    one, other = Small(), Small()

    assert str(other.load_state_dict(one.state_dict())) == "<All keys matched successfully>"
    assert other.part.weight.tolist() == one.part.weight.tolist()
    assert other.part.weight is not one.part.weight


def test_every_mismatch_of_a_state_is_named() -> None:
    state = {"part.weight": torch.ones(3, 2), "stranger": torch.ones(1), "weight": torch.ones(3)}

    with pytest.raises(RuntimeError) as refused:
        Small().load_state_dict(state)

    assert str(refused.value) == (
        "Error(s) in loading state_dict for Small:\n"
        '\tMissing key(s) in state_dict: "kept", "part.bias". \n'
        '\tUnexpected key(s) in state_dict: "stranger". \n'
        "\tsize mismatch for part.weight: copying a param with shape torch.Size([3, 2]) from "
        "checkpoint, the shape in current model is torch.Size([2, 2])."
    )


def test_what_does_not_match_is_returned_when_it_need_not() -> None:
    result = Small().load_state_dict({"weight": torch.ones(3), "x": torch.ones(1)}, strict=False)

    assert result == (["kept", "part.weight", "part.bias"], ["x"])


def test_a_state_may_be_assigned_instead_of_copied() -> None:
    module, given = nn.Linear(2, 2), torch.ones(2, 2)

    module.load_state_dict({"weight": given, "bias": torch.zeros(2)}, assign=True)

    assert module.weight.data_ptr() == given.data_ptr()
    assert isinstance(module.weight, nn.Parameter)


def test_extra_state_travels_with_the_rest() -> None:
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    one, other = Counting(), Counting()
    one.count = 5
    other.load_state_dict(one.state_dict())

    assert other.count == 5


def test_hooks_see_a_call_before_and_after() -> None:
    module, seen = nn.Linear(1, 1), []
    module.register_forward_pre_hook(lambda m, args: seen.append("before") or (args[0] * 0,))
    handle = module.register_forward_hook(lambda m, args, out: seen.append(args[0].item()))
    module.register_forward_hook(lambda m, args, out: out + 1, prepend=True)

    result = module(torch.ones(1, 1))
    handle.remove()
    module(torch.ones(1, 1))

    assert seen == ["before", 0.0, "before"]
    assert result.item() == pytest.approx(module.bias.item() + 1)


def test_hooks_may_ask_for_keyword_arguments() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any, scale: float = 1.0) -> Any:
            return x * scale

    module, seen = Scaled(), []
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)

    assert module(torch.ones(1), scale=2).item() == 3
    assert seen == [{"scale": 3}]


def test_a_hook_that_asked_for_it_is_called_after_an_error() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError

    module, seen = Failing(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append("never"))

    with pytest.raises(ZeroDivisionError):
        module(torch.ones(1))
    assert seen == [None]


def test_the_probe_is_told_when_a_module_begins_and_ends() -> None:
    told: list[Any] = []

    class Watcher:
        def module_begins(self, module: Any) -> None:
            told.append(("begin", type(module).__name__))

        def module_ends(self) -> None:
            told.append("end")

        def __getattr__(self, name: str) -> Any:
            return lambda *args: 0

    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), probe.watching(Watcher()):
        nn.Sequential(nn.Identity(), Failing())(1)

    assert told == [
        ("begin", "Sequential"),
        ("begin", "Identity"),
        "end",
        ("begin", "Failing"),
        "end",
        "end",
    ]


def test_training_and_evaluation_reach_all_parts() -> None:
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))

    assert [m.training for m in module.eval().modules()] == [False] * 4
    assert [m.training for m in module.train().modules()] == [True] * 4


def test_a_conversion_keeps_parameters_the_same_objects() -> None:
    module = Small()
    weight = module.weight
    module(torch.ones(1, 2)).sum().backward()

    module.double()

    assert module.weight is weight
    assert (weight.dtype, module.kept.dtype) == (torch.float64, torch.float64)
    assert module.part.weight.grad.dtype is torch.float64


def test_apply_visits_parts_before_the_whole() -> None:
    seen: list[str] = []

    nn.Sequential(nn.Tanh(), nn.ReLU()).apply(lambda m: seen.append(type(m).__name__))

    assert seen == ["Tanh", "ReLU", "Sequential"]


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_a_copy_has_parameters_of_its_own_and_shares_what_was_shared(again: Any) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight

    made = again(module)

    assert made[0].weight.tolist() == module[0].weight.tolist()
    assert made[0].weight is not module[0].weight
    if again is copy.deepcopy:
        assert made[1].weight is made[0].weight
    assert isinstance(made[0].weight, nn.Parameter)
    assert made[0].weight.requires_grad


def test_a_sequence_of_modules_is_changed_in_place() -> None:
    module = nn.Sequential(nn.Tanh(), nn.ReLU())

    module.append(nn.Sigmoid())
    module.insert(0, nn.Identity())
    del module[1]

    assert [type(m).__name__ for m in module] == ["Identity", "ReLU", "Sigmoid"]
    assert type(module[-1]).__name__ == "Sigmoid"
    assert len(module[1:]) == 2
    assert list(nn.Sequential(OrderedDict(a=nn.Tanh()))._modules) == ["a"]


def test_a_parameter_can_be_replaced_and_taken_away() -> None:
    module = nn.Linear(2, 2)

    module.bias = None
    module.weight = nn.Parameter(torch.zeros(2, 2))
    del module.weight

    assert list(module.named_parameters()) == []
    assert not hasattr(module, "weight")


def test_a_tensor_in_a_list_of_parameters_becomes_one() -> None:
    parameters = nn.ParameterList([torch.ones(2)])
    parameters.append(torch.zeros(1))
    named = nn.ParameterDict({"a": torch.ones(1)})

    assert [type(p) for p in parameters.parameters()] == [nn.Parameter] * 2
    assert [name for name, _ in named.named_parameters()] == ["a"]
    with pytest.raises(RuntimeError, match="should not be called"):
        parameters(1)


def test_gradients_are_clipped_together() -> None:
    one, other = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    one.grad, other.grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])

    total = nn.utils.clip_grad_norm_([one, other], 1.0)

    assert total.item() == 5.0
    assert one.grad.tolist() == pytest.approx([0.6, 0.0])
    assert other.grad.tolist() == pytest.approx([0.0, 0.8])


def test_parameters_are_one_vector_and_back() -> None:
    module = nn.Linear(2, 1)

    vector = nn.utils.parameters_to_vector(module.parameters())
    nn.utils.vector_to_parameters(vector * 0, module.parameters())

    assert vector.shape == (3,)
    assert [p.tolist() for p in module.parameters()] == [[[0.0, 0.0]], [0.0]]
