"""The cross entropy of a linear layer's output, computed in pieces of a few rows.

Two operators, under PyTorch's names. If losses are summed, the forward pass also computes the
gradients while the scores exist, and backward multiplies them. Otherwise backward computes the
scores again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gradscope.runtime.core.autograd.modes.grad_mode import is_grad_enabled
from gradscope.runtime.core.dispatch.operators.custom_op import custom_op
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.rows.offered import FUNCTIONS, NN_FUNCTIONS
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.tensors.making.factories import zeros
from gradscope.runtime.nn.modules.linear_cross_entropy_options import HALVES

TAKES = (
    "Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, Tensor? weight, "
    "{}int ignore_index, {}int batch_chunk_size, str acc_policy, ScalarType acc_dtype{}"
)
WHOLE = TAKES.format(
    "str reduction, ",
    "float label_smoothing, ",
    ", bool allow_retain_graph, bool compute_input_grad, bool compute_linear_weight_grad, "
    "bool compute_linear_bias_grad",
)
TWICE = (
    "linear_cross_entropy chunked backward called twice; retain_graph=True / double backward are "
    "not supported."
)


def in_pieces(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any, weight: Any, **how: Any
) -> Any:
    """The loss, or that of each row. `how`: reduction, ignore_index and options."""
    one = input.dim() == 1
    if one:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    options = how["options"]._adjust(
        *input.shape, linear_weight.shape[0], dtype=input.dtype, device=input.device
    )
    given = (input, linear_weight, target, linear_bias, weight)
    size = (options.batch_chunk_size, options.acc_policy, options.acc_dtype)
    if how["reduction"] == "none":
        loss = _operators()[1](*given, how["ignore_index"], *size)
    else:
        wanted = [
            x is not None and x.requires_grad and is_grad_enabled()
            for x in (input, linear_weight, linear_bias)
        ]
        kept = (options.allow_retain_graph, *wanted)
        reduced = (how["reduction"], how["ignore_index"], 0.0)
        loss = _operators()[0](*given, *reduced, *size, *kept)[0]
    return loss.squeeze(0) if one else loss


@cache
def _operators() -> tuple[Any, Any]:
    name = "torch_nn::_linear_cross_entropy_batch_chunked"
    added = custom_op(
        name,
        _added,
        mutates_args=(),
        schema=f"({WHOLE}) -> (Tensor, Tensor, Tensor, Tensor)",
    )
    added.register_autograd(_multiplied, setup_context=_keep_gradients)
    each = custom_op(
        f"{name}_no_reduction",
        _each,
        mutates_args=(),
        schema=f"({TAKES.format('', '', '')}) -> Tensor",
    )
    each.register_autograd(_computed_again, setup_context=_keep_inputs)
    return added, each


# -- losses added up --------------------------------------------------------------------------


def _added(*given: Any) -> tuple[Any, ...]:
    input, linear_weight, target, linear_bias, weight, reduction, ignore_index = given[:7]
    rows, _, wide, _, *wanted = given[8:]
    known, share = _known_and_shares(target, weight, ignore_index, wide)
    if reduction == "mean":
        share = share / share.sum()
    found = _Gradients((input, linear_weight, linear_bias), wide, wanted)
    losses = found.walk(known, share, rows, share)
    return losses.sum().to(input.dtype), *found.all()


def _keep_gradients(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.may_come_again, *wanted = inputs[11:]
    pairs = zip(wanted, output[1:], strict=True)
    ctx.found = [grad.detach() if wanted else None for wanted, grad in pairs]


def _multiplied(ctx: Any, grad: Any, *_: Any) -> tuple[Any, ...]:
    found = ctx.found
    if found is None:
        raise RuntimeError(TWICE)
    if not ctx.may_come_again:
        ctx.found = None
    change = "mul" if ctx.may_come_again else "mul_"
    of_input, of_weight, of_bias = (
        None if each is None else getattr(each, change)(grad) for each in found
    )
    return (of_input, of_weight, None, of_bias, *[None] * 11)


# -- a loss for each row ----------------------------------------------------------------------


def _each(*given: Any) -> Any:
    input, linear_weight, target, linear_bias, weight, ignore_index, rows, _, wide = given
    known, share = _known_and_shares(target, weight, ignore_index, wide)
    nothing = _Gradients((input, linear_weight, linear_bias), wide, (False, False, False))
    return nothing.walk(known, share, rows, share).to(input.dtype)


def _keep_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*(None if x is None else x.detach() for x in inputs[:5]))
    ctx.how = inputs[5:]


def _computed_again(ctx: Any, grad: Any) -> tuple[Any, ...]:
    input, linear_weight, target, linear_bias, weight = ctx.saved_tensors
    ignore_index, rows, _, wide = ctx.how
    needs = ctx.needs_input_grad
    wanted = (needs[0], needs[1], linear_bias is not None and needs[3])
    known, share = _known_and_shares(target, weight, ignore_index, wide)
    found = _Gradients((input, linear_weight, linear_bias), wide, wanted)
    found.walk(known, share, rows, share * grad.to(wide))
    pairs = zip(found.all(), wanted, strict=True)
    of_input, of_weight, of_bias = (each if is_wanted else None for each, is_wanted in pairs)
    return (of_input, of_weight, None, of_bias, *[None] * 5)


# -- both -------------------------------------------------------------------------------------


def _known_and_shares(target: Any, weight: Any, ignore_index: int, wide: Any) -> tuple[Any, Any]:
    """The class of each row and the weight of its loss, which is 0 where the class is ignored."""
    counts = target != ignore_index
    known = FUNCTIONS["where"](counts, target, 0)
    share = counts.to(wide)
    return known, share if weight is None else weight.to(wide)[known] * share


class _Gradients:
    """The gradients of a linear layer's inputs, accumulated piece by piece."""

    def __init__(self, layer: tuple[Any, Any, Any], wide: Any, wanted: Sequence[bool]) -> None:
        self.input, weight, bias = layer
        dtype = self.input.dtype
        if dtype != wide and not (dtype in HALVES and wide is dtypes.float32):
            raise RuntimeError(
                "linear_cross_entropy supports float32 acc_dtype with float16 or bfloat16 inputs, "
                f"or acc_dtype that equals the input dtype, got {wide} with {dtype}"
            )
        self.wide, self.wanted = wide, wanted
        self.weight, self.bias = weight.to(wide), None if bias is None else bias.to(wide)
        self.of_input: list[Any] = []
        self.of_weight = zeros(*(weight.shape if wanted[1] else (0, 0)), dtype=wide)
        self.of_bias = zeros(weight.shape[0] if wanted[2] else 0, dtype=wide)

    def walk(self, known: Any, share: Any, rows: int, factor: Any) -> Any:
        """Each row's loss times its weight. Gradients are of the losses times `factor`."""
        losses = []
        for first in range(0, self.input.shape[0], rows):
            piece = slice(first, first + rows)
            x, at = self.input[piece].to(self.wide), known[piece].unsqueeze(1)
            scores = x @ self.weight.t()
            logs = NN_FUNCTIONS["log_softmax"](
                scores if self.bias is None else scores + self.bias, 1
            )
            losses.append(-logs.gather(1, at)[:, 0] * share[piece])
            if any(self.wanted):
                slope = logs.exp_()
                slope.scatter_add_(1, at, at.to(self.wide).fill_(-1.0))
                self._add(x, slope.mul_(factor[piece].unsqueeze(1)))
        return FUNCTIONS["cat"](losses)

    def _add(self, x: Any, slope: Any) -> None:
        of_input, of_weight, of_bias = self.wanted
        if of_input:
            self.of_input.append((slope @ self.weight).to(self.input.dtype))
        if of_weight:
            self.of_weight += slope.t() @ x
        if of_bias:
            self.of_bias += slope.sum(0)

    def all(self) -> tuple[Any, Any, Any]:
        """The gradients in the dtype of the input; empty where they are not wanted."""
        dtype = self.input.dtype
        whole = FUNCTIONS["cat"](self.of_input) if self.of_input else zeros(0, 0, dtype=dtype)
        return whole, self.of_weight.to(dtype), self.of_bias.to(dtype)


upward.cross_entropy_in_pieces = in_pieces
