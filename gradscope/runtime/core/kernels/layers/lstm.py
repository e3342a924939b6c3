"""An LSTM layer over time, forward and backward.

The contribution of the inputs is one matrix product for all steps. Each step adds a small product
with the previous state, then applies the gates in one pass. Gates and cells are saved in a
workspace for backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.linalg.products import product
from gradscope.runtime.core.kernels.support import HALVES, LARGE, Array, kernels_of, quiet

Cell = Callable[..., None]


class Weights(NamedTuple):
    """Parameters of one direction of a layer. Gates are in the order input, forget, new, out."""

    of_input: Array
    of_state: Array
    bias: Array | None
    other_bias: Array | None

    def biases(self, kind: Any) -> Array:
        """The sum of both biases."""
        if self.bias is None:
            return np.zeros(len(self.of_input), kind)
        return np.asarray(self.bias + self.other_bias)


def cell(gates: Array, more: Array, bias: Array, before: Array, cells: Array, state: Array) -> None:
    """One step: sums become gates in place, and the new cells and state are written."""
    np.add(gates, more, gates)
    np.add(gates, bias, gates)
    width = before.shape[1]
    _sigmoid(gates[:, : 2 * width])
    np.tanh(gates[:, 2 * width : 3 * width], gates[:, 2 * width : 3 * width])
    _sigmoid(gates[:, 3 * width :])
    entering, kept, new, leaving = np.split(gates, 4, 1)
    np.multiply(kept, before, cells)
    np.add(cells, entering * new, cells)
    np.multiply(leaving, np.tanh(cells), state)


@quiet
def _sigmoid(sums: Array) -> None:
    np.negative(sums, sums)
    np.exp(sums, sums)
    np.add(sums, sums.dtype.type(1), sums)
    np.reciprocal(sums, sums)


def cell_backward(
    gates: Array,
    cells: Array,
    before: Array,
    to_state: Array,
    to_output: Array,
    to_cells: Array,
    out: Array,
) -> None:
    """The gradient of a step's sums; that of its cells becomes that of the previous cells."""
    grad = to_state + to_output
    one = gates.dtype.type(1)
    entering, kept, new, leaving = np.split(gates, 4, 1)
    to_entering, to_kept, to_new, to_leaving = np.split(out, 4, 1)
    bent = np.tanh(cells)
    np.multiply(grad * bent, leaving * (one - leaving), to_leaving)
    np.add(to_cells, grad * leaving * (one - bent * bent), to_cells)
    np.multiply(to_cells * new, entering * (one - entering), to_entering)
    np.multiply(to_cells * before, kept * (one - kept), to_kept)
    np.multiply(to_cells * entering, one - new * new, to_new)
    np.multiply(to_cells, kept, to_cells)


def steps_forward(
    gates: Array,
    weight: Array,
    bias: Array,
    state: Array,
    cells: Array,
    all_cells: Array,
    outputs: Array,
    order: Array,
) -> None:
    """Run all steps in order: sums of inputs become gates; all cells and states are written."""
    step, right = _step_for(gates, cell), np.ascontiguousarray(weight.T)
    sums = np.empty(gates.shape[1:], gates.dtype)
    for t in order:
        np.dot(state, right, sums)
        step(gates[t], sums, bias, cells, all_cells[t], outputs[t])
        state, cells = outputs[t], all_cells[t]


def steps_backward(
    gates: Array,
    right: Array,
    first_cells: Array,
    all_cells: Array,
    to_outputs: Array,
    to_state: Array,
    to_cells: Array,
    sums: Array,
    order: Array,
) -> None:
    """Run all steps in reverse order: the gradients of all sums are written.

    The gradients of the last state and cells become those of the first.
    """
    step = _step_for(gates, cell_backward)
    for t, before in zip(order, [*all_cells[order[1:]], first_cells], strict=True):
        step(gates[t], all_cells[t], before, to_state, to_outputs[t], to_cells, sums[t])
        np.dot(sums[t], right, to_state)


FEWEST: Final = 8
"""Rows of the largest tile."""


def _order(steps: int, *, reverse: bool) -> Array:
    return np.arange(steps - 1, -1, -1) if reverse else np.arange(steps)


def _run(plain: Callable[..., None], gates: Array, *others: Array) -> None:
    """Run all steps: by tiles, unless they are few or small, or faster with BLAS."""
    large = gates.shape[1] >= FEWEST and _are_compiled(gates)
    if not large or not fast().ran(plain.__name__, gates, *others):
        plain(gates, *others)


def _step_for(gates: Array, plain: Cell) -> Cell:
    """The compiled step for long runs of large steps, NumPy's for others."""
    return fast().step(plain.__name__) if _are_compiled(gates) else plain


def _are_compiled(gates: Array) -> bool:
    return gates.size >= LARGE and gates.dtype == np.float32


fast: Final = kernels_of("layers.lstm")


def workspace_parts(workspace: Array, steps: int, batch: int, width: int) -> tuple[Array, Array]:
    """The gates and the cells of all steps in the workspace."""
    size = steps * batch * width
    gates = workspace[: 4 * size].reshape(steps, batch, 4 * width)
    return gates, workspace[4 * size :].reshape(steps, batch, width)


def forward(
    inputs: Array, weights: Weights, state: Array, cells: Array, *, reverse: bool
) -> tuple[Array, Array, Array, Array]:
    """All states, the last state, the last cells, and the workspace."""
    if inputs.dtype in HALVES:
        wide = [_wide(x) for x in (inputs, state, cells)]
        made, last, last_cells, workspace = forward(
            wide[0], _wide_weights(weights), wide[1], wide[2], reverse=reverse
        )
        kind = inputs.dtype
        return made.astype(kind), last.astype(kind), last_cells.astype(kind), workspace
    steps, batch, size = inputs.shape
    width = state.shape[1]
    workspace = np.empty(steps * batch * width * 5, inputs.dtype)
    gates, all_cells = workspace_parts(workspace, steps, batch, width)
    flat = np.ascontiguousarray(inputs).reshape(steps * batch, size)
    product(flat, weights.of_input.T, gates.reshape(steps * batch, 4 * width))
    outputs = np.empty((steps, batch, width), inputs.dtype)
    of_state = np.ascontiguousarray(weights.of_state)
    bias = weights.biases(inputs.dtype)
    state, cells = np.ascontiguousarray(state), np.ascontiguousarray(cells)
    order = _order(steps, reverse=reverse)
    _run(steps_forward, gates, of_state, bias, state, cells, all_cells, outputs, order)
    last = order[-1]
    return outputs, outputs[last].copy(), all_cells[last].copy(), workspace


def backward(
    grads: Sequence[Array],
    inputs: Array,
    weights: Weights,
    start: tuple[Array, Array],
    outputs: Array,
    workspace: Array,
    needs: Sequence[bool],
    *,
    reverse: bool,
) -> tuple[Array | None, ...]:
    """The gradients of inputs, both weights, both biases, the first state and the first cells."""
    if inputs.dtype in HALVES:
        found = backward(
            [_wide(x) for x in grads],
            _wide(inputs),
            _wide_weights(weights),
            (_wide(start[0]), _wide(start[1])),
            _wide(outputs),
            workspace,
            needs,
            reverse=reverse,
        )
        return tuple(None if x is None else x.astype(inputs.dtype) for x in found)
    steps, batch, size = inputs.shape
    width = outputs.shape[2]
    state, cells = start
    sums, to_state, to_cells = _through_time(
        grads, weights.of_state, np.ascontiguousarray(cells), workspace, outputs, reverse=reverse
    )
    flat = sums.reshape(steps * batch, 4 * width)
    to_bias = flat.sum(0) if needs[3] or needs[4] else None
    to_input = to_weight = to_other = None
    if needs[0]:
        to_input = product(flat, weights.of_input).reshape(inputs.shape)
    if needs[1]:
        to_weight = product(flat.T, np.ascontiguousarray(inputs).reshape(steps * batch, size))
    if needs[2]:
        to_other = _of_state(sums, outputs, state, reverse=reverse)
    other_bias = to_bias if to_bias is None else to_bias.copy()
    return to_input, to_weight, to_other, to_bias, other_bias, to_state, to_cells


def _through_time(
    grads: Sequence[Array],
    of_state: Array,
    first_cells: Array,
    workspace: Array,
    outputs: Array,
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    """The gradients of all steps' sums, and of the state and cells before the first."""
    steps, batch, width = outputs.shape
    gates, all_cells = workspace_parts(workspace, steps, batch, width)
    to_outputs, to_last, to_last_cells = grads
    sums = np.empty((steps, batch, 4 * width), outputs.dtype)
    to_cells = np.array(to_last_cells, order="C")
    to_state = np.array(to_last, order="C")
    order = _order(steps, reverse=not reverse)
    made = (np.ascontiguousarray(to_outputs), to_state, to_cells, sums, order)
    _run(steps_backward, gates, np.ascontiguousarray(of_state), first_cells, all_cells, *made)
    return sums, to_state, to_cells


def _of_state(sums: Array, outputs: Array, state: Array, *, reverse: bool) -> Array:
    """The gradient of the state's weights: each step's sums times the previous state."""
    steps, batch, width = outputs.shape
    before = np.empty_like(outputs)
    if reverse:
        before[:-1], before[-1] = outputs[1:], state
    else:
        before[1:], before[0] = outputs[:-1], state
    rows = steps * batch
    return product(sums.reshape(rows, 4 * width).T, before.reshape(rows, width))


def _wide(array: Array) -> Array:
    return array.astype(np.float32)


def _wide_weights(weights: Weights) -> Weights:
    def wide(array: Array | None) -> Array | None:
        return None if array is None else _wide(array)

    return Weights(
        _wide(weights.of_input),
        _wide(weights.of_state),
        wide(weights.bias),
        wide(weights.other_bias),
    )
