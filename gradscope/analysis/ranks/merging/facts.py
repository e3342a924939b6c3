"""The rows of `meta` for a run of several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import orjson

from gradscope.analysis.ranks.merging.clocks import Clocks
from gradscope.trace.schema import Device, Meta, String
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

LEVELS = ("graph", "engine", "values", "full")
OF_ONE = ("rank", "host", "pid", "exit", "exit_code")
COUNTED = ("dropped", "unwanted", "unseen", "own_time")


def facts_of_all(
    traces: Sequence[Trace], ids: Sequence[Mapping[str, tuple[int, int]]], time: Clocks
) -> dict[str, Any]:
    """The facts that apply to all ranks, and under `ranks` those of each, with its ids."""
    facts = {key: value for key, value in traces[0].meta.items() if key not in OF_ONE}
    facts["clock_base"], facts["clock"] = time.base, time.words
    facts["ranks"] = [
        {
            "rank": 0,
            **{key: trace.meta[key] for key in (*OF_ONE, "clock_base") if key in trace.meta},
            **({"cut_off": True, "lost": trace.lost} if trace.truncated else {}),
            "ids": of_rank,
        }
        for trace, of_rank in zip(traces, ids, strict=True)
    ]
    metas = [trace.meta for trace in traces]
    facts |= _lists(metas) | _counts(metas) | _endings(metas)
    return facts


def _lists(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all ranks observed, what some inferred, and what some lack; the lowest level."""
    named = {
        kind: [{*meta[kind]} for meta in metas if kind in meta]
        for kind in ("observed", "inferred", "absent")
    }
    absent = set().union(*named["absent"])
    found: dict[str, Any] = {}
    if named["observed"]:
        found["observed"] = sorted(set.intersection(*named["observed"]) - absent)
    if named["inferred"]:
        found["inferred"] = sorted(set().union(*named["inferred"]) - absent)
    if named["absent"]:
        found["absent"] = sorted(absent)
    levels = [meta["level"] for meta in metas if meta.get("level") in LEVELS]
    return found | ({"level": min(levels, key=LEVELS.index)} if levels else {})


def _counts(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in COUNTED:
        total: Counter[str] = Counter()
        for meta in metas:
            total.update(meta.get(key, {}))
        if total:
            found[key] = dict(sorted(total.items()))
    children = [each for meta in metas for each in meta.get("children", ())]
    unfinished = sum(meta.get("unfinished", 0) for meta in metas)
    return (
        found
        | ({"children": children} if children else {})
        | ({"unfinished": unfinished} if unfinished else {})
    )


def _endings(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How the run ended, if all ranks have that: `ok`, or the ending of the first that failed."""
    if not all("exit" in meta for meta in metas):
        return {}
    bad = [meta for meta in metas if meta["exit"] != "ok"]
    code = max((meta.get("exit_code", 0) for meta in metas), default=0)
    shown = f"rank {bad[0].get('rank', 0)}: {bad[0]['exit']}" if bad else "ok"
    return {"exit": shown, "exit_code": code}


def shared_rows(
    texts: dict[str, int], devices: Sequence[str], facts: Mapping[str, Any]
) -> Iterator[Block]:
    """The rows of texts, devices (numbered in order) and `meta`; new texts get ids."""
    named = _ids(texts, devices)
    meta = meta_rows(texts, facts)
    yield text_rows(texts)
    if devices:
        yield _block(Device.TABLE, id=[*range(len(devices))], name=named)
    yield meta


def meta_rows(texts: dict[str, int], facts: Mapping[str, Any]) -> Block:
    """The rows of `meta`; new texts get ids."""
    keys = _ids(texts, facts)
    values = _ids(texts, [orjson.dumps(value).decode() for value in facts.values()])
    return _block(Meta.TABLE, key=keys, value=values)


def text_rows(texts: Mapping[str, int]) -> Block:
    """The rows of texts."""
    kept = {id: text for text, id in texts.items() if id}
    return _block(String.TABLE, id=[*kept], text=[*kept.values()])


def _ids(texts: dict[str, int], wanted: Iterable[str]) -> list[int]:
    """The ids of these texts; new ones follow the largest."""
    known = [*wanted]
    new = [text for text in dict.fromkeys(known) if text not in texts]
    if new:
        texts.update(zip(new, count(max(texts.values(), default=0) + 1)))
    return [texts[text] for text in known]


def _block(table: str, **columns: Sequence[Any]) -> Block:
    made = {
        name: np.array(cells, object if name == "text" else np.int64)
        for name, cells in columns.items()
    }
    return Block(table, len(next(iter(made.values()))), made)
