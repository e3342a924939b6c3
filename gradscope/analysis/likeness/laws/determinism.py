"""The law of determinism: two runs of one program do the same, with the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.likeness.laws.happened import Call, Happened, Key, MeasuredValue
from gradscope.analysis.likeness.laws.nondeterministic import known
from gradscope.trace.schema import NONE, Op, Place, Tensor, Value
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Parting:
    """The first thing that two runs did differently."""

    t: int  # in the first run
    what: str  # "output 0 of mul"
    one: str  # of the first run: "mean 0.1"
    other: str
    site: Site
    other_site: Site
    module: str
    step: int
    kind: str  # call: another call; act: other facts of one; value, leaf, parameter, random
    name: str = ""  # of the call or the act
    made: int = 0  # number of its inputs that earlier calls returned, which were the same
    unknown: tuple[str, ...] = ()  # its inputs that were not compared
    known: str = ""  # why it is known to differ between runs


@dataclass(frozen=True, slots=True)
class Determinism:
    """Two runs of a program, compared."""

    steps: tuple[int, int]
    recorded: int  # of these steps, those whose calls were recorded in both
    calls: int  # calls and acts that are the same in both, up to the first difference
    values: int  # values that were compared up to it
    hashes: int  # parameters after a step whose bits were compared, likewise
    apart: int  # values and parameters that differ, in the whole runs
    alone: int  # values that only one run has
    first: Parting | None

    @property
    def place(self) -> int:
        """How many calls and values are the same before the first difference."""
        return self.calls + self.values + self.hashes


def determinism(one: Trace, other: Trace) -> Determinism:
    """Compare two runs of a program: by structure, then by value, up to the first difference."""
    runs = Happened(one), Happened(other)
    parted = _call_that_differs(*runs)
    same = _shared(*runs)
    until = parted.t if parted is not None else None
    before = [key for key in same if until is None or runs[0].values[key].t < until]
    before.sort(key=lambda key: runs[0].values[key].t)
    apart = [key for key in before if _differs(runs, key)]
    if apart:
        parted = _value_that_differs(*runs, apart[0])
        before = [key for key in before if runs[0].values[key].t < parted.t]
    hashes = sum(_is_hashed(runs[0], key) for key in before)
    return Determinism(
        steps=(runs[0].steps, runs[1].steps),
        recorded=min(runs[0].recorded_steps, runs[1].recorded_steps),
        calls=sum(_before(calls, parted) for calls in runs[0].calls.values()),
        values=len(before) - hashes,
        hashes=hashes,
        apart=len(apart),
        alone=len(runs[0].values) + len(runs[1].values) - 2 * len(same),
        first=parted,
    )


def _before(calls: list[Call], parted: Parting | None) -> int:
    return sum(parted is None or call.t < parted.t for call in calls)


def _shared(one: Happened, other: Happened) -> list[Key]:
    return [key for key in one.values if key in other.values]


def _is_hashed(run: Happened, key: Key) -> bool:
    return key[0] == "parameter" and run.values[key].content[0] != NO_BITS


NO_BITS = -1


def _differs(runs: tuple[Happened, Happened], key: Key) -> bool:
    return runs[0].values[key].content != runs[1].values[key].content


# -- calls --------------------------------------------------------------------------------------


def _call_that_differs(one: Happened, other: Happened) -> Parting | None:
    """The first call that is another one, or act with other facts, of all threads."""
    found = list(_partings(one, other))
    return min(found, key=lambda each: each.t, default=None)


def _partings(one: Happened, other: Happened) -> Iterator[Parting]:
    for thread, mine in one.calls.items():
        theirs = other.calls.get(thread, [])
        for a, b in zip(mine, theirs, strict=False):
            if a.what != b.what or repr(a.facts) != repr(b.facts):  # NaN is equal to itself
                yield _of_calls(a, b)
                break
        else:
            if len(mine) != len(theirs):
                least = min(len(mine), len(theirs))
                yield _longer(mine[least:], theirs[least:])


def _of_calls(a: Call, b: Call) -> Parting:
    if a.what == b.what:
        said = [
            ", ".join(f"{name} {value}" for (name, value), fact in zip(x, y, strict=True)
                      if (name, value) != fact)
            for x, y in ((a.facts, b.facts), (b.facts, a.facts))
        ]  # fmt: skip
        return Parting(
            a.t, ACTS.get(a.name, a.name), said[0], said[1], a.site, b.site, a.module, a.step,
            "act", a.name,
        )  # fmt: skip
    return Parting(
        a.t, "another call", _said(a), _said(b), a.site, b.site, a.module, a.step, "call", a.name
    )


ACTS = {
    "seed": "the seed of a generator",
    "split": "the parts of a data set",
    "batch": "the samples of a batch",
    "drew": "random numbers that a call returned",
    "step": "a step of an optimizer",
    "schedule_step": "a learning rate",
    "clip": "the norm at clipping",
    "scaled_step": "a step of a gradient scaler",
}


def _said(call: Call) -> str:
    """A call and the shapes it returned."""
    if call.op == NONE:
        return ACTS.get(call.name, call.name)
    return f"{call.name} {call.shapes}".rstrip()


def _longer(mine: list[Call], theirs: list[Call]) -> Parting:
    """Where one run ends and the other goes on."""
    call = (mine or theirs)[0]
    said = (_said(call), "nothing more") if mine else ("nothing more", _said(call))
    sites = (call.site, Site()) if mine else (Site(), call.site)
    t = call.t if mine else (1 << 62)
    return Parting(t, "another call", *said, *sites, call.module, call.step, "call", call.name)


# -- values -------------------------------------------------------------------------------------


def _value_that_differs(one: Happened, other: Happened, key: Key) -> Parting:
    a, b = one.values[key], other.values[key]
    said = _statistics(a, b), _statistics(b, a)
    kind = str(key[0]) if key[0] in KINDS else "value"
    made, unknown, name = _inputs(one, a)
    return Parting(
        a.t, a.words, *said, a.site, b.site, a.module, a.step, kind, name, made, unknown,
        known(name or str(key[1]), a.module),
    )  # fmt: skip


def _statistics(a: MeasuredValue, b: MeasuredValue) -> str:
    """What differs of a value."""
    pairs = zip(a.facts, b.facts, strict=True)
    apart = [
        f"{name} {value:.9g}" for (name, value), (_, of_b) in pairs if repr(value) != repr(of_b)
    ]
    return ", ".join(apart[:MOST]) or f"hash {a.content[0]:08x}"


MOST = 3
KINDS = "parameter", "leaf", "random"


def _inputs(run: Happened, value: MeasuredValue) -> tuple[int, tuple[str, ...], str]:
    """Of a call with another output: inputs that earlier calls returned; others; its name."""
    if value.op == NONE:
        return 0, (), ""
    op = run.trace.table(Op).row(value.op)
    tensors, values = run.trace.table(Tensor), run.trace.table(Value)
    returned = {each for row in run.trace.rows(Op) if row.begin < op.begin for each in row.outputs}
    compared = returned | set(values["tensor"][values["place"] == Place.LEAF].tolist())
    made, unknown = 0, list[str]()
    for tensor in op.inputs:
        if tensor in compared:
            made += 1
        elif tensors.has(tensor):
            row = tensors.row(tensor)
            unknown.append(row.name or f"a tensor {row.dtype} {list(row.shape)}")
        else:
            unknown.append("a tensor without a row in the trace")
    return made, tuple(dict.fromkeys(unknown)), op.name
