"""The titles of calls, loops and iterations, folded or framed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import ranked
from gradscope.scene.graph.blocks.outline import MadeBy, NodeBlock, Outline, Part, slowest_turn
from gradscope.scene.graph.picture import Box, BoxLine, Group, Tone
from gradscope.scene.readable import count, duration, plural, shorten
from gradscope.trace.schema import NONE, Frame
from gradscope.trace.trace import Trace

OF_PROGRAM = (MadeBy.RANK, MadeBy.STEP)
"""Blocks that are named by a number."""

TITLE_LENGTH, PATH_LENGTH = 44, 24
"""Largest number of characters of a title, and of a shortened path in it."""


class Titles:
    """Creates the titles of the blocks of one outline."""

    def __init__(
        self,
        trace: Trace,
        columns: GraphColumns,
        outline: Outline,
        spent: Ids,
        backwards: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._trace = trace
        self._columns = columns
        self._outline = outline
        self._spent = spent  # the own time of all nodes before each node
        self._slowest: dict[NodeBlock, list[int]] = {}  # by loop
        self._named: dict[
            NodeBlock, bool
        ] = {}  # by loop: whether iterations are named by their modules
        self._backwards = backwards  # by number: the title of what was created during one

    def title(self, block: NodeBlock) -> str:
        """As in "layer1.0 · BasicBlock · call 2 of 3" and "×1,000 · h = cell(x[t], h)"."""
        match block.made:
            case MadeBy.RANK:
                return f"rank {block.number}"
            case MadeBy.STEP:
                return f"{ranked(block.rank)}step {block.number}"
            case MadeBy.BACKWARD:
                usual = f"created during backward {block.number} (create_graph)"
                return self._backwards.get(block.number, usual)
            case MadeBy.STRETCH:
                last = block.number + block.count - 1
                where = f"{count(block.number)} to {count(last)} of {count(block.period)}"
                return f"{where} · {self._part(block.parts[0])} … {self._part(block.parts[-1])}"
            case MadeBy.LOOP:
                return f"×{count(block.count)} · {self._turned(block)}"
            case MadeBy.TURN | MadeBy.TURNS:
                return self._turns(block)
            case _:
                which = self._which(block)
                return " · ".join([*self._call(block, len(" · ".join(["", *which]))), *which])

    def _part(self, part: Part) -> str:
        if isinstance(part, int):
            return self._name(part)
        return _ending(part.path, PATH_LENGTH) or self.title(part)

    def facts(self, block: NodeBlock) -> list[BoxLine]:
        """The lines of a folded block, besides its contents."""
        if block.made is not MadeBy.LOOP:
            return []
        lines = []
        if block.parts and isinstance(block.parts[0], int):
            place = site_of(self._trace, self._stack(block.first)).place
            lines += [BoxLine(place, Tone.SITE)] if place else []
        for turn in self._slowest_turn(block):
            took = duration(_turn_ns(block, turn, self._spent))
            lines.append(BoxLine(f"slowest: {self._turn(block, turn)}, {took}"))
        return lines

    def _slowest_turn(self, loop: NodeBlock) -> list[int]:
        if loop not in self._slowest:
            self._slowest[loop] = slowest_turn(loop, self._spent)
        return self._slowest[loop]

    def _by_modules(self, loop: NodeBlock) -> bool:
        """Whether the loop consists of calls of different modules in a row."""
        if loop not in self._named:
            self._named[loop] = self._paths(loop) == len(loop.parts)
        return self._named[loop]

    def _call(self, block: NodeBlock, after: int = 0) -> list[str]:
        """The path and type of a call; the path is cut to leave room for `after` characters."""
        kind = self._outline.types.get(block.path, "")
        room = TITLE_LENGTH - after - len(f" · {kind}" * bool(kind))
        return [part for part in (_ending(block.path, max(room, PATH_LENGTH)), kind) if part]

    def _which(self, block: NodeBlock) -> list[str]:
        """Which call of its module it is, and whether it is the slowest iteration of a loop."""
        loop = block.parent
        if loop is not None and loop.made is MadeBy.LOOP and len(loop.parts) == loop.count:
            slowest = ", slowest" * (block.turn - 1 in self._slowest_turn(loop))
            return [f"{count(block.turn)} of {count(loop.count)}{slowest}"]
        total = self._outline.calls(block)
        return [f"call {block.number} of {total}"] if total > 1 else []

    def _turns(self, block: NodeBlock) -> str:
        """As in "iteration 413 of 1,000, slowest" and "×411 · iterations 2 … 412"."""
        loop = block.parent
        assert loop is not None
        if block.made is MadeBy.TURN:
            slowest = ", slowest" * (block.number - 1 in self._slowest_turn(loop))
            if self._by_modules(loop):
                return f"{_modules(block.parts)}{slowest}"
            return f"iteration {count(block.number)} of {count(loop.count)}{slowest}"
        last = self._turn(loop, block.number + block.count - 2)
        first = self._turn(loop, block.number - 1)
        if first.startswith("iteration "):
            first, last = f"iterations {first[10:]}", last[10:]
        return f"×{count(block.count)} · {first} … {last}"

    def _turn(self, loop: NodeBlock, turn: int) -> str:
        parts = loop.parts[turn * loop.period : (turn + 1) * loop.period]
        if isinstance(parts[0], NodeBlock) and parts[0].made in OF_PROGRAM:
            return self.title(parts[0])
        if self._by_modules(loop) or (loop.period == 1 and self._paths(loop) > 1):
            return _modules(parts)
        return f"iteration {count(turn + 1)}"

    def _paths(self, loop: NodeBlock) -> int:
        return len({part.path for part in loop.parts if isinstance(part, NodeBlock) and part.path})

    def _turned(self, loop: NodeBlock) -> str:
        """What a loop repeats."""
        first, last = loop.parts[0], loop.parts[-1]
        if loop.period == 1 and isinstance(first, NodeBlock) and isinstance(last, NodeBlock):
            if first.made is MadeBy.LOOP:
                return self.title(first)
            if first.made in OF_PROGRAM:
                return f"{self.title(first)} to {self.title(last)}"
            if self._paths(loop) == 1:
                return " · ".join(self._call(first))
            return f"{_ending(first.path, PATH_LENGTH)} … {' · '.join(self._call(last))}"
        if self._by_modules(loop):
            return _modules(loop.parts)
        return self._line_of(loop) or f"{self._name(loop.first)}…"

    def _line_of(self, loop: NodeBlock) -> str:
        """The source line of a whole iteration, or else the range of its lines."""
        turn = range(loop.first, loop.first + _turn_length(loop))
        stacks = dict.fromkeys(self._stack(place) for place in turn)
        chains = [self._trace.frames(stack)[::-1] for stack in stacks if stack != NONE]
        if not chains or not all(chains):
            return ""
        depth = 0
        while all(len(chain) > depth for chain in chains) and _agree(chains, depth):
            depth += 1
        below = {(chain[depth].file, chain[depth].line) for chain in chains if len(chain) > depth}
        # A node created on the common line itself shows that it is a line of the loop.
        if depth and (len(below) <= 1 or any(len(chain) == depth for chain in chains)):
            return shorten(chains[0][depth - 1].text.strip(), TITLE_LENGTH)
        lines = sorted(line for _, line in below)
        file = site_of(self._trace, next(iter(stacks))).place.rpartition(":")[0]
        return f"{file}:{lines[0]}–{lines[-1]}" if len({file for file, _ in below}) == 1 else ""

    def _stack(self, place: int) -> int:
        return int(self._columns.stack[self._outline.order[place]])

    def _name(self, place: int) -> str:
        return self._trace.text(int(self._columns.name[self._outline.order[place]]))


def _modules(parts: Sequence[Part]) -> str:
    """As in "blocks 4–9", "modules 4–9" for top-level ones, and "conv1 to bn2"."""
    first, last = (part.path for part in (parts[0], parts[-1]) if isinstance(part, NodeBlock))
    (around, _, one), (other, _, end) = first.rpartition("."), last.rpartition(".")
    if first == last:
        return _ending(first, TITLE_LENGTH)
    if around == other and one.isdecimal() and end.isdecimal():
        return f"{_ending(around, PATH_LENGTH) or 'modules'} {one}–{end}"
    return f"{_ending(first, PATH_LENGTH)} to {_ending(last, PATH_LENGTH)}"


def _ending(path: str, room: int) -> str:
    """A module's path, cut at its beginning if too long: "…layer3.0.conv1"."""
    if len(path) <= room:
        return path
    _, *inner = path.split(".")
    while len(inner) > 1 and len(".".join(inner)) >= room:
        inner = inner[1:]
    return f"…{'.'.join(inner)}" if inner else path


def _agree(chains: list[tuple[Frame, ...]], depth: int) -> bool:
    return len({(chain[depth].file, chain[depth].line) for chain in chains}) == 1


def _turn_length(loop: NodeBlock) -> int:
    part = loop.parts[loop.period - 1]
    return (part + 1 if isinstance(part, int) else part.end) - loop.first


def _turn_ns(loop: NodeBlock, turn: int, spent: Ids) -> int:
    first = loop.parts[turn * loop.period]
    last = loop.parts[(turn + 1) * loop.period - 1]
    begin = first if isinstance(first, int) else first.first
    end = last + 1 if isinstance(last, int) else last.end
    return int(spent[end] - spent[begin])


def each_turn(loop: NodeBlock, noun: str = "node") -> str:
    """As in "6 nodes each"."""
    return f"{plural(_turn_length(loop), noun)} each"


def frames(
    boxes: Iterable[Box], blocks: Mapping[str, NodeBlock], titles: Titles
) -> Iterator[Group]:
    """The frames of boxes, with the frames around them, parents first."""
    done: set[str] = set()
    for box in boxes:
        around: list[NodeBlock] = []
        id = box.group
        while id and id not in done:
            done.add(id)
            around.append(blocks[id])
            parent = blocks[id].parent
            id = parent.id if parent else ""
        for block in reversed(around):
            yield Group(block.id, titles.title(block), block.parent.id if block.parent else "")
