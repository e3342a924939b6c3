"""Connectionist temporal classification: the sum over all alignments of a target, and its gradient.

A target of L labels has blanks around each: 2 L + 1 states. `alpha` is the log probability of all
steps up to one that end in each state, for all samples of a batch at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.arrays.scatter import put_add
from gradscope.runtime.core.kernels.support import Array, quiet


class States(NamedTuple):
    """The states of every sample: labels, number, and which of them may be skipped."""

    labels: Array
    counts: Array
    jumps: Array
    steps: Array


def states_of(targets: Array, lengths: Array, steps: Array, blank: int) -> States:
    """The labels of targets with blanks; a blank between two different labels may be skipped."""
    batch = len(lengths)
    longest = int(lengths.max()) if batch else 0
    labels = np.full((batch, 2 * longest + 1), blank, np.int64)
    start = 0
    for i, length in enumerate(lengths.tolist()):
        row = targets[i] if targets.ndim == 2 else targets[start:]
        labels[i, 1 : 2 * length + 1 : 2] = row[:length]
        start += length
    jumps = np.zeros(labels.shape, bool)
    jumps[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
    return States(labels, 2 * lengths + 1, jumps, steps)


@quiet
def forward(log_probs: Array, states: States) -> tuple[Array, Array]:
    """The negative log likelihood of each sample, and alpha: batch, steps, states."""
    steps, batch, _ = log_probs.shape
    width = states.labels.shape[1]
    alpha = np.full((batch, steps, width), -np.inf, log_probs.dtype)
    scores = _scores(log_probs, states.labels)
    inside = np.arange(width) < states.counts[:, None]
    if steps:
        alpha[:, 0, :2] = scores[:, 0, :2]
        alpha[:, 0][~inside] = -np.inf
    for t in range(1, steps):
        before = alpha[:, t - 1]
        made = before.copy()
        made[:, 1:] = np.logaddexp(made[:, 1:], before[:, :-1])
        jumped = np.where(states.jumps[:, 2:], before[:, :-2], -np.inf)
        made[:, 2:] = np.logaddexp(made[:, 2:], jumped)
        alpha[:, t] = np.where(inside, made + scores[:, t], -np.inf)
    return -_ends(alpha, states), alpha


def _scores(log_probs: Array, labels: Array) -> Array:
    """The logarithm of each state's probability at each step: batch, steps, states."""
    of_batch = log_probs.swapaxes(0, 1)
    places = np.broadcast_to(labels[:, None], (*of_batch.shape[:2], labels.shape[1]))
    return np.take_along_axis(of_batch, places, 2)


def _ends(alpha: Array, states: States) -> Array:
    """The log probability of a sample's last two states after its last step."""
    rows = np.arange(len(alpha))
    if not alpha.shape[1]:
        return np.where(states.counts == 1, 0.0, -np.inf).astype(alpha.dtype)
    last = alpha[rows, states.steps - 1]
    whole = last[rows, states.counts - 1]
    label = np.where(states.counts > 1, last[rows, states.counts - 2], -np.inf)
    made = np.logaddexp(whole, label)
    none = np.where(states.counts == 1, 0.0, -np.inf)
    return np.where(states.steps == 0, none, made).astype(alpha.dtype)


@quiet
def backward(
    grad: Array,
    log_probs: Array,
    states: States,
    losses: Array,
    alpha: Array,
    *,
    zero_infinity: bool,
) -> Array:
    """The gradient of the log probabilities, as if a softmax had made them."""
    steps, batch, classes = log_probs.shape
    scores = _scores(log_probs, states.labels)
    beta = _beta(scores, states)
    shares = np.exp(alpha + beta - scores + losses[:, None, None])
    shares = np.where(np.isneginf(alpha + beta), 0, shares).astype(alpha.dtype)
    found = np.zeros((batch, steps, classes), log_probs.dtype)
    first = np.arange(batch * steps).reshape(batch, steps, 1) * classes
    put_add(found, (first + states.labels[:, None]).reshape(-1), shares.reshape(-1))
    of_batch = np.exp(log_probs).swapaxes(0, 1)
    made = (of_batch - found) * grad[:, None, None]
    lost = np.isinf(losses)
    made[lost] = 0 if zero_infinity else np.nan
    made[np.arange(steps) >= states.steps[:, None]] = 0
    return np.ascontiguousarray(made.swapaxes(0, 1))


def _beta(scores: Array, states: States) -> Array:
    """Like alpha, from the last step backwards."""
    _, steps, width = scores.shape
    beta = np.full(scores.shape, -np.inf, scores.dtype)
    ends = np.arange(width)
    final = (ends == states.counts[:, None] - 1) | (ends == states.counts[:, None] - 2)
    for t in range(steps - 1, -1, -1):
        last = (states.steps == t + 1)[:, None]
        if t == steps - 1:
            beta[:, t] = np.where(last & final, scores[:, t], -np.inf)
            continue
        after = beta[:, t + 1]
        made = after.copy()
        made[:, :-1] = np.logaddexp(made[:, :-1], after[:, 1:])
        jumped = np.where(states.jumps[:, 2:], after[:, 2:], -np.inf)
        made[:, :-2] = np.logaddexp(made[:, :-2], jumped)
        made = np.where(last & final, 0, made)
        beta[:, t] = np.where((states.steps > t)[:, None], made + scores[:, t], -np.inf)
    return beta
