"""What programs reach for below modules and tensors, and how calls of modules are refused."""

from __future__ import annotations

import importlib
import math
from typing import Any

from tests.runtime.both import leaf, raises


def part(torch: Any, name: str) -> Any:
    """A module below torch."""
    return importlib.import_module(f"{torch.__name__}.{name}")


def test_hooks_of_all_modules_stand_in_dicts(torch: Any) -> None:
    module = part(torch, "nn.modules.module")
    handle = module.register_module_forward_hook(lambda *_: None, always_call=True)
    try:
        assert len(module._global_forward_hooks) == 1
        assert len(module._global_forward_hooks_always_called) == 1
    finally:
        handle.remove()
    assert not module._global_forward_hooks_always_called
    assert not module._global_forward_pre_hooks


def test_what_to_is_asked_for_can_be_parsed(torch: Any) -> None:
    parse, cpu = torch._C._nn._parse_to, torch.device("cpu")

    assert parse("cpu", torch.float32) == (cpu, torch.float32, False, None)
    assert parse(torch.float16, True) == (None, torch.float16, True, None)
    assert parse(memory_format=torch.channels_last) == (None, None, False, torch.channels_last)
    assert parse(torch.ones(2, dtype=torch.int8)) == (cpu, torch.int8, False, None)


def test_modules_refuse_what_to_does_not_know(torch: Any) -> None:
    net, cpu = torch.nn.Linear(1, 1), torch.device("cpu")
    wrong = "to() received an invalid combination of arguments - got "
    told = {
        "(torch.device, bool), but expected one of:": (cpu, True),
        "(NoneType, bool), but expected one of:": (None, True),
        "(list), but expected one of:": ([],),
        "(torch.device, Tensor), but expected one of:": (cpu, torch.tensor(3)),
    }
    for text, given in told.items():
        assert raises(TypeError, lambda given=given: net.to(*given)) == wrong + text
    assert raises(TypeError, lambda: net.to(cpu, torch.long, True)).startswith("nn.Module.to only")
    assert raises(RuntimeError, lambda: net.to("cpu", copy=True)) == (
        ".to() does not accept copy argument"
    )


def test_sequentials_refuse_what_cannot_be_inserted(torch: Any) -> None:
    net = torch.nn.Sequential(torch.nn.ReLU())

    assert raises(IndexError, lambda: net.insert(-5, torch.nn.ReLU())) == "Index out of range: -5"
    assert raises(AssertionError, lambda: net.insert(0, [1])).startswith("module should be of type")


def test_small_names_below_torch(torch: Any) -> None:
    size = part(torch, "_utils")._element_size

    assert [size(dtype) for dtype in (torch.complex64, torch.bool)] == [8, 1]
    assert raises(RuntimeError, lambda: size(3)) == "expected torch.dtype, but got <class 'int'>"
    assert torch._C._get_privateuse1_backend_name() == "privateuseone"
    with torch.backends.cudnn.flags(enabled=False):
        pass


def test_a_gradient_may_be_assigned_under_its_old_name(torch: Any) -> None:
    x = leaf(torch, 1.0)
    x._grad = torch.ones(1, dtype=torch.float64)

    assert x.grad.tolist() == [1.0]
    assert raises(TypeError, lambda: setattr(x, "_grad", 1)).startswith("assigned grad expected")


def test_amounts_of_pruning_are_checked_and_counted(torch: Any) -> None:
    prune = part(torch, "nn.utils.prune")

    assert [prune._compute_nparams_toprune(amount, 15) for amount in (0, 10, 1, 1.0, 0.5)] == [
        0, 10, 1, 15, 8,
    ]  # fmt: skip
    assert raises(ValueError, lambda: prune._validate_pruning_amount(20, 19)) == (
        "amount=20 should be smaller than the number of parameters to prune=19"
    )
    assert raises(TypeError, lambda: prune._validate_pruning_amount_init("s")).startswith(
        "Invalid type for amount: s."
    )


def test_targets_of_cosine_losses_fit_the_vectors(torch: Any) -> None:
    loss = torch.nn.functional.cosine_embedding_loss
    told = {
        "0D or 1D target tensor expected, multi-target not supported": ((3, 2), (3, 1)),
        "1D target tensor expects 2D input tensors, but found inputs with sizes [3] and [3].": (
            (3,),
            (3,),
        ),
        "0D target tensor expects 1D input tensors, but found inputs with sizes [2, 5] and "
        "[2, 5].": ((2, 5), ()),
    }
    for text, (shape, target) in told.items():
        x, y = torch.ones(shape), torch.ones(target)
        assert raises(RuntimeError, lambda x=x, y=y: loss(x, x, y)) == text


def test_angles_are_taken_in_the_common_dtype(torch: Any) -> None:
    angle = torch.nn.functional.cosine_similarity
    whole = torch.tensor(12, dtype=torch.int8)

    assert angle(whole, torch.tensor(12.0), dim=-1).tolist() == 1.0
    assert raises(RuntimeError, lambda: angle(whole, whole, dim=-1)) == (
        "expected common dtype to be floating point, yet common dtype is Char"
    )


def test_the_mean_surprise_of_nothing_is_no_number(torch: Any) -> None:
    scores = torch.ones(5, 0)

    assert math.isnan(torch.nn.functional.cross_entropy(scores, scores).item())
