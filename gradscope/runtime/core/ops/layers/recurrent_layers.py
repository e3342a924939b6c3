"""Recurrent networks over sequences: layers, directions, packed sequences, dropout."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import w
from gradscope.runtime.core.kernels.support import BFLOAT16
from gradscope.runtime.core.ops.layers.dropout import dropout
from gradscope.runtime.core.ops.layers.recurrent import mkldnn_rnn_layer
from gradscope.runtime.core.ops.layers.recurrent_cells import (
    LayerWeights,
    gru_step,
    lstm_step,
    relu_step,
    tanh_step,
)
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making import factories

FUSED = frozenset({np.dtype(np.float32), BFLOAT16})
LSTM_MODE = 2
"""The mode number of an LSTM in PyTorch's fused layer."""


def _in_layers(weights, has_biases, projected=False):
    """A flat list of weights as the parameters of each direction of each layer."""
    each = (4 if has_biases else 2) + projected
    if len(weights) % each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    made = []
    for start in range(0, len(weights), each):
        part = list(weights[start : start + each])
        projection = part.pop() if projected else None
        biases = part[2:] if has_biases else (None, None)
        made.append(LayerWeights(part[0], part[1], biases[0], biases[1], projection))
    return made


# A hidden state is one tensor, or for an LSTM a pair of them. PyTorch's compiler evaluates the
# second one of a pair first, which decides the order of their nodes.


def _last_first(function, hidden):
    return tuple(function(one) for one in reversed(list(hidden)))[::-1]


def _cut(hidden, start, end):
    if isinstance(hidden, tuple):
        return _last_first(lambda one: one.narrow(0, start, end - start), hidden)
    return hidden.narrow(0, start, end - start)


def _joined(parts):
    if isinstance(parts[0], tuple):
        return _last_first(lambda ones: w.cat(list(ones), 0), zip(*parts, strict=True))
    return w.cat(list(parts), 0)


def _state(hidden):
    return hidden[0] if isinstance(hidden, tuple) else hidden


class Whole:
    """Steps of a padded batch."""

    @staticmethod
    def run(step, input, hidden, parameters, *, reverse):
        steps = list(parameters.from_input(input).unbind(0))
        made = []
        for one in reversed(steps) if reverse else steps:
            hidden = step(one, hidden, parameters, True)
            made.append(_state(hidden))
        if reverse:
            made.reverse()
        return w.stack(made, 0), hidden


class Packed:
    """Steps of a packed sequence, with a varying number of rows."""

    def __init__(self, batch_sizes):
        self.sizes = batch_sizes.tolist()

    def run(self, step, input, hidden, parameters, *, reverse):
        ready = parameters.from_input(input)
        return (self._back if reverse else self._on)(step, ready, hidden, parameters)

    def _on(self, step, ready, hidden, parameters):
        made, ended, start, before = [], [], 0, self.sizes[0]
        for size in self.sizes:
            one = ready.narrow(0, start, size)
            start += size
            if size < before:
                ended.append(_cut(hidden, size, before))
                hidden = _cut(hidden, 0, size)
            before = size
            hidden = step(one, hidden, parameters, True)
            made.append(_state(hidden))
        ended.append(hidden)
        return w.cat(made, 0), _joined(ended[::-1])

    def _back(self, step, ready, first, parameters):
        made, end, before = [], ready.size(0), self.sizes[-1]
        hidden = _cut(first, 0, before)
        for size in reversed(self.sizes):
            if size > before:
                hidden = _joined([hidden, _cut(first, before, size)])
            one = ready.narrow(0, end - size, size)
            end -= size
            before = size
            hidden = step(one, hidden, parameters, True)
            made.append(_state(hidden))
        return w.cat(made[::-1], 0), hidden


def _stacked(way, step, input, hiddens, layers, options):
    """The output of the last layer, and the last hidden state of every layer and direction."""
    num_layers, dropout_p, train, bidirectional = options
    directions = 2 if bidirectional else 1
    if len(hiddens) != num_layers * directions:
        raise RuntimeError("Expected more hidden states in stacked_rnn")
    if len(layers) != num_layers * directions:
        raise RuntimeError("Expected more weights in stacked_rnn")
    last = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            made, hidden = way.run(step, input, hiddens[i], layers[i], reverse=direction == 1)
            outputs.append(made)
            last.append(hidden)
        input = w.cat(outputs, outputs[0].dim() - 1) if bidirectional else outputs[0]
        if dropout_p and train and layer < num_layers - 1:
            input = dropout(input, dropout_p, train)
    return input, last


def _check_sequence(input, batch_first):
    if input.dim() == 3 and input.size(1 if batch_first else 0) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")


def _plain_network(name, step):
    """`torch.gru` and similar functions: of a padded batch, or of a packed sequence."""

    def whole(
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    ):
        _check_sequence(input, batch_first)
        given = input.transpose(0, 1) if batch_first else input
        layers = _in_layers(params, has_biases)
        options = num_layers, dropout, train, bidirectional
        made, last = _stacked(Whole, step, given, hx.unbind(0), layers, options)
        hidden = w.stack(last, 0)
        if batch_first:
            made.transpose_(0, 1)
        return made, hidden

    def packed(
        data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional
    ):
        layers = _in_layers(params, has_biases)
        options = num_layers, dropout, train, bidirectional
        made, last = _stacked(Packed(batch_sizes), step, data, hx.unbind(0), layers, options)
        return made, w.stack(last, 0)

    return _offered(name, whole, packed, 3)


def _offered(name, whole, packed, place):
    """One function for both: with batch sizes, the list of weights is a later argument."""

    def network(*args, **kwargs):
        of_a_packed = "batch_sizes" in kwargs or isinstance(args[place], list | tuple)
        return (packed if of_a_packed else whole)(*args, **kwargs)

    network.__name__ = network.__qualname__ = name
    return function(network)


gru = _plain_network("gru", gru_step)
rnn_tanh = _plain_network("rnn_tanh", tanh_step)
rnn_relu = _plain_network("rnn_relu", relu_step)


def _lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    _check_sequence(input, batch_first)
    projected = hx[0].size(2) != hx[1].size(2)
    options = num_layers, dropout, train, bidirectional
    if _is_fused(input):
        if not projected:
            return _fused(input, hx, params, has_biases, options, batch_first)
        warn("LSTM with projections is not supported with oneDNN. Using default implementation.")
    given = input.transpose(0, 1) if batch_first else input
    made, *last = _in_small_steps(Whole, given, hx, params, has_biases, options, projected)
    return made.transpose(0, 1) if batch_first else made, *last


def _packed_lstm(
    data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional
):
    if len(hx) != 2:
        raise RuntimeError("lstm expects two hidden states")
    projected = hx[0].size(2) != hx[1].size(2)
    options = num_layers, dropout, train, bidirectional
    way = Packed(batch_sizes)
    return _in_small_steps(way, data, hx, params, has_biases, options, projected)


lstm = _offered("lstm", _lstm, _packed_lstm, 3)


def _in_small_steps(way, input, hx, params, has_biases, options, projected):
    hiddens = list(zip(hx[0].unbind(0), hx[1].unbind(0), strict=True))
    layers = _in_layers(params, has_biases, projected)
    made, last = _stacked(way, lstm_step, input, hiddens, layers, options)
    states, cells = zip(*last, strict=True)
    return made, *_last_first(lambda ones: w.stack(list(ones), 0), (states, cells))


def _is_fused(input):
    array = input._array
    return array.dtype in FUSED and array.size > 0 and input.device.type == "cpu"


class Fused:
    """A layer as one operation."""

    def __init__(self, options, has_biases, batch_first):
        self.options, self.has_biases, self.batch_first = options, has_biases, batch_first

    def run(self, hidden, input, state, parameters, *, reverse):
        num_layers, _, train, bidirectional = self.options
        weights = parameters[:4]
        if not self.has_biases:
            none = factories.zeros(parameters[0].size(0), dtype=input.dtype)
            weights = (*parameters[:2], none, none)
        made = mkldnn_rnn_layer(
            input,
            *weights,
            *state,
            reverse,
            (),
            LSTM_MODE,
            hidden,
            num_layers,
            self.has_biases,
            bidirectional,
            self.batch_first,
            train,
        )
        return made[0], tuple(made[1:3])


def _fused(input, hx, params, has_biases, options, batch_first):
    given = (input.transpose(0, 1) if batch_first else input).contiguous()
    states, cells = hx[0].contiguous(), hx[1].contiguous()
    hiddens = [(states.select(0, i), cells.select(0, i)) for i in range(states.size(0))]
    layers = _in_layers(params, has_biases)
    way = Fused(options, has_biases, batch_first)
    made, last = _stacked(way, cells.size(2), given, hiddens, layers, options)
    lasts = [w.stack([pair[i] for pair in last], 0) for i in (0, 1)]
    return made.transpose(0, 1) if batch_first else made, *lasts
