"""Rules about attention between the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.dims import NLL, SUMS, Fate, Went, went
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.trace.schema import NONE, Module
from gradscope.trace.trace import Trace

ATTENTION = "MultiheadAttention"
NORMS = frozenset(("native_layer_norm", "layer_norm"))
LOSSES = NLL | {"mse_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy", "l1_loss"}
FAR = 48


@rule(
    "GS719", "attention-between-samples", Severity.WARNING, needs="engine",
    reads=(*READS, "node.arguments"),
)  # fmt: skip
def attention_between_samples(trace: Trace) -> Iterator[Found]:
    """nn.MultiheadAttention takes (length, batch, width); it was given (batch, length, width).

    Without batch_first=True it attends over the first dim. That this is the batch is seen where
    the other one is averaged away, and the first goes into the loss.

    Bad:
        attention = torch.nn.MultiheadAttention(4, 1)
        x = torch.arange(24.0).reshape(3, 2, 4) / 24
        y, _ = attention(x, x, x)
        torch.nn.functional.cross_entropy(y.mean(dim=1), torch.tensor([0, 1, 2])).backward()

    Good:
        attention = torch.nn.MultiheadAttention(4, 1, batch_first=True)
        x = torch.arange(24.0).reshape(3, 2, 4) / 24
        y, _ = attention(x, x, x)
        torch.nn.functional.cross_entropy(y.mean(dim=1), torch.tensor([0, 1, 2])).backward()
    """
    calls, told = trace.once(Calls), set[int]()
    modules = [row for row in trace.rows(Module) if row.type == ATTENTION]
    for module in modules:
        inside = np.flatnonzero((calls.ops["module"] == module.id) & calls.is_forward).tolist()
        made = next((at for at in inside if _gives_back(calls, at, module.id)), NONE)
        if made == NONE or calls.stack(made) in told:
            continue
        pooled = _pooled_over_the_second(calls, made)
        if pooled != NONE and _reaches_a_loss(
            calls, pooled, calls.shape(calls.outputs(made)[0])[0]
        ):
            told.add(calls.stack(made))
            yield _found(calls, made, pooled)


def _gives_back(calls: Calls, at: int, module: int) -> bool:
    """Whether what the module returns is made here, in the order (length, batch, width)."""
    made = calls.outputs(at)[0]
    shape = calls.shape(made)
    outside = [each for each in calls.users(made) if int(calls.ops["module"][each]) != module]
    return len(shape) == 3 and calls.name(at) != "transpose" and bool(outside) and shape[0] > 1


def _pooled_over_the_second(calls: Calls, at: int) -> int:
    """The call that reduces dim 1 of what comes of a call, number by number; NONE: none does."""
    pending, seen = [(calls.outputs(at)[0], 0, 1)], {at}
    while pending and len(seen) < FAR:
        tensor, first, second = pending.pop()
        for user in calls.trained_users(tensor):
            if user in seen:
                continue
            seen.add(user)
            one, other = (_went(calls, user, tensor, dim) for dim in (first, second))
            if one.fate is Fate.STAYS and other.fate is Fate.REDUCED and calls.name(user) in SUMS:
                return user
            if one.fate is other.fate is Fate.STAYS:
                pending.append((calls.outputs(user)[0], one.dim, other.dim))
    return NONE


def _went(calls: Calls, at: int, tensor: int, dim: int) -> Went:
    return Went(Fate.STAYS, dim) if calls.name(at) in NORMS else went(calls, at, tensor, dim)


def _reaches_a_loss(calls: Calls, at: int, many: int) -> bool:
    """Whether a loss is computed of what comes of it, for as many as the first dim has."""
    pending, seen = [at], {at}
    while pending and len(seen) < FAR:
        for tensor in calls.outputs(pending.pop(0)):
            for user in calls.trained_users(tensor):
                if user in seen:
                    continue
                seen.add(user)
                if calls.name(user) in LOSSES and calls.shape(tensor)[:1] == (many,):
                    return True
                pending.append(user)
    return False


def _found(calls: Calls, at: int, pooled: int) -> Found:
    site, shape = calls.site(at), calls.shape(calls.outputs(at)[0])
    return Found(
        message=f"Attention{calls.where(at)} at {site} goes over dim 0 of {shape}, the samples of "
        f"the batch: dim 1 is averaged away at {calls.site(pooled)}, and dim 0 comes into the loss",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(pooled))),
        why="nn.MultiheadAttention and the Transformer layers take (length, batch, width) unless "
        f"they are made with batch_first=True: each sample attends to the {shape[0]} samples, and "
        "to nothing of its own",
        fix="make it with `batch_first=True`, or transpose(0, 1) what it is given and what it "
        "returns",
        certainty=Certainty.INFERRED,
    )
