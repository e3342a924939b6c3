"""A fleet with planted faults, of any number of ranks and steps, written as Parquet.

The rows of one training step of a small model are made once, and repeated for each rank and step
with other numbers. Each rank writes the same tables as `gradscope export`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradscope.fleet import manifest as manifests, places
from gradscope.fleet.manifest import FileFacts, FleetPart, Manifest
from gradscope.fleet.tables import INTEGER, REAL, TABLES, TEXT, YES

KINDS = {INTEGER: pa.int64(), REAL: pa.float64(), YES: pa.bool_(), TEXT: pa.string()}
MS = 1_000_000
STEP_NS = 10 * MS
BEGAN = 1_700_000_000_000_000_000
FILE, FUNCTION = "train.py", "forward"


@dataclass(frozen=True)
class Planted:
    """The size of a run, and what is wrong in it."""

    ranks: int = 4
    steps: int = 12
    layers: int = 3
    events: int = 2  # events for each node, besides those of leaves
    run: str = "base"
    seed: int = 0
    steps_per_file: int = 1_000
    nan: tuple[int, int, int] | None = None  # rank, step, layer: the layer's first value is NaN
    slow: tuple[int, float] | None = None  # rank, how many times slower
    drift: tuple[int, int, int] | None = None  # rank, step, layer: its weight differs from then on
    own_gradient: tuple[int, int, int] | None = None  # likewise, the gradient
    odd: tuple[int, int] | None = None  # rank, step: calls broadcast instead of all_reduce
    spike: int | None = None  # step in which the loss is 50 times larger
    unused: tuple[int, int] | None = None  # rank, layer: gets no gradient
    values: bool = True  # False: as recorded at level `engine`
    slower_line: float = 1.0  # factor of the time of layer 0
    finding: str = ""  # a finding of rank 0


def write(root: Path, planted: Planted) -> int:
    """Write all tables of a run; the number of rows."""
    return sum(write_rank(root, planted, rank) for rank in range(planted.ranks))


def line_of(layer: int) -> int:
    """The hash of a layer's line."""
    return 1_000_003 * (layer + 1)


def write_rank(root: Path, planted: Planted, rank: int) -> int:
    """Write all tables of one rank; the number of rows."""
    parts: list[FleetPart] = []
    for first in range(0, planted.steps, planted.steps_per_file):
        steps = np.arange(first, min(first + planted.steps_per_file, planted.steps))
        tables = OneRank(planted, rank, steps).by_step()
        name = places.part_name(first)
        files = {table: _put(root, planted.run, rank, table, each, name) for table, each in tables}
        parts.append(FleetPart(first, int(steps[-1]), len(steps), files))
    once = {
        table: _put(root, planted.run, rank, table, each, places.ALL)
        for table, each in _once(planted, rank)
    }
    manifest = Manifest(planted.run, rank, "planted", "planted", {}, tuple(parts), once)
    manifests.write(root, manifest)
    return manifest.rows


def _put(
    root: Path, run: str, rank: int, name: str, columns: Mapping[str, Any], file: str
) -> FileFacts:
    declared = TABLES[name].columns
    many = len(next(iter(columns.values())))
    assert {*columns} <= {each.name for each in declared}, name
    table = pa.table({
        each.name: _column(columns.get(each.name), KINDS[each.type], many) for each in declared
    })  # fmt: skip
    path = places.rank_folder(root, name, run, rank) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = {INTEGER: "DELTA_BINARY_PACKED", REAL: "BYTE_STREAM_SPLIT"}
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=[each.name for each in declared if each.type == TEXT],
        column_encoding={e.name: packed[e.type] for e in declared if e.type in packed},
        row_group_size=122_880,
        store_schema=False,
    )
    return FileFacts(many, path.stat().st_size, "planted", _first_bad(name, columns))


def _first_bad(name: str, columns: Mapping[str, Any]) -> dict[str, int | None] | None:
    """What an export lists: no planted value is a copy, and all are in steps."""
    if name not in {"value", "grad"}:
        return None
    found: dict[str, int | None] = {}
    for kind in ("bad", "nan"):
        bad = columns.get(kind)
        steps = columns["step"][:0] if bad is None else columns["step"][bad > 0]
        found[kind] = int(steps.min()) if len(steps) else None
    return found


def _column(values: Any, kind: pa.DataType, many: int) -> pa.Array:
    if values is None:
        return pa.nulls(many, kind)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind) if not isinstance(values, pa.DictionaryArray) else values
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(values, kind, mask=np.isnan(values))
    return pa.array(values, kind)


class OneRank:
    """The rows of some steps of a rank: arrays of (steps, rows of a step), flattened."""

    def __init__(self, planted: Planted, rank: int, steps: np.ndarray) -> None:
        self._p, self._rank, self._steps = planted, rank, steps
        self._random = np.random.default_rng((planted.seed, rank, int(steps[0])))
        self._layers = np.arange(planted.layers)
        self._hashes = np.array([line_of(each) for each in self._layers])
        self._factor = planted.slow[1] if planted.slow and planted.slow[0] == rank else 1.0
        self._begin = BEGAN + steps * STEP_NS * 4
        self._bad = _bad_from(planted, rank, steps)

    def by_step(self) -> list[tuple[str, dict[str, Any]]]:
        found = [
            ("step", self._step()), ("grad", self._grad()), ("event", self._event()),
            ("node", self._node()), ("op", self._op()), ("saved", self._saved()),
            ("collective", self._collective()), ("act", self._act()),
        ]  # fmt: skip
        return [*found, ("value", self._value())] if self._p.values else found

    def _keys(self, many: int) -> dict[str, np.ndarray]:
        steps = len(self._steps)
        return {"step": np.repeat(self._steps, many), "k": np.tile(np.arange(many), steps)}

    def _each(self, values: Any) -> np.ndarray:
        """Values of the rows of one step, for all steps."""
        return np.tile(np.asarray(values), len(self._steps))

    def _text(self, values: list[str | None]) -> pa.DictionaryArray:
        """Likewise, for text."""
        names = [*dict.fromkeys(each for each in values if each is not None)]
        place = {name: at for at, name in enumerate(names)}
        codes = self._each([-1 if each is None else place[each] for each in values])
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32(), mask=codes < 0), pa.array(names, pa.string())
        )

    def _parameters(self) -> list[str]:
        return [f"layers.{each}.weight" for each in self._layers]

    def _layer_ns(self) -> np.ndarray:
        ns = np.full(len(self._layers), MS, np.float64)
        ns[0] *= self._p.slower_line * self._factor
        return ns

    def _step(self) -> dict[str, Any]:
        many, p = len(self._steps), self._p
        loss = 2.0 * np.exp(-self._steps / 400) + self._random.normal(0, 0.01, many)
        if p.spike is not None:
            loss[self._steps == p.spike] *= 50 if self._rank == p.ranks - 1 else 5
        loss[self._bad < len(self._layers)] = np.inf
        own = self._layer_ns().sum()
        slowest = MS * (len(self._layers) - 1 + p.slower_line * (p.slow[1] if p.slow else 1.0))
        wait = 2 * (slowest - own) + MS / 10  # forward and backward of the slowest rank
        duration = np.full(many, own * 2 + wait) + self._random.integers(0, MS // 20, many)
        return {
            **self._keys(1), "begin_at": self._begin,
            "end_at": self._begin + duration.astype(np.int64),
            "duration_ns": duration.astype(np.int64),
            "forward_ns": np.full(many, int(own)), "backward_ns": np.full(many, int(own)),
            "optimizer_ns": np.full(many, MS // 10), "collective_ns": np.full(many, int(wait)),
            "loss": pa.array(loss) if p.values else None, "lr": np.full(many, 0.01),
            "backwards": np.ones(many, np.int64), "ops": np.full(many, len(self._layers)),
            "nodes": np.full(many, len(self._layers)), "recorded": np.ones(many, bool),
            "finished": np.ones(many, bool),
        }  # fmt: skip

    def _grad(self) -> dict[str, Any]:
        p, many = self._p, len(self._layers)
        shape = len(self._steps), many
        alike = np.random.default_rng((p.seed, int(self._steps[0])))
        norm = alike.uniform(0.5, 1.5, shape)
        weight_hash = alike.integers(1, 1 << 60, shape)
        weight = 10.0 + self._steps[:, None] / 1_000 + np.zeros(shape)
        if p.spike is not None:
            norm[self._steps == p.spike, -1] *= 40
        if p.drift and p.drift[0] == self._rank:
            weight_hash[self._steps >= p.drift[1], p.drift[2]] += 1
            weight[self._steps >= p.drift[1], p.drift[2]] += 0.25
        if p.own_gradient and p.own_gradient[0] == self._rank:
            norm[self._steps >= p.own_gradient[1], p.own_gradient[2]] *= 1.5
        missing = np.zeros(shape, bool)
        if p.unused and p.unused[0] == self._rank:
            missing[:, p.unused[1]] = True
        norm[missing] = np.nan
        bad = (self._layers[None, :] <= self._reached()[:, None]).astype(np.int64)
        return {
            **self._keys(many), "parameter": self._text([*self._parameters()]),
            "optimizer": self._each([0] * many), "missing": missing.ravel(),
            "norm": norm.ravel(), "count": self._each([64] * many) if p.values else None,
            "bad": bad.ravel() if p.values else None, "nan": bad.ravel() if p.values else None,
            "weight_norm": weight.ravel(), "weight_hash": weight_hash.ravel(),
            "update_norm": (norm * 0.01).ravel(),
            "happened_at": np.repeat(self._begin + 9 * MS, many),
            "line_hash": self._each([line_of(90)] * many),
        }  # fmt: skip

    def _reached(self) -> np.ndarray:
        """The last layer whose gradient has NaN after the average over ranks; -1: none."""
        p = self._p
        if p.nan is None:
            return np.full(len(self._steps), -1)
        return np.where(self._steps >= p.nan[1], len(self._layers), -1)

    def _value(self) -> dict[str, Any]:
        many = len(self._layers)
        layer = np.concatenate([self._layers, self._layers[::-1]])
        place = ["op_output"] * many + ["node_output"] * many
        name = ["addmm"] * many + ["AddmmBackward0"] * many
        order = np.arange(2 * many)
        bad = (order[None, :] >= self._bad[:, None]).astype(np.int64).ravel()
        shape = len(self._steps) * 2 * many
        rms = self._random.uniform(0.9, 1.1, shape)
        parameter = [None] * many + [self._parameters()[each] for each in layer[many:]]
        return {
            **self._keys(2 * many), "place": self._text([*place]), "name": self._text([*name]),
            "index": self._each([0] * 2 * many), "op": self._each(layer), "node": self._each(layer),
            "module": self._text([f"layers.{each}" for each in layer]),
            "parameter": self._text(parameter), "line_hash": self._each(self._hashes[layer]),
            "happened_at": np.repeat(self._begin, 2 * many) + self._each(order * MS // 4),
            "count": self._each([64] * 2 * many), "bad": bad, "nan": bad,
            "posinf": np.zeros(shape, np.int64), "neginf": np.zeros(shape, np.int64),
            "zero": np.zeros(shape, np.int64), "min": -rms * 3, "max": rms * 3, "mean": rms / 10,
            "rms": rms, "norm": rms * 8,
            "first_bad": pa.array(np.zeros(shape, np.int64), mask=bad == 0),
        }  # fmt: skip

    def _event(self) -> dict[str, Any]:
        p = self._p
        used = [each for each in self._layers if p.unused != (self._rank, each)]
        each = p.events + 1
        layer = np.repeat(used, each)
        kind = (["push", "pop", "node_begin", "node_end"] * each)[: p.events]
        kinds = ["task_begin", *((*kind, "accumulate") * len(used))]
        leaf = [self._parameters()[at] if kind == "accumulate" else None
                for at, kind in zip(layer, kinds[1:], strict=True)]  # fmt: skip
        many = len(kinds)
        return {
            **self._keys(many), "seq": np.arange(many * len(self._steps)),
            "kind": self._text(kinds),
            "happened_at": np.repeat(self._begin, many) + self._each(range(many)),
            "thread": self._each([0] * many), "task": np.repeat(self._steps, many),
            "node": self._each([-1, *layer]), "parameter": self._text([None, *leaf]),
            "line_hash": self._each([line_of(91), *self._hashes[layer]]),
        }  # fmt: skip

    def _node(self) -> dict[str, Any]:
        many = len(self._layers)
        ns = self._layer_ns().astype(np.int64)
        return {
            **self._keys(many), "id": np.arange(many * len(self._steps)),
            "name": self._text(["AddmmBackward0"] * many),
            "module": self._text([f"layers.{each}" for each in self._layers]),
            "line_hash": self._each(self._hashes), "happened_at": np.repeat(self._begin, many),
            "runs": self._each([1] * many), "backward_ns": self._each(ns),
        }  # fmt: skip

    def _op(self) -> dict[str, Any]:
        many, ns = len(self._layers), self._layer_ns().astype(np.int64)
        begin = np.concatenate([[0], np.cumsum(ns)[:-1]])
        noise = self._random.integers(0, MS // 50, many * len(self._steps))
        begin_at = np.repeat(self._begin, many) + self._each(begin)
        return {
            **self._keys(many), "id": np.arange(many * len(self._steps)),
            "name": self._text(["addmm"] * many), "part": self._text(["forward"] * many),
            "begin_at": begin_at, "end_at": begin_at + self._each(ns) - noise,
            "ns": self._each(ns) - noise, "self_ns": self._each(ns) - noise,
            "dtype": self._text(["float32"] * many), "shape": self._text(["[8, 8]"] * many),
            "bytes": self._each([256] * many),
            "module": self._text([f"layers.{each}" for each in self._layers]),
            "line_hash": self._each(self._hashes), "thread": self._each([0] * many),
        }  # fmt: skip

    def _saved(self) -> dict[str, Any]:
        many = len(self._layers)
        at = np.repeat(self._begin, many) + self._each(self._layers * MS)
        ids = np.arange(many * len(self._steps)) + int(self._steps[0]) * many
        return {
            **self._keys(many), "id": ids, "node": ids, "storage": ids,
            "name": self._text(["AddmmBackward0"] * many), "slot": self._text(["mat1"] * many),
            "tensor": ids, "leaf": np.zeros(many * len(self._steps), bool),
            "bytes": self._each((self._layers + 1) << 20), "saved_at": at,
            "released_at": np.repeat(self._begin + 20 * MS, many),
            "line_hash": self._each(self._hashes),
        }  # fmt: skip

    def _collective(self) -> dict[str, Any]:
        p, many = self._p, 2
        names = np.array([["all_reduce", "all_reduce"]] * len(self._steps), object)
        if p.odd and p.odd[0] == self._rank:
            names[self._steps == p.odd[1], 1] = "broadcast"
        alike = np.random.default_rng((p.seed, 7, int(self._steps[0])))
        size = many * len(self._steps)
        after, flat = alike.integers(1, 1 << 60, size), names.ravel()
        late = int(self._layer_ns().sum()) - MS * len(self._layers)
        begin_at = np.repeat(self._begin, many) + self._each([5 * MS, 6 * MS]) + late
        reached = np.repeat(self._reached() >= 0, many).astype(np.int64)
        return {
            **self._keys(many), "span": np.arange(size), "name": pa.array([*flat]),
            "asynchronous": np.zeros(size, bool), "waits": np.ones(size, bool),
            "kind": self._text(["other"] * many),
            "nth": np.arange(size) + int(self._steps[0]) * many,
            "group_name": self._text(["default_pg"] * many),
            "group_ranks": self._text([json.dumps([*range(p.ranks)])] * many),
            "reduces": self._text(["sum"] * many), "shape": self._text(["[64]"] * many),
            "dtype": self._text(["float32"] * many), "begin_at": begin_at,
            "end_at": begin_at + MS // 2, "ns": self._each([MS // 2] * many),
            "bad_after": reached if p.values else None,
            "hash_before": self._random.integers(1, 1 << 60, size) if p.values else None,
            "hash_after": after if p.values else None,
            "line_hash": self._each([line_of(92), line_of(93)]),
        }  # fmt: skip

    def _act(self) -> dict[str, Any]:
        p, many = self._p, len(self._steps)
        samples = [
            json.dumps({"samples": [int(step) * p.ranks + self._rank], "many": 1})
            for step in self._steps
        ]
        return {
            **self._keys(1), "id": np.arange(many), "kind": self._text(["batch"]),
            "happened_at": self._begin, "facts": pa.array(samples),
            "line_hash": self._each([line_of(94)]),
        }  # fmt: skip


def _bad_from(planted: Planted, rank: int, steps: np.ndarray) -> np.ndarray:
    """The first place in each step whose value is NaN; past the last: none."""
    none = 2 * planted.layers
    if planted.nan is None:
        return np.full(len(steps), none)
    who, when, layer = planted.nan
    first = np.where(steps > when, 0, none)  # the averaged gradient has reached all ranks
    return np.where((steps == when) & (rank == who), layer, first)


def _once(planted: Planted, rank: int) -> list[tuple[str, dict[str, Any]]]:
    layers = range(planted.layers)
    special = (90, "optimizer.step()"), (91, "loss.backward()"), (92, "dist.all_reduce(a)"), (
        93, "dist.all_reduce(b)"), (94, "for x in loader:")  # fmt: skip
    lines = [(each, f"x = self.layers[{each}](x)") for each in layers] + [*special]
    found: list[tuple[str, dict[str, Any]]] = [
        ("line", {
            "line_hash": [line_of(at) for at, _ in lines], "file": [FILE] * len(lines),
            "function": [FUNCTION] * len(lines), "text": [text for _, text in lines],
            "line": [10 + at for at, _ in lines],
        }),
        ("parameter", {
            "k": [*layers], "parameter": [f"layers.{each}.weight" for each in layers],
            "elements": [64 for _ in layers],
        }),
        ("module", {"k": [*layers], "module": [f"layers.{each}" for each in layers]}),
        ("meta", {
            "level": ["values" if planted.values else "engine"], "world_size": [planted.ranks],
            "begin_at": [BEGAN + planted.seed], "ending": ["ok"], "steps": [planted.steps],
            "trace": [f"{planted.run}.rank{rank}.json"], "closed": [True],
        }),
    ]  # fmt: skip
    if planted.finding and rank == 0:
        found.append(("finding", {
            "k": [0], "rule": [planted.finding], "slug": ["some-rule"], "severity": ["warning"],
            "message": ["something"], "place": ["train.py:10"], "line_hash": [line_of(0)],
            "finding_id": [planted.finding], "step": [3],
        }))  # fmt: skip
    return found
