"""Rules about attention between the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.acts import Origins
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.dims import NLL, SUMS, Fate, Went, went
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.positions import positions
from gradscope.trace.schema import NONE, Module
from gradscope.trace.trace import Trace

ATTENTION = "MultiheadAttention"
NORMS = frozenset(("native_layer_norm", "layer_norm"))
LOSSES = NLL | {"mse_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy", "l1_loss"}
FAR = 48


@rule("GS719", "attention-between-samples", reads=(*READS, "node.arguments"))
def attention_between_samples(trace: Trace) -> Iterator[Found]:
    """nn.MultiheadAttention takes (length, batch, width), but got (batch, length, width).

    Without batch_first=True it attends over the first dim. The rule takes the first dim as the
    batch if the second is averaged and the first reaches the loss.

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


@rule("GS720", "positions-of-samples", reads=(*READS, "node.arguments", "act"))
def positions_of_samples(trace: Trace) -> Iterator[Found]:
    """Position encodings are added along the batch: samples get positions, instead of tokens.

    `x + pe[: x.size(0)]` counts along the first dim. If x is (batch, length, width), that is the
    batch. The rule reports it if the other dim is averaged and this one reaches the loss, or if the
    result goes into attention with batch_first=True.

    Bad:
        embedding = torch.nn.Embedding(5, 4)
        table = torch.arange(32.0).reshape(8, 1, 4) / 32
        x = embedding(torch.arange(6).reshape(3, 2) % 5)
        x = x + table[: x.size(0)]
        torch.nn.functional.cross_entropy(x.mean(dim=1), torch.tensor([0, 1, 2])).backward()

    Good:
        embedding = torch.nn.Embedding(5, 4)
        table = torch.arange(32.0).reshape(1, 8, 4) / 32
        x = embedding(torch.arange(6).reshape(3, 2) % 5)
        x = x + table[:, : x.size(1)]
        torch.nn.functional.cross_entropy(x.mean(dim=1), torch.tensor([0, 1, 2])).backward()
    """
    calls, origins = trace.once(Calls), trace.once(Origins)
    written = trace.once(SourceFiles).each(positions)
    counted = {each.site.place: each.found.dim for each in written}
    for (at, *_), _ in calls.few_of_each_line(calls.called("add", "add_")):
        shape = calls.shape(calls.outputs(at)[0])
        dim = counted.get(calls.site(at).place, NONE)
        dim = dim if dim != NONE else _along_which(calls, origins, at)
        if len(shape) == 3 and dim in (0, 1) and shape[dim] > 1 and shape[1 - dim] > 1:
            how = _is_the_batch(trace, calls, at, dim)
            if how:
                yield _counts_samples(calls, at, dim, how)


def _along_which(calls: Calls, origins: Origins, at: int) -> int:
    """The dim along which a learned table's rows lie, cut to its size or looked up in order."""
    for tensor in calls.inputs(at) if len(calls.inputs(at)) > 1 else ():
        shape = calls.shape(tensor)
        rows = [dim for dim in (0, 1) if len(shape) == 3 and shape[dim] > 1]
        if len(rows) == 1 and _is_of_a_table(calls, origins, tensor):
            return rows[0]
    return NONE


def _is_of_a_table(calls: Calls, origins: Origins, tensor: int) -> bool:
    """Whether it is a part of a learned leaf, or its rows in order."""
    cut = False
    for _ in range(6):
        at = calls.maker(tensor)
        if at == NONE:
            return cut and calls.needs_grad(tensor)
        if calls.name(at) == "embedding":
            came = [origins.of(each) for each in calls.inputs(at)]
            return any(each is not None and each.by == "arange" for each in came)
        if calls.name(at) not in SAME_NUMBERS or not calls.inputs(at):
            return False
        cut |= calls.name(at) in {"slice", "narrow"}
        tensor = calls.inputs(at)[0]
    return False


def _is_the_batch(trace: Trace, calls: Calls, at: int, dim: int) -> str:
    """What shows that a dim of a call's result is that of the samples; "" if nothing does."""
    modules = trace.table(Module)
    pending, seen = [(calls.outputs(at)[0], dim, 1 - dim)], {at}
    while pending and len(seen) < FAR:
        tensor, first, second = pending.pop(0)
        for user in calls.trained_users(tensor):
            if user in seen:
                continue
            seen.add(user)
            module = int(calls.ops["module"][user])
            attends = modules.has(module) and modules.row(module).type == ATTENTION
            if attends and first == 0:
                dims = {calls.given(user).get("dim0"), calls.given(user).get("dim1")}
                if calls.name(user) == "transpose" and dims == {0, 1}:
                    return f"attention{calls.where(user)} takes the batch first"
            one, other = (_went(calls, user, tensor, each) for each in (first, second))
            pooled = one.fate is Fate.STAYS and other.fate is Fate.REDUCED
            pooled &= calls.name(user) in SUMS
            if pooled and _reaches_a_loss(calls, user, calls.shape(tensor)[first]):
                away = f"dim {second} is averaged away at {calls.site(user)}"
                return f"{away}, and dim {first} goes into the loss"
            if one.fate is other.fate is Fate.STAYS and not attends:
                pending.append((calls.outputs(user)[0], one.dim, other.dim))
    return ""


def _counts_samples(calls: Calls, at: int, dim: int, how: str) -> Found:
    site, shape = calls.site(at), calls.shape(calls.outputs(at)[0])
    text = site.text.partition("  #")[0].strip()
    return Found(
        message=f"Positions are added along dim {dim} of {shape} at {site}, which counts the "
        f"{shape[dim]} samples of the batch: all {shape[1 - dim]} positions of a sample get the "
        "same encoding",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"{how}; the table is cut to, or counted up to, the size of dim {dim}",
        fix=f"count along dim {1 - dim}: `.size({1 - dim})` in `{text}`, with the table as "
        + ("(1, length, width)" if dim == 0 else "(length, 1, width)"),
        certainty=Certainty.INFERRED,
    )


def _gives_back(calls: Calls, at: int, module: int) -> bool:
    """Whether this call returns the module's result, in the order (length, batch, width)."""
    made = calls.outputs(at)[0]
    shape = calls.shape(made)
    outside = [each for each in calls.users(made) if int(calls.ops["module"][each]) != module]
    return len(shape) == 3 and calls.name(at) != "transpose" and bool(outside) and shape[0] > 1


def _pooled_over_the_second(calls: Calls, at: int) -> int:
    """The call that reduces dim 1 of a call's result, elementwise up to there; NONE if none."""
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
    """Whether a loss is computed from its result, with as many rows as the first dim has."""
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
        message=f"Attention{calls.where(at)} at {site} attends over dim 0 of {shape}, the samples "
        f"of the batch: dim 1 is averaged away at {calls.site(pooled)}, and dim 0 goes into the "
        "loss",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(pooled))),
        why="nn.MultiheadAttention and the Transformer layers take (length, batch, width) unless "
        f"they are created with batch_first=True: each sample attends to the {shape[0]} samples, "
        "and to nothing of its own",
        fix="create it with `batch_first=True`, or apply transpose(0, 1) to its inputs and its "
        "result",
        certainty=Certainty.INFERRED,
    )
