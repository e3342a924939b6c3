"""An LSTM layer as one operation, as PyTorch runs it in float32 and bfloat16."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import INTERNAL, UNKNOWN, family, joint, op, outputs, w
from gradscope.runtime.core.kernels.layers import lstm
from gradscope.runtime.core.ops.in_formulas import ndarray, total

TENSORS = ("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_")


def _layer(
    input,
    weight0,
    weight1,
    weight2,
    weight3,
    hx_,
    cx_,
    reverse,
    batch_sizes,
    mode,
    hidden_size,
    num_layers,
    has_biases,
    bidirectional,
    batch_first,
    train,
):
    biases = (weight2, weight3) if has_biases else (None, None)
    return lstm.forward(input, lstm.Weights(weight0, weight1, *biases), hx_, cx_, reverse=reverse)


def _layer_backward(
    grads,
    input,
    weight0,
    weight1,
    weight2,
    weight3,
    hx_,
    cx_,
    result0,
    result1,
    result2,
    result3,
    reverse,
    has_biases,
    needs,
    batch_sizes,
    mode,
    hidden_size,
    num_layers,
    bidirectional,
    batch_first,
    train,
):
    if input.__class__ is not ndarray:
        biases = (weight2, weight3) if has_biases else None
        return _on_tensors(grads, input, (weight0, weight1), biases, (hx_, cx_), needs, reverse)
    found = lstm.backward(
        grads[:3],
        input,
        lstm.Weights(weight0, weight1, None, None),
        (hx_, cx_),
        result0,
        result3,
        needs,
        reverse=reverse,
    )
    return tuple(one if need else None for one, need in zip(found, needs, strict=True))


def _on_tensors(grads, input, weights, biases, start, needs, reverse):
    """The same step by step, differentiable again."""
    steps = input.shape[0]
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    state, cells = start
    walked = []
    for t in order:
        sums = w.mm(input.select(0, t), weights[0].t()) + w.mm(state, weights[1].t())
        if biases is not None:
            sums = sums + (biases[0] + biases[1])
        entering, kept, new, leaving = sums.chunk(4, 1)
        gates = entering.sigmoid(), kept.sigmoid(), new.tanh(), leaving.sigmoid()
        now = gates[1] * cells + gates[0] * gates[2]
        walked.append((t, gates, state, cells, now.tanh()))
        state, cells = gates[3] * walked[-1][4], now
    to_outputs, to_state, to_cells = grads[:3]
    to_sums = {}
    for t, (entering, kept, new, leaving), _, before, bent in reversed(walked):
        to_state = to_state + to_outputs.select(0, t)
        to_cells = to_cells + to_state * leaving * (1 - bent * bent)
        parts = [
            to_cells * new * entering * (1 - entering),
            to_cells * before * kept * (1 - kept),
            to_cells * entering * (1 - new * new),
            to_state * bent * leaving * (1 - leaving),
        ]
        to_sums[t] = w.cat(parts, 1)
        to_cells = to_cells * kept
        to_state = w.mm(to_sums[t], weights[1])
    bias = total([to_sums[t].sum(0) for t in order])
    found = (
        w.stack([w.mm(to_sums[t], weights[0]) for t in range(steps)], 0),
        total([w.mm(to_sums[t].t(), input.select(0, t)) for t in order]),
        total([w.mm(to_sums[t].t(), before) for t, _, before, _, _ in walked]),
        bias,
        bias,
        to_state,
        to_cells,
    )
    return tuple(one if need else None for one, need in zip(found, needs, strict=True))


mkldnn_rnn_layer = op(
    "MkldnnRnnLayerBackward0",
    _layer,
    UNKNOWN,
    INTERNAL,
    outputs("result0", "result1", "result2", "result3", without=("result3",)),
    joint(*TENSORS, by=_layer_backward),
)
family(globals())
