"""One value for each row of a square matrix that is aligned with its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.program.acts import Origins
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.dims import ELEMENTWISE, SUMS
from gradscope.analysis.rules.registry import Found
from gradscope.analysis.rules.structure.losses import LINEAR
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

BINARY = ("sub", "mul", "add", "div")
CHOSEN = frozenset(("index", "index_select", "gather", "take", "stack"))
"""Calls that return one value for each sample of a batch, as a loader or an index does."""

DROPS = frozenset(("squeeze", "select", "view", "reshape", "_unsafe_view"))
FAR = 24


def one_number_per_row(
    trace: Trace, calls: Calls, seen: set[int], is_of_a_loss: Callable[[Calls, int], bool]
) -> Iterator[Found]:
    """Tensors of shape (N,) with a value for each row that met (N, N) elementwise.

    For the square it is known that its rows are samples and its columns features, from a layer; or
    it is the result of a broadcast without gradients, and the loss is the mean of all of it.
    """
    origins = trace.once(Origins)
    for several in calls.each_line(calls.with_tensors(*BINARY)):
        met = [(at, *_square_and_row(calls, at)) for at in several[:FAR]]
        met = [each for each in met if each[2] != NONE]
        rows = {row for _, _, row in met}
        if not met or calls.stack(met[0][0]) in seen:
            continue
        at, square, row = met[0]
        came = _came_of_a_broadcast(calls, origins, square)
        if came is not None and _is_per_row(calls, row) and is_of_a_loss(calls, at):
            maker = calls.maker(square)
            if maker != NONE and calls.stack(maker) in seen:
                continue
            seen.add(calls.stack(at))
            yield _of_data(calls, at, square, came)
            continue
        how = _reduced(calls, square, row)
        if not how and len(rows) == len(met) > 1 and _is_of_features(calls, square):
            how = _chosen(calls, origins, row)
        if how:
            seen.add(calls.stack(at))
            yield _found(calls, at, row, how)


def _square_and_row(calls: Calls, at: int) -> tuple[int, int]:
    """The operands of shapes (N, N) and (N,) of a call; NONE, NONE if there are none."""
    inputs = calls.inputs(at)
    if len(inputs) != 2:
        return NONE, NONE
    for square, row in (inputs, inputs[::-1]):
        shape = calls.shape(square)
        if len(shape) == 2 and shape[0] == shape[1] > 1 and calls.shape(row) == shape[:1]:
            return square, row
    return NONE, NONE


def _is_of_features(calls: Calls, square: int) -> bool:
    """Whether a square is, elementwise, the result of a layer with a bias: columns are outputs."""
    pending, seen = [square], {square}
    while pending and len(seen) < FAR:
        at = calls.maker(pending.pop())
        if at == NONE:
            continue
        name = calls.name(at)
        if name in LINEAR:
            return name in {"addmm", "linear", "convolution"}
        if name in ELEMENTWISE:
            new = {each for each in calls.inputs(at) if len(calls.shape(each)) == 2} - seen
            seen |= new
            pending += new
    return False


def _chosen(calls: Calls, origins: Origins, row: int) -> str:
    """Where values of samples come from, as far as that is known; they differ each time."""
    if calls.needs_grad(row):
        return ""
    at, came = calls.maker(row), origins.of(row)
    name = calls.name(at) if at != NONE else came.by if came is not None else ""
    if name not in CHOSEN:
        return ""
    site = calls.site(at) if at != NONE else came.site if came is not None else Site()
    return f"{name} at {site} returns a value for each sample, different ones each time"


def _reduced(calls: Calls, square: int, row: int) -> str:
    """How a row was reduced from the same square's rows, or returned by a layer of one output."""
    at = calls.maker(row)
    while at != NONE and calls.name(at) in ELEMENTWISE | DROPS and calls.inputs(at):
        before = calls.inputs(at)[0]
        if calls.shape(before) == (*calls.shape(row), 1) and _is_one_output(calls, before):
            return f"it is one output of a layer for each row, at {calls.site(at)}"
        if len(calls.shape(before)) != 1:
            return ""
        at = calls.maker(before)
    over = calls.dims(at) if at != NONE and calls.name(at) in SUMS else None
    if over != (1,) or not _is_of_features(calls, square):
        return ""
    of = calls.inputs(at)[0]
    same = of == square or calls.origin(of, ELEMENTWISE) == calls.origin(square, ELEMENTWISE)
    return f"{calls.name(at)} at {calls.site(at)} reduced each of its rows to a value" * same


def _came_of_a_broadcast(calls: Calls, origins: Origins, square: int) -> Site | None:
    """The line of the arithmetic that created a square without gradients."""
    came = origins.of(square)
    if calls.needs_grad(square):
        return None
    if came is not None:
        return came.site if came.by in BINARY else None
    at = calls.maker(square)
    if at == NONE or calls.name(at) not in BINARY:
        return None
    column, row = (calls.shape(square)[0], 1), calls.shape(square)[:1]
    return calls.site(at) if {*map(calls.shape, calls.inputs(at))} == {column, row} else None


def _is_per_row(calls: Calls, row: int) -> bool:
    """Whether a learned row is one value for each sample: reduced over dim 1, or one output."""
    for _ in range(FAR):
        at = calls.maker(row)
        if at == NONE or not calls.needs_grad(row):
            return False
        name, learned = calls.name(at), [*filter(calls.needs_grad, calls.inputs(at))]
        if name in SUMS:
            return calls.dims(at) == (1,) and len(calls.shape(learned[0])) == 2
        if name not in ELEMENTWISE | DROPS or not learned:
            return False
        if len(calls.shape(learned[0])) == 2:
            return calls.shape(learned[0]) == (*calls.shape(row), 1)
        row = learned[0]
    return False


def _of_data(calls: Calls, at: int, square: int, came: Site) -> Found:
    many, site = calls.shape(square)[0], calls.site(at)
    return Found(
        message=f"A broadcast at {came} made ({many}, {many}), which meets ({many},), a value for "
        f"each row, at {site}: each of the {many} is combined with all {many}",
        site=came,
        evidence=(Evidence("op", calls.id(at)), Evidence("tensor", square)),
        why=f"it was computed without gradients, and all {many * many:,} results are averaged or "
        f"summed into the loss; ({many}, 1) and ({many},) make ({many}, {many})",
        fix="give both operands there the same shape: `.squeeze(-1)` on the column",
        certainty=Certainty.SUSPECTED,
    )


def _is_one_output(calls: Calls, column: int) -> bool:
    at = calls.origin(column, ELEMENTWISE)
    return at != NONE and calls.name(at) in LINEAR


def _found(calls: Calls, at: int, row: int, how: str) -> Found:
    many, site = calls.shape(row)[0], calls.site(at)
    return Found(
        message=f"A broadcast at {site} aligns ({many},), a value for each row, with the "
        f"columns of ({many}, {many}): both have the same number, so no error is raised",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("tensor", row)),
        why=f"{how}; shapes are aligned from the right, so column k is combined with value k, "
        "instead of row k",
        fix="add a dim on the right: `[:, None]`, `.unsqueeze(1)`, or `keepdim=True` where it "
        "was reduced",
        certainty=Certainty.INFERRED,
    )
