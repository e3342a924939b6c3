"""One step of each recurrent network, in small operations as in PyTorch on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradscope.runtime.core.ops.products.matmul import linear, matmul
from gradscope.runtime.core.ops.shape.splitting import unsafe_chunk
from gradscope.runtime.core.rows.offered import function


class LayerWeights(NamedTuple):
    """Parameters of one direction of a layer; missing biases or projections are None."""

    of_input: Any
    of_state: Any
    bias: Any = None
    state_bias: Any = None
    projection: Any = None

    def from_input(self, input: Any) -> Any:
        return linear(input, self.of_input, self.bias)

    def from_state(self, state: Any) -> Any:
        return linear(state, self.of_state, self.state_bias)


def lstm_step(input, hidden, parameters, ready):
    """State and cells after a step. `ready`: the inputs are already multiplied by their weights."""
    state, cells = hidden
    sums = parameters.from_state(state)
    sums.add_(input if ready else parameters.from_input(input))
    entering, kept, new, leaving = unsafe_chunk(sums, 4, 1)
    entering, kept, new = entering.sigmoid_(), kept.sigmoid_(), new.tanh_()
    leaving = leaving.sigmoid_()
    cells = (kept * cells).add_(entering * new)
    state = leaving * cells.tanh()
    if parameters.projection is not None:
        state = matmul(state, parameters.projection.t())
    return state, cells


def gru_step(input, state, parameters, ready):
    """The state after a step of a GRU."""
    given = input if ready else parameters.from_input(input)
    from_input = unsafe_chunk(given, 3, 1)
    from_state = unsafe_chunk(parameters.from_state(state), 3, 1)
    reset = from_state[0].add_(from_input[0]).sigmoid_()
    kept = from_state[1].add_(from_input[1]).sigmoid_()
    new = from_input[2].add(from_state[2].mul_(reset)).tanh_()
    return (state - new).mul_(kept).add_(new)


def _simple(nonlinearity):
    def step(input, state, parameters, ready):
        sums = parameters.from_state(state)
        return nonlinearity(sums.add_(input if ready else parameters.from_input(input)))

    return step


tanh_step = _simple(lambda sums: sums.tanh())
relu_step = _simple(lambda sums: sums.relu())


def _check_cell(input, states, weight, weight_of_state, gates):
    """Refuse sizes that do not fit, with PyTorch's messages."""
    size, width = weight.shape[1], weight_of_state.shape[1]
    if input.size(1) != size:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.size(1)} expected {size}"
        )
    for i, state in enumerate(states):
        if input.size(0) != state.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{i} batch size "
                f"{state.size(0)}"
            )
        if state.size(1) != width:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {state.size(1)}, expected {width}"
            )
    if weight.shape[0] != gates * width:
        raise RuntimeError(
            f"weight_ih first dim must be {gates} * hidden_size = {gates * width}, but got "
            f"{weight.shape[0]}"
        )


@function
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: the next state and cells."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(input, hx, w_ih, w_hh, 4)
    return lstm_step(input, tuple(hx), LayerWeights(w_ih, w_hh, b_ih, b_hh), ready=False)


@function
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU."""
    _check_cell(input, [hx], w_ih, w_hh, 3)
    return gru_step(input, hx, LayerWeights(w_ih, w_hh, b_ih, b_hh), ready=False)


@function
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a simple recurrent network with tanh."""
    _check_cell(input, [hx], w_ih, w_hh, 1)
    return tanh_step(input, hx, LayerWeights(w_ih, w_hh, b_ih, b_hh), ready=False)


@function
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a simple recurrent network with relu."""
    _check_cell(input, [hx], w_ih, w_hh, 1)
    return relu_step(input, hx, LayerWeights(w_ih, w_hh, b_ih, b_hh), ready=False)
