"""What a trace says about its run: each key of the table `meta`, and what its value holds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args, get_origin, get_type_hints

from gradscope.trace.text import quoted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ChildFacts(TypedDict, total=False):
    """Child processes that were started alike."""

    kind: str
    line: str  # where they were started
    count: int
    pids: list[int]


class RankFacts(TypedDict, total=False):
    """One of the ranks of a merged trace: facts of its own trace, and its ids."""

    rank: int
    host: str
    pid: int
    exit: str
    exit_code: int
    clock_base: int
    ids: dict[str, tuple[int, int]]  # by table: its first id, and the first that is not its own


class RunFacts(TypedDict, total=False):
    """Every key that this gradscope knows; others are kept, and shown by `gradscope info`."""

    producer: str  # gradscope.runtime, pytorch
    producer_version: str
    level: str  # graph, engine, values, full
    script: str
    arguments: list[str]
    cwd: str
    host: str
    pid: int
    rank: int
    world_size: int
    clock_base: int  # ns since the epoch
    python: str  # its version
    dropped: dict[str, int]  # rows for which there was no room, by table; `steps`: whole steps
    unwanted: dict[str, int]  # `steps` that nobody asked for
    observed: list[str]  # kinds of events, tables, their columns
    inferred: list[str]
    absent: list[str]
    left_out: list[str]  # tables, and keys of this one, that the user did not want
    redacted: str  # what `gradscope redact` replaced: secrets, or secrets and names
    unseen: dict[str, int]  # what could not be seen, and how often
    follows_from: int  # bytes of the smallest storage whose end is seen
    exit: str  # how the script ended
    exit_code: int
    raised_at: str  # where in gradscope itself, if there
    unfinished: int  # graph tasks under way at the end
    written_every: float  # s: what is older is in the file
    cut: str  # why no more could be written
    steps_end_with: str  # backward: there is no optimizer
    own_time: dict[str, int]  # ns that gradscope itself took, by what for; recorded: of how many
    children: list[ChildFacts]  # child processes, which were not recorded
    ranks: list[RankFacts]  # of a merged trace
    clock: str  # of a merged trace: how the clocks of its ranks became one


ARGUMENTS: Final = "arguments"
"""Named in `left_out` where the user did not want them kept."""

WORDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    tuple: "a list of two",
}


def misfits(facts: Mapping[str, Any]) -> Iterator[str]:
    """What is of another type, as in "meta.pid holds 'x', where a whole number belongs"."""
    yield from _of_keys(facts, RunFacts, "meta")


def _misfits(value: Any, hint: Any, name: str) -> Iterator[str]:
    inside = get_args(hint)
    kind = dict if isinstance(hint, type(RunFacts)) else get_origin(hint) or hint
    if not _is(value, kind, len(inside)):
        yield f"{visible(name, 100)} holds {quoted(value)}, where {WORDS[kind]} belongs"
    elif kind is dict and not inside:
        yield from _of_keys(value, hint, name)
    elif kind is dict:
        for key, each in value.items():
            yield from _misfits(each, inside[1], f"{name}.{key}")
    elif kind in (list, tuple):
        for place, each in enumerate(value):
            yield from _misfits(each, inside[0], f"{name}[{place}]")


def _is(value: Any, kind: type, length: int) -> bool:
    if kind is tuple:
        return type(value) is list and len(value) == length
    return type(value) is kind or (kind is float and type(value) is int)


def _of_keys(facts: Mapping[str, Any], declared: Any, name: str) -> Iterator[str]:
    hints = _hints(declared)
    for key in facts.keys() & hints.keys():
        yield from _misfits(facts[key], hints[key], f"{name}.{key}")


_hints = cache(get_type_hints)
