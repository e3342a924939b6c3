"""What PyTorch's messages mean, with the line to blame and that line written otherwise."""

from __future__ import annotations

import pytest

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.program.raised import Explained, explained
from gradscope.trace.schema import Act, Frame, Module, Op, Source, Stack, Tensor
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."


def told(message: str, text: str, trace: Trace | None = None) -> Explained:
    found = explained(trace or trace_of(), message, Site("a.py:9", text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("message", "text", "fix"),
    [
        (LEAF, "p += 1", "`with torch.no_grad(): p += 1`"),
        ("grad can be implicitly created only for scalar outputs", "loss.backward()",
         "write `loss.mean().backward()` instead of `loss.backward()`"),
        ("Can't call numpy() on Tensor that requires grad.", "print(y.numpy())",
         "write `print(y.detach().numpy())` instead of `print(y.numpy())`"),
        ("mat1 and mat2 must have the same dtype, but got Double and Float", "net(x)", "x.float()"),
        ("expected scalar type Long but found Float", "loss(y, t)", "`y.long()`"),
        ("shape '[4, -1]' is invalid for input of size 10", "x.view(4, -1)", "`flatten(1)`"),
        (("The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension "
         "0"), "a - b", "`unsqueeze`"),
    ],
)  # fmt: skip
def test_a_message_is_answered_with_what_to_write(message: str, text: str, fix: str) -> None:
    assert fix in told(f"RuntimeError: {message}", text).fix


def test_parameters_that_are_all_frozen_are_blamed_for_a_tensor_without_history() -> None:
    trace = trace_of(
        Frame(0, "a.py", 3, "f", "net.requires_grad_(False)"),
        Stack(0, 0),
        Tensor(0, requires_grad=True),
        Module(0, "", "Linear", parameters=(0,)),
        Act(0, "requires_grad", tensors=(0,), stack=0),
    )

    found = told(NO_GRAD_FN, "loss.backward()", trace)

    assert found.site == Site("a.py:3", "net.requires_grad_(False)")
    assert found.why == "none of 1 parameters requires a gradient: they were frozen at a.py:3"
    assert told(NO_GRAD_FN, "loss.backward()").why.endswith("no cut was recorded")


def test_the_module_whose_weight_does_not_fit_is_named_with_the_sizes_it_wants() -> None:
    trace = trace_of(
        Tensor(0, shape=(1, 32)),
        Tensor(1, shape=(1, 32)),
        Module(0, "a", "Linear", parameters=(0,)),
        Module(1, "net.b", "Linear", parameters=(1,)),
    )
    message = "mat1 and mat2 shapes cannot be multiplied (4x16 and 32x1)"

    assert told(message, "return self.b(h)", trace).why.startswith("net.b (Linear) takes 32")
    assert told(message, "return x @ y").why.startswith("the first has 16 columns")


@pytest.mark.parametrize(
    ("message", "before", "now"),
    [
        ("Expected input batch_size (12) to match target batch_size (6).", (6, 4, 36), (12, 72)),
        (("Target size (torch.Size([6, 1])) must be the same as input size (torch.Size([12, 1]))"),
         (6, 4, 36), (12, 72)),
        (("The size of tensor a (12) must match the size of tensor b (6) at non-singleton "
          "dimension 0"), (6, 4, 36), (12, 72)),
        ("mat1 and mat2 shapes cannot be multiplied (12x72 and 144x1)", (6, 4, 36), (12, 72)),
        ("mat1 and mat2 shapes cannot be multiplied (1x864 and 144x1)", (6, 4, 36), (864,)),
    ],
)  # fmt: skip
def test_the_view_that_took_the_batch_for_something_else_is_named(
    message: str, before: tuple[int, ...], now: tuple[int, ...]
) -> None:
    trace = _viewed(before, now)

    found = told(message, "loss(net(x), y)", trace)

    assert found.site == Site("a.py:3", "x = x.view(-1, 72)")
    assert found.why.startswith(f"a view at a.py:3 made {now} from {before}: the 6 samples")
    assert "write `x = x.flatten(1)` instead of `x = x.view(-1, 72)`" in found.fix


def test_a_view_that_merges_whole_dims_is_not_blamed_for_a_layer_of_another_size() -> None:
    message = "mat1 and mat2 shapes cannot be multiplied (24x36 and 72x1)"

    assert told(message, "f(x)", _viewed((6, 4, 36), (24, 36))).site is None


def test_a_view_of_data_that_nobody_saw_is_named_where_there_is_one() -> None:
    trace = trace_of(
        Source(0, "a.py", "def f(x):\n\n    x = x.view(-1, 72)\n"),
    )
    message = "Expected input batch_size (12) to match target batch_size (6)."

    assert told(message, "loss(net(x), y)", trace).site == Site("a.py:3", "x = x.view(-1, 72)")
    assert explained(trace, message.replace("(6)", "(5)"), Site("a.py:9")) is None


def _viewed(before: tuple[int, ...], now: tuple[int, ...]) -> Trace:
    return trace_of(
        Frame(0, "a.py", 3, "f", "x = x.view(-1, 72)"),
        Stack(0, 0),
        Tensor(0, shape=before),
        Tensor(1, shape=now, op=0),
        Op(0, "view", inputs=(0,), outputs=(1,), stack=0),
    )


def test_of_other_messages_nothing_is_claimed() -> None:
    assert explained(trace_of(), "KeyError: 'no'", Site("a.py:9", "d['no']")) is None
