"""The tables with one file per rank, other than `finding` and `line`."""

from __future__ import annotations

import math
import shlex

import numpy as np
import orjson

from gradscope.analysis.program.acts import parameters
from gradscope.fleet.export.cells import Flags, FleetCells, ids, integers, texts
from gradscope.fleet.export.rows.rank_trace import RankTrace, shape_text
from gradscope.trace.schema import NONE, Module, Tensor


def module_rows(of: RankTrace) -> dict[str, FleetCells]:
    """The modules of the models."""
    rows, names = list(of.trace.rows(Module)), of.module_names
    return {
        "k": integers(np.arange(len(rows))),
        "module": texts([names[row.id] for row in rows]),
        "type": texts([row.type for row in rows]),
        "parent": texts([names.get(row.parent) for row in rows]),
        "parameters": integers(np.array([len(row.parameters) for row in rows], np.int64)),
    }


def parameter_rows(of: RankTrace) -> dict[str, FleetCells]:
    """Leaves, with the names that all tables use."""
    found = [leaf for leaf in of.leaves.values() if leaf is not None]
    tensors, within = of.trace.table(Tensor), parameters(of.trace)
    every = np.array([leaf.tensor for leaf in found], np.int64)
    size = tensors["bytes"][tensors.positions(every)] if found else every
    modules = np.array([within.get(leaf.tensor, NONE) for leaf in found], np.int64)
    elements = [math.prod(leaf.shape) for leaf in found]
    return {
        "k": integers(np.arange(len(found))),
        "parameter": texts(of.titles(every.tolist())),
        "guessed": integers(np.array([leaf.guessed for leaf in found], bool)),
        "module": of.modules(modules),
        "type": texts([leaf.dtype for leaf in found]),
        "shape": texts([shape_text(leaf.shape) for leaf in found]),
        "elements": _numbers(elements),
        "bytes": integers(size),
        "sharding": texts([leaf.shard and leaf.shard.placements for leaf in found]),
    }


def _numbers(numbers: list[int]) -> FleetCells:
    """Integers of any size; those that a column cannot hold are NULL."""
    known: Flags = np.array([abs(each) < 1 << 63 for each in numbers], bool)
    held = [each if fits else 0 for each, fits in zip(numbers, known, strict=True)]
    return integers(np.array(held, np.int64), known)


def meta_rows(of: RankTrace, commit: str | None) -> dict[str, FleetCells]:
    """One row of facts about the recording."""
    trace, facts = of.trace, of.trace.meta

    def text(value: object) -> FleetCells:
        return texts([str(value) if value not in (None, "") else None])

    def number(name: str) -> FleetCells:
        value = facts.get(name)
        return _numbers([value]) if isinstance(value, int) else ids(np.array([NONE]))

    script, arguments = facts.get("script"), facts.get("arguments", [])
    command = shlex.join([str(script), *map(str, arguments)]) if script else None
    steps = sum(step.id in of.recorded for step in of.steps)
    return {
        "producer": text(facts.get("producer")),
        "producer_version": text(facts.get("producer_version")),
        "python": text(facts.get("python")),
        "level": text(facts.get("level")),
        "script": text(script),
        "command": text(command),
        "host": text(facts.get("host")),
        "pid": number("pid"),
        "world_size": number("world_size"),
        "begin_at": number("clock_base"),
        "ending": text(facts.get("exit")),
        "closed": integers(np.array([not trace.truncated])),
        "steps": integers(np.array([steps])),
        "commit": text(commit),
        "trace": text(trace.file_name),
        "facts": text(orjson.dumps(facts, default=str).decode()),
    }
