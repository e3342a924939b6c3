"""The blocks of a graph: ranks, steps, calls of modules, loops, iterations, double backwards.

Each block is a contiguous range of nodes in the order of their creation, so that folding one into a
box never creates a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.graph.repeats import Repeat, repeats
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.modules import module_names, parts_of
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Module
from gradscope.trace.trace import Trace

FEWEST_PARTS = 9
"""Least number of repeated parts that are drawn as a loop."""
LONGEST = 40
"""A block with more parts than this is cut into ranges."""
STRETCHES = 12
MOST_TURNS = 6
"""Number of iterations that are shown separately when a loop is opened."""


class MadeBy(Enum):
    """What created the nodes of a block."""

    WHOLE = "the program"
    RANK = "a process of a merged trace"
    STEP = "a step"
    BACKWARD = "a backward with create_graph=True"
    CALL = "a call of a module"
    LOOP = "a loop"
    TURN = "one iteration of a loop"
    TURNS = "iterations of a loop that are not shown separately"
    STRETCH = "a range of the parts of a block that has too many"


@dataclass(slots=True, eq=False)
class NodeBlock:
    """Nodes that are drawn as one box, or as a frame with its contents."""

    id: str
    made: MadeBy
    parent: NodeBlock | None
    first: int  # among the nodes in the order of creation, without leaves next to them
    end: int
    path: str = ""  # of a module
    number: int = 0  # of a rank, step, backward or turn; of a call, among those of its module;
    # of a range, that of its first part
    rank: int = NONE  # in a merged trace
    step: int = NONE  # the number of its step, if steps are distinguished
    turn: int = 0  # the iteration of the surrounding loop that contains it; from 1
    count: int = 1  # of iterations; of the parts of a range
    period: int = 0  # number of parts of an iteration; or of all parts of a range's block
    parts: list[Part] = field(default_factory=list)  # of a loop, those of all iterations


Part = int | NodeBlock
"""A node, by its place in the order of creation, or a block."""


@dataclass(frozen=True, slots=True)
class ShownTurns:
    """Which iterations of loops to show: the slowest, and those with nodes to be seen."""

    spent: Ids  # the own time of all nodes before each node
    seen: Ids  # the number of nodes to be seen before each node


class Outline:
    """All blocks of a graph. Blocks of iterations are created on demand."""

    def __init__(
        self, trace: Trace, columns: GraphColumns, *, loops: bool, steps: bool = False
    ) -> None:
        self.order: Ids = np.flatnonzero(~columns.beside)
        if len(distinct(columns.whose)) > 1:  # no edge leads from one rank to another
            self.order = self.order[np.argsort(columns.whose[self.order], kind="stable")]
        names = module_names(trace)
        self.types = {
            names[each.id]: each.type if each.path or each.name else "model"
            for each in trace.rows(Module)
        }
        self._loops = loops
        self._steps = steps
        self._keys = _node_keys(trace, columns, self.order)
        self._known: dict[tuple[str | int, ...], int] = {}
        self._shown: dict[NodeBlock, list[Part]] = {}
        self._key_of: dict[NodeBlock, int] = {}
        self._backwards: Counter[int] = Counter()  # by number: how many blocks it created
        self._calls: Counter[tuple[int, int, str]] = Counter()  # by rank, step and module
        self.whole = NodeBlock("", MadeBy.WHOLE, None, 0, len(self.order))
        numbers = (
            step_numbers(trace) if steps and len(distinct(columns.step[self.order])) > 1 else {}
        )
        self._split(columns, {NONE: "", **names}, numbers)
        self._find_loops(self.whole)

    # Steps and calls -----------------------------------------------------------------------------

    def _split(
        self, columns: GraphColumns, names: dict[int, str], steps: Mapping[int, int]
    ) -> None:
        """Assign nodes to calls of modules; a call is a contiguous range of nodes."""
        named = (columns.step, columns.whose, columns.made_in, columns.module)
        of = [column[self.order] for column in named]
        changes = np.zeros(max(len(self.order) - 1, 0), bool)
        for column in of if steps else of[1:]:
            changes |= column[1:] != column[:-1]
        starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
        around: list[NodeBlock] = [self.whole]
        for first, end in zip(starts, [*starts[1:], len(self.order)], strict=True):
            if first == end:  # no node at all
                return
            step, rank, backward, module = (int(column[first]) for column in of)
            chain: list[tuple[MadeBy, int | str]] = []
            if rank != NONE:
                chain.append((MadeBy.RANK, rank))
            if step in steps:
                chain.append((MadeBy.STEP, steps[step]))
            if backward != NONE:
                chain.append((MadeBy.BACKWARD, backward))
            chain += [(MadeBy.CALL, path) for path in parts_of(names.get(module, ""))]
            self._enter(around, chain, first)
            around[-1].parts.extend(range(first, end))
            for block in around:
                block.end = end

    def _enter(
        self, around: list[NodeBlock], chain: list[tuple[MadeBy, int | str]], first: int
    ) -> None:
        """Close the blocks that are not in the chain, and open the missing ones."""
        depth = 1
        for made, name in chain:
            if depth < len(around) and (around[depth].made, _name_of(around[depth])) == (
                made,
                name,
            ):
                depth += 1
                continue
            del around[depth:]
            around.append(self._begun(around[-1], made, name, first))
            depth += 1
        del around[depth:]

    def _begun(self, parent: NodeBlock, made: MadeBy, name: int | str, first: int) -> NodeBlock:
        step = name if made is MadeBy.STEP else parent.step
        rank = name if made is MadeBy.RANK else parent.rank
        assert isinstance(step, int)
        assert isinstance(rank, int)
        if isinstance(name, str):
            call = rank, step, name
            self._calls[call] += 1
            number, path, id = self._calls[call], name, f"{name}/{self._calls[call]}"
            if step != NONE:
                id = f"step{step}/{id}"
        elif made is MadeBy.BACKWARD:
            self._backwards[name] += 1
            number, path, again = name, "", self._backwards[name]
            id = f"backward{name}" + f"/{again}" * (again > 1)
        else:
            number, path, id = name, "", f"{made.name.lower()}{name}"
        if parent.rank != NONE:
            id = f"rank{rank}/{id}"
        block = NodeBlock(id, made, parent, first, first, path, number, rank, step)
        parent.parts.append(block)
        return block

    def calls(self, block: NodeBlock) -> int:
        """The number of calls of the module, in the same step if steps are distinguished."""
        return self._calls[block.rank, block.step, block.path]

    # Loops ---------------------------------------------------------------------------------------

    def _find_loops(self, block: NodeBlock) -> int:
        """Find loops in a block and in its parts. Returns the key of its shape."""
        for part in block.parts:
            if isinstance(part, NodeBlock):
                self._key_of[part] = self._find_loops(part)
        if self._loops:
            self._fold_loops(block)
        shape = (block.made.value, self.types.get(block.path, ""), *self._keys_of(block.parts))
        return self._key(shape)

    def _fold_loops(self, block: NodeBlock) -> None:
        """Create loops of repeated parts, and loops of repeated loops."""
        while len(block.parts) >= FEWEST_PARTS and (
            found := [
                each
                for each in repeats(self._keys_of(block.parts))
                if each.count * each.period >= FEWEST_PARTS
            ]
        ):
            parts: list[Part] = []
            end = 0
            for each in found:
                parts += block.parts[end : each.first]
                parts.append(self._loop(block, each))
                end = each.end
            block.parts = [*parts, *block.parts[end:]]

    def _loop(self, block: NodeBlock, found: Repeat) -> NodeBlock:
        parts = block.parts[found.first : found.end]
        first, end = _first(parts[0]), _end(parts[-1])
        id = f"{block.id}×{found.count}@{first}"
        loop = NodeBlock(id, MadeBy.LOOP, block, first, end, count=found.count, period=found.period)
        loop.parts, loop.rank, loop.step = parts, block.rank, block.step
        for at, part in enumerate(parts):
            if isinstance(part, NodeBlock):
                part.parent, part.turn = loop, 1 + at // found.period
        turn = self._keys_of(parts[: found.period])
        self._key_of[loop] = self._key(("loop", found.count, *turn.tolist()))
        return loop

    def _keys_of(self, parts: Sequence[Part]) -> Ids:
        keys = self._keys
        found = [keys[part] if isinstance(part, int) else self._key_of[part] for part in parts]
        return np.array(found, np.int64)

    def _key(self, shape: tuple[str | int, ...]) -> int:
        return -1 - self._known.setdefault(shape, len(self._known))

    # Inside --------------------------------------------------------------------------------------

    def inside(self, block: NodeBlock, wanted: ShownTurns) -> list[Part]:
        """The parts of an opened block; for a loop the first, slowest and last iteration, the rest.

        Iterations with nodes to be seen are shown too.
        """
        if block not in self._shown:
            is_loop = block.made is MadeBy.LOOP
            parts = list(self._chosen(block, wanted)) if is_loop else block.parts
            self._shown[block] = list(self._stretches(block, parts))
        return self._shown[block]

    def _stretches(self, block: NodeBlock, parts: list[Part]) -> Iterable[Part]:
        """The parts, or ranges of them if there are too many; ranges are cut again when opened.

        Where steps are not distinguished, only for blocks: nodes are selected separately.
        """
        total = len(parts)
        of_blocks = all(isinstance(part, NodeBlock) for part in parts)
        if total <= LONGEST or not self._loops or not (of_blocks or self._steps):
            return parts
        is_stretch = block.made is MadeBy.STRETCH
        before, whole = (block.number - 1, block.period) if is_stretch else (0, total)
        return [
            self._stretch(block, parts[at : at + size], before + at + 1, whole)
            for size in (stretch_size(total),)
            for at in range(0, total, size)
        ]

    def _stretch(self, block: NodeBlock, parts: list[Part], number: int, total: int) -> NodeBlock:
        stretch = NodeBlock(
            f"{block.id}…{number}", MadeBy.STRETCH, block, _first(parts[0]), _end(parts[-1]),
            number=number, count=len(parts), period=total, parts=parts, rank=block.rank,
            step=block.step,
        )  # fmt: skip
        for part in parts:
            if isinstance(part, NodeBlock):
                part.parent = stretch
        return stretch

    def _chosen(self, loop: NodeBlock, wanted: ShownTurns) -> Iterable[Part]:
        starts = turn_starts(loop)
        seen = np.flatnonzero(np.diff(wanted.seen[starts]))
        chosen = [0, loop.count - 1, *slowest_turn(loop, wanted.spent), *seen.tolist()]
        shown = sorted(dict.fromkeys(chosen[:MOST_TURNS]))
        before = 0
        for turn in [*shown, loop.count]:
            if turn - before == 1:
                yield self.turn(loop, before)
            elif turn > before:
                yield self.turns(loop, before, turn)
            if turn < loop.count:
                yield self.turn(loop, turn)
            before = turn + 1

    def turn(self, loop: NodeBlock, turn: int) -> Part:
        """One iteration of a loop, counted from 0: a block, or its only part."""
        parts = loop.parts[turn * loop.period : (turn + 1) * loop.period]
        if loop.period == 1:
            return parts[0]
        first, end = _first(parts[0]), _end(parts[-1])
        block = NodeBlock(f"{loop.id}[{turn + 1}]", MadeBy.TURN, loop, first, end, number=turn + 1)
        block.parts, block.turn = parts, turn + 1
        block.rank, block.step = loop.rank, loop.step
        for part in parts:
            if isinstance(part, NodeBlock):
                part.parent = block
        self._fold_loops(block)
        return block

    def turns(self, loop: NodeBlock, begin: int, end: int) -> NodeBlock:
        """Several iterations of a loop as one block."""
        parts = loop.parts[begin * loop.period : end * loop.period]
        first, last = _first(parts[0]), _end(parts[-1])
        id = f"{loop.id}[{begin + 1}-{end}]"
        return NodeBlock(
            id, MadeBy.TURNS, loop, first, last, number=begin + 1, count=end - begin,
            period=loop.period,
        )  # fmt: skip


def stretch_size(length: int) -> int:
    """The length of a range such that there are not too many at any depth."""
    size = 1
    while size * STRETCHES < length:
        size *= STRETCHES
    return size


def turn_starts(loop: NodeBlock) -> Ids:
    """The start of each iteration of a loop, and the end of the last one."""
    starts = [_first(part) for part in loop.parts[:: loop.period]]
    return np.array([*starts, loop.end], np.int64)


def slowest_turn(loop: NodeBlock, spent: Ids) -> list[int]:
    """The slowest iteration, counted from 0; none if no time is known."""
    took = np.diff(spent[turn_starts(loop)])
    return [int(np.argmax(took))] if took.any() else []


def before(numbers: np.ndarray) -> Ids:
    """For each place, the sum of all numbers before it; finally the total."""
    return np.concatenate(([0], np.cumsum(numbers, dtype=np.int64)))


def _name_of(block: NodeBlock) -> int | str:
    return block.path if block.made is MadeBy.CALL else block.number


def _first(part: Part) -> int:
    return part if isinstance(part, int) else part.first


def _end(part: Part) -> int:
    return part + 1 if isinstance(part, int) else part.end


def _node_keys(trace: Trace, columns: GraphColumns, order: Ids) -> Ids:
    """A number for each pair of a name and a stack; ranks of a merged trace share these."""
    names, stacks = (
        np.unique(column[order], return_inverse=True)[1].astype(np.int64)
        for column in (columns.name, columns.stack)
    )
    if len(distinct(columns.whose)) > 1:
        known: dict[tuple[tuple[str, int], ...], int] = {}
        lines = [
            tuple((frame.file, frame.line) for frame in trace.frames(stack))
            for stack in distinct(columns.stack[order]).tolist()
        ]
        stacks = np.array([known.setdefault(each, len(known)) for each in lines], np.int64)[stacks]
    return names * (int(stacks.max(initial=0)) + 1) + stacks
