"""What a graph is made of: calls of modules, loops and their turns, what a double backward made.

Each of these blocks is an unbroken run of nodes in the order in which they were made, so that
folding one into a box never makes a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.graph.repeats import Repeat, repeats
from gradscope.analysis.program.modules import module_names, parts_of
from gradscope.trace.schema import NONE, Module
from gradscope.trace.trace import Trace

FEWEST_PARTS = 9
"""What repeats in fewer parts than these is drawn part by part."""
MOST_TURNS = 6
"""So many turns of a loop are shown one by one, when it is opened."""


class Made(Enum):
    """What made the nodes of a block."""

    WHOLE = "the program"
    BACKWARD = "a backward with create_graph=True"
    CALL = "a call of a module"
    LOOP = "a loop"
    TURN = "one turn of a loop"
    TURNS = "turns of a loop that are not shown one by one"


@dataclass(slots=True, eq=False)
class Block:
    """Nodes that can stand as one box, or as a frame with what is in it."""

    id: str
    made: Made
    parent: Block | None
    first: int  # among the nodes in the order in which they were made, without leaves beside them
    end: int
    path: str = ""  # of a module
    number: int = 0  # of a call, among those of its module; of a backward or a turn; all from 1
    count: int = 1  # of turns
    period: int = 0  # how many parts a turn has
    parts: list[Part] = field(default_factory=list)  # of a loop, those of all its turns


Part = int | Block
"""A node, by its place in the order in which they were made, or a block."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show of loops: their slowest turns, and those in which something is to be seen."""

    spent: Ids  # the own time of all nodes before each
    seen: Ids  # how many nodes to be seen stand before each


class Outline:
    """All blocks of a graph. Turns of loops are made when they are asked for."""

    def __init__(self, trace: Trace, columns: GraphColumns, *, loops: bool) -> None:
        self.order: Ids = np.flatnonzero(~columns.beside)
        names = module_names(trace)
        self.types = {
            names[each.id]: each.type if each.path else "model" for each in trace.rows(Module)
        }
        self._loops = loops
        self._keys = _node_keys(columns, self.order)
        self._known: dict[tuple[str | int, ...], int] = {}
        self._turns: dict[Block, list[Part]] = {}
        self._key_of: dict[Block, int] = {}
        self.calls: Counter[str] = Counter()  # of each module
        self.whole = Block("", Made.WHOLE, None, 0, len(self.order))
        modules = columns.module[self.order]
        self._split(modules, columns.made_in[self.order], {NONE: "", **names})
        self._find_loops(self.whole)

    # Calls ---------------------------------------------------------------------------------------

    def _split(self, modules: Ids, made_in: Ids, names: dict[int, str]) -> None:
        """Put nodes into the calls of modules; a call goes on as long as its nodes follow on."""
        changes = (modules[1:] != modules[:-1]) | (made_in[1:] != made_in[:-1])
        starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
        backwards: Counter[int] = Counter()
        around: list[Block] = [self.whole]
        for first, end in zip(starts, [*starts[1:], len(modules)], strict=True):
            if first == end:  # no node at all
                return
            backward = int(made_in[first])
            if backward != (around[1].number if _in_backward(around) else NONE):
                del around[1:]
                if backward != NONE:
                    backwards[backward] += 1
                    id = f"backward{backward}" + f"/{backwards[backward]}" * (
                        backwards[backward] > 1
                    )
                    around.append(_begun(id, Made.BACKWARD, around[-1], first, number=backward))
            depth = 1 + _in_backward(around)
            for path in parts_of(names.get(int(modules[first]), "")):
                if depth < len(around) and around[depth].path == path:
                    depth += 1
                    continue
                del around[depth:]
                self.calls[path] += 1
                number = self.calls[path]
                id = f"{path}/{number}"
                around.append(_begun(id, Made.CALL, around[-1], first, path=path, number=number))
                depth += 1
            del around[depth:]
            around[-1].parts.extend(range(first, end))
            for block in around:
                block.end = end
        self.whole.end = len(modules)

    # Loops ---------------------------------------------------------------------------------------

    def _find_loops(self, block: Block) -> int:
        """Put turns of loops together in a block and all that are in it; the key of its shape."""
        for part in block.parts:
            if isinstance(part, Block):
                self._key_of[part] = self._find_loops(part)
        if self._loops:
            self._fold_loops(block)
        shape = (block.made.value, self.types.get(block.path, ""), *self._keys_of(block.parts))
        return self._key(shape)

    def _fold_loops(self, block: Block) -> None:
        """Make loops of the parts that repeat, and of those loops that repeat in turn."""
        while found := [
            each
            for each in repeats(self._keys_of(block.parts))
            if each.count * each.period >= FEWEST_PARTS
        ]:
            parts: list[Part] = []
            end = 0
            for each in found:
                parts += block.parts[end : each.first]
                parts.append(self._loop(block, each))
                end = each.end
            block.parts = [*parts, *block.parts[end:]]

    def _loop(self, block: Block, found: Repeat) -> Block:
        parts = block.parts[found.first : found.end]
        first, end = _first(parts[0]), _end(parts[-1])
        id = f"{block.id}×{found.count}@{first}"
        loop = Block(id, Made.LOOP, block, first, end, count=found.count, period=found.period)
        loop.parts = parts
        for part in parts:
            if isinstance(part, Block):
                part.parent = loop
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

    def inside(self, block: Block, wanted: Wanted) -> list[Part]:
        """What an opened block consists of; of a loop, first, slowest and last turn, and the rest.

        Turns in which something is to be seen are shown, too.
        """
        if block.made is not Made.LOOP:
            return block.parts
        if block not in self._turns:
            self._turns[block] = list(self._shown(block, wanted))
        return self._turns[block]

    def _shown(self, loop: Block, wanted: Wanted) -> Iterable[Part]:
        starts = turn_starts(loop)
        seen = np.flatnonzero(np.diff(wanted.seen[starts]))
        chosen = [0, loop.count - 1, *slowest_turn(loop, wanted.spent), *seen.tolist()]
        shown = sorted(dict.fromkeys(chosen[:MOST_TURNS]))
        before = 0
        for turn in [*shown, loop.count]:
            if turn - before == 1:
                yield self._turn(loop, before)
            elif turn > before:
                yield self._turns_between(loop, before, turn)
            if turn < loop.count:
                yield self._turn(loop, turn)
            before = turn + 1

    def _turn(self, loop: Block, turn: int) -> Part:
        parts = loop.parts[turn * loop.period : (turn + 1) * loop.period]
        if loop.period == 1:
            return parts[0]
        first, end = _first(parts[0]), _end(parts[-1])
        block = Block(f"{loop.id}[{turn + 1}]", Made.TURN, loop, first, end, number=turn + 1)
        block.parts = parts
        for part in parts:
            if isinstance(part, Block):
                part.parent = block
        self._fold_loops(block)
        return block

    def _turns_between(self, loop: Block, begin: int, end: int) -> Block:
        parts = loop.parts[begin * loop.period : end * loop.period]
        first, last = _first(parts[0]), _end(parts[-1])
        id = f"{loop.id}[{begin + 1}-{end}]"
        return Block(
            id, Made.TURNS, loop, first, last, number=begin + 1, count=end - begin,
            period=loop.period,
        )  # fmt: skip


def turn_starts(loop: Block) -> Ids:
    """Where each turn of a loop begins, and where the last one ends."""
    starts = [_first(part) for part in loop.parts[:: loop.period]]
    return np.array([*starts, loop.end], np.int64)


def slowest_turn(loop: Block, spent: Ids) -> list[int]:
    """The turn that took longest, counted from 0; none where no time is known."""
    took = np.diff(spent[turn_starts(loop)])
    return [int(np.argmax(took))] if took.any() else []


def _in_backward(around: list[Block]) -> bool:
    return len(around) > 1 and around[1].made is Made.BACKWARD


def _begun(
    id: str, made: Made, parent: Block, first: int, *, path: str = "", number: int = 0
) -> Block:
    block = Block(id, made, parent, first, first, path=path, number=number)
    parent.parts.append(block)
    return block


def _first(part: Part) -> int:
    return part if isinstance(part, int) else part.first


def _end(part: Part) -> int:
    return part + 1 if isinstance(part, int) else part.end


def _node_keys(columns: GraphColumns, order: Ids) -> Ids:
    """A number for each pair of a name and a stack."""
    names, stacks = (
        np.unique(column[order], return_inverse=True)[1].astype(np.int64)
        for column in (columns.name, columns.stack)
    )
    keys: Ids = names * (int(stacks.max(initial=0)) + 1) + stacks
    return keys
