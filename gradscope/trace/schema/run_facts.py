"""Facts about a run: each key of the table `meta`, and the type of its value."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args, get_origin, get_type_hints

from gradscope.trace.text import quoted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ChildFacts(TypedDict, total=False):
    """Child processes that were started in the same way from the same line."""

    kind: str
    line: str  # line that started them
    count: int
    pids: list[int]
    traces: list[str]  # files in which they recorded themselves, as ranks


class RankFacts(TypedDict, total=False):
    """One of the ranks of a merged trace: facts of its own trace, and its ids."""

    rank: int
    host: str
    pid: int
    exit: str
    exit_code: int
    clock_base: int
    cut_off: bool  # its recording was not closed; only there if it is true
    lost: int  # bytes after the last whole line of its file, if it is cut off
    ids: dict[str, tuple[int, int]]  # by table: its first id, and the first id after its last


class CheckedNodes(TypedDict, total=False):
    """How many runs of nodes `--check-nodes` computed again."""

    asked: str  # all, a share or a pattern
    agree: int
    differ: int
    not_computed: dict[str, dict[str, int]]  # by reason and kind of node: number of runs
    hooks: int  # lines whose hooks changed gradients
    copying_ns: int
    computing_ns: int
    recording: str  # also in the file of `--keep-values`; "": there is none


class RunFacts(TypedDict, total=False):
    """Every key known to this gradscope. Others are kept, and shown by `gradscope info`."""

    producer: str  # gradscope.runtime, pytorch
    producer_version: str
    level: str  # graph, engine, values, full
    on: str  # the engine that --on named; not there: auto
    script: str
    run_as: str  # module: `script` was run as `python -m script`
    arguments: list[str]
    cwd: str
    host: str
    pid: int
    rank: int
    world_size: int
    restarts: int  # how often torchrun had started all ranks again; not there: 0
    clock_base: int  # ns since the epoch
    python: str  # version of Python
    dropped: dict[str, int]  # rows left out for lack of room, by table; `steps`, of them `in_part`
    unwanted: dict[str, int]  # `steps`: number of steps that were not selected
    let_go: dict[str, int]  # steps recorded and let go: `steps`, their number; `keep` as requested
    summary: dict[str, int]  # `measured`, `losses`: steps; `stride`: at most one step in this many
    checked_nodes: CheckedNodes  # not there: no node was computed again
    observed: list[str]  # kinds of events, tables and columns that were observed
    inferred: list[str]  # those that were inferred
    absent: list[str]  # those that were not recorded
    left_out: list[str]  # tables, and keys of this table, that the user switched off
    redacted: str  # what `gradscope redact` replaced: secrets, or secrets and names
    unseen: dict[str, int]  # what could not be recorded, and how often
    no_machine_code: str  # why PyTorch was observed through its public API only
    not_shown: list[str]  # what the API of this version of PyTorch does not show
    follows_from: int  # bytes; the end of smaller storages is not recorded
    exit: str  # how the script ended
    exit_code: int
    raised_at: str  # line in gradscope, if the exception was raised there
    unfinished: int  # graph tasks that were running at the end
    max_bytes: int  # limit of the size of the file; not there: no limit
    written_every: float  # seconds between writes: anything older is in the file
    cut: str  # why writing stopped
    steps_end_with: str  # backward: there is no optimizer
    own_time: dict[str, int]  # ns spent in gradscope, by purpose; `recorded`: the whole time
    children: list[ChildFacts]  # child processes, which are not in this trace
    ranks: list[RankFacts]  # for a merged trace
    clock: str  # for a merged trace: how the clocks of its ranks were aligned


ARGUMENTS: Final = "arguments"
"""Listed in `left_out` when the user switched off recording of arguments."""

WORDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    tuple: "a list of two",
}


def misfits(facts: Mapping[str, Any]) -> Iterator[str]:
    """Values of the wrong type, as in "meta.pid is 'x', expected a whole number"."""
    yield from _of_keys(facts, RunFacts, "meta")


def _misfits(value: Any, hint: Any, name: str) -> Iterator[str]:
    kind, inside = _kind(hint)
    if not _is(value, kind, len(inside)):
        yield f"{visible(name, 100)} is {quoted(value)}, expected {WORDS[kind]}"
    elif kind is dict and not inside:
        yield from _of_keys(value, hint, name)
    elif kind is dict:
        for key, each in value.items():
            yield from _misfits(each, inside[1], f"{name}.{key}")
    elif kind in (list, tuple) and not {inside[0]}.issuperset(map(type, value)):
        for place, each in enumerate(value):
            yield from _misfits(each, inside[0], f"{name}[{place}]")


@cache
def _kind(hint: Any) -> tuple[type, tuple[Any, ...]]:
    """The type of a value, and what is declared of the values in it."""
    kind = dict if isinstance(hint, type(RunFacts)) else get_origin(hint) or hint
    return kind, get_args(hint)


def _is(value: Any, kind: type, length: int) -> bool:
    if kind is tuple:
        return type(value) is list and len(value) == length
    return type(value) is kind or (kind is float and type(value) is int)


def _of_keys(facts: Mapping[str, Any], declared: Any, name: str) -> Iterator[str]:
    hints = _hints(declared)
    for key in facts.keys() & hints.keys():
        yield from _misfits(facts[key], hints[key], f"{name}.{key}")


_hints = cache(get_type_hints)
