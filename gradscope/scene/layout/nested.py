"""Nested frames: each is laid out separately, and is then one piece of the surrounding frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

from gradscope.scene.layout.between import side_by_side
from gradscope.scene.layout.columns import FIRST, LAST, columns_of, parts_of
from gradscope.scene.layout.layered import ranks
from gradscope.scene.layout.pieces import QUICK, USUAL, WIDEST, Point, Route, Slab

PAD = 12.0
AROUND_TITLE = 16.0
"""Space below a title for routes that enter next to it."""
BETWEEN_DOORS = 9.0
LARGE = 5_000
"""More boxes than this are laid out with less care, except by the page's version of this code."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A box to be placed; or a frame, with the size of its title."""

    id: str
    width: float
    height: float
    parent: str  # the surrounding frame; "" at the top
    title: str = ""  # the text of a stub that leads to it


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow from one box to another."""

    tail: str
    head: str
    label: float = 0.0  # the width of its label
    loose: bool = False  # it need not be straight
    upward: bool = False  # the arrow goes from its head to its tail


@dataclass(frozen=True, slots=True)
class Rect:
    """A position and a size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Stub:
    """The text at an end of a cut arrow."""

    place: Rect
    text: str


@dataclass(frozen=True, slots=True)
class Course:
    """The path of an arrow, or of one of its ends. It bends between points that are not aligned."""

    link: int  # the index of the link
    points: tuple[Point, ...]
    begins: bool  # at the link's tail; otherwise at a stub
    ends: bool  # at the link's head; otherwise at a stub

    @property
    def turns(self) -> bool:
        """Whether it goes up somewhere, which is between columns."""
        return any(upper > lower for (_, upper), (_, lower) in pairwise(self.points))


@dataclass(slots=True)
class Placed:
    """The positions of everything."""

    width: float
    height: float
    boxes: dict[str, Rect] = field(default_factory=dict)
    frames: dict[str, Rect] = field(default_factory=dict)
    courses: list[Course] = field(default_factory=list)
    stubs: list[Stub] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """The number of arrows from one column to another."""
        return sum(course.turns for course in self.courses)


class _Way(IntEnum):
    """Where a part of a link's path lies: out of frames, between pieces, into frames."""

    OUT = 0
    BETWEEN = 1
    IN = 2


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a link's path, inside one frame."""

    link: int
    lies: _Way
    points: list[Point]
    cut: int  # see columns.py


@dataclass(slots=True)
class _Inside:
    """A frame with its contents, with a corner at (0, 0)."""

    width: float
    height: float
    pieces: dict[str, Slab]
    parts: list[_Part]
    stubs: list[tuple[Slab, str]]


def nested(
    boxes: Sequence[Sized], frames: Sequence[Sized], links: Sequence[Link], tallest: float
) -> Placed:
    """Place boxes in frames; frames come after their parents. Columns end at `tallest`."""
    return _Nest(boxes, frames, links, tallest).placed()


class _Nest:
    def __init__(
        self, boxes: Sequence[Sized], frames: Sequence[Sized], links: Sequence[Link], tallest: float
    ) -> None:
        self._sized = {each.id: each for each in (*frames, *boxes)}
        self._frames = {frame.id: frame for frame in frames}
        self._links = links
        self._tallest = tallest
        self._care = QUICK if len(boxes) > LARGE else USUAL
        self._children: dict[str, list[str]] = defaultdict(list)
        for id, each in self._sized.items():
            self._children[each.parent].append(id)
        self._around = {id: tuple(self._outward(id)) for id in self._sized}
        self._ways: dict[str, list[tuple[_Way, int]]] = defaultdict(list)  # by frame
        for number, link in enumerate(links):
            tails, heads = self._around[link.tail], self._around[link.head]
            common = next(frame for frame in tails if frame in heads)
            for frame in tails[: tails.index(common)]:
                self._ways[frame].append((_Way.OUT, number))
            self._ways[common].append((_Way.BETWEEN, number))
            for frame in heads[: heads.index(common)]:
                self._ways[frame].append((_Way.IN, number))
        self._inside: dict[str, _Inside] = {}
        for frame in (*reversed(self._frames), ""):
            self._inside[frame] = self._arranged(frame)

    def _outward(self, id: str) -> Iterator[str]:
        """The frames around a box or frame, innermost first; the last is the picture: ""."""
        while id := self._sized[id].parent:
            yield id
        yield ""

    # One frame -----------------------------------------------------------------------------------

    def _arranged(self, frame: str) -> _Inside:
        pieces = {id: self._piece(id) for id in self._children[frame]}
        lies = {number: way for way, number in self._ways[frame]}
        ways = [self._way(frame, pieces, number, lies[number]) for number in lies]
        row_of = ranks(list(pieces.values()), ways, WIDEST)
        titles = {
            way.id: (self._sized[link.tail].title, self._sized[link.head].title)
            for way in ways
            for link in (self._links[way.id],)
        }
        columns = columns_of(list(pieces.values()), ways, row_of, self._tallest, titles)
        title = self._frames.get(frame, Sized("", 0.0, 0.0, ""))
        pad, top = (PAD, title.height + PAD) if frame else (0.0, 0.0)
        among = side_by_side(columns, self._care)
        content = among.width
        width = max(content, title.width) + 2 * pad
        coming = [(points[0][0], link) for link, _, points in among.routes if lies[link] is _Way.IN]
        doors = _doors(coming, (width - content) / 2, title.width)
        if doors:
            width = max(width, max(doors.values()) + pad)
            top += AROUND_TITLE
            doors = _doors(coming, (width - content) / 2, title.width)
        left, height = (width - content) / 2, top + among.height + pad
        stubs = [stub for column in columns.all for stub in column.stubs.items()]
        for piece in (*pieces.values(), *(stub for stub, _ in stubs)):
            piece.x += left
            piece.y += top
        return _Inside(
            width,
            height,
            pieces,
            [
                _Part(
                    link,
                    lies[link],
                    list(_to_edges(points, (left, top), height, lies[link], doors.get(link))),
                    cut,
                )
                for link, cut, points in among.routes
            ],
            stubs,
        )

    def _piece(self, id: str) -> Slab:
        if id not in self._frames:
            return Slab(self._sized[id].width, self._sized[id].height)
        inside = self._inside[id]
        piece = Slab(inside.width, inside.height, fixed=True)
        for part in inside.parts:
            for way in parts_of(part.link):
                if part.lies is _Way.OUT:
                    piece.ports_out[way] = part.points[-1][0]
                if part.lies is _Way.IN:
                    piece.ports_in[way] = part.points[0][0]
        return piece

    def _way(self, frame: str, pieces: Mapping[str, Slab], number: int, lies: _Way) -> Route:
        link = self._links[number]
        tail = None if lies is _Way.IN else pieces[self._child(frame, link.tail)]
        head = None if lies is _Way.OUT else pieces[self._child(frame, link.head)]
        label = link.label if tail is not None and not tail.fixed else 0.0
        return Route(number, tail, head, label, link.loose, link.upward)

    def _child(self, frame: str, id: str) -> str:
        """The piece of a frame that is this box, or contains it."""
        place = self._around[id].index(frame)
        return self._around[id][place - 1] if place else id

    # Whole picture -------------------------------------------------------------------------------

    def placed(self) -> Placed:
        whole = self._inside[""]
        found = Placed(_round(whole.width), _round(whole.height))
        corners: dict[str, Point] = {"": (0.0, 0.0)}
        parts: dict[int, list[tuple[tuple[int, int, int], _Part, Point]]] = defaultdict(list)
        for frame in ("", *self._frames):
            inside, corner = self._inside[frame], corners[frame]
            depth = len(self._around[frame]) if frame else 0
            for id, piece in inside.pieces.items():
                if id in self._frames:
                    corners[id] = (corner[0] + piece.x, corner[1] + piece.y)
                (found.frames if id in self._frames else found.boxes)[id] = _rect(piece, corner)
            for part in inside.parts:  # order: out of inner frames first, then into outer ones
                along = -depth if part.lies is _Way.OUT else depth
                parts[part.link].append(((part.lies, along, part.cut), part, corner))
            found.stubs += [Stub(_rect(piece, corner), text) for piece, text in inside.stubs]
        for link in sorted(parts):
            found.courses += _courses(link, sorted(parts[link], key=lambda each: each[0]))
        return found


def _doors(coming: list[tuple[float, int]], left: float, title: float) -> dict[int, float]:
    """Entries next to the title of a frame, for routes that would cross the title."""
    beyond = PAD + title + 8
    straight = [x + left for x, _ in coming if x + left >= beyond]
    doors: dict[int, float] = {}
    at = beyond
    for x, link in sorted(coming):
        if not title or x + left >= beyond:
            continue
        while any(abs(at - other) < BETWEEN_DOORS for other in straight):
            at += BETWEEN_DOORS
        doors[link] = at
        at += BETWEEN_DOORS
    return doors


def _to_edges(
    points: Sequence[Point], corner: Point, height: float, lies: _Way, door: float | None
) -> Iterator[Point]:
    """The points moved into the frame, starting at its upper edge, or ending at its lower edge."""
    left, top = corner
    if lies is _Way.IN and door is not None:
        yield door, 0.0
        yield door, top - AROUND_TITLE
    elif lies is _Way.IN:
        yield points[0][0] + left, 0.0
    if lies is _Way.IN:
        yield points[0][0] + left, top
    for x, y in points:
        yield x + left, y + top
    if lies is _Way.OUT:
        yield points[-1][0] + left, height


def _courses(
    link: int, parts: Sequence[tuple[tuple[int, int, int], _Part, Point]]
) -> Iterator[Course]:
    """The parts of a link joined into one path, or two if it is cut."""
    points: list[Point] = []
    begins = True
    for _, part, (x, y) in parts:
        if part.cut == LAST:
            if points:
                yield Course(link, tidy(points), begins, ends=False)
            points, begins = [], False
        points += [(px + x, py + y) for px, py in part.points]
        if part.cut == FIRST:
            yield Course(link, tidy(points), begins, ends=False)
            points = []
    if points:
        yield Course(link, tidy(points), begins, ends=True)


def tidy(points: Sequence[Point]) -> tuple[Point, ...]:
    """Rounded points, without redundant ones."""
    kept: list[Point] = []
    for x, y in points:
        point = _round(x), _round(y)
        if kept and point == kept[-1]:
            continue
        if len(kept) > 1 and kept[-1][0] == kept[-2][0] == point[0]:
            kept.pop()
        kept.append(point)
    return tuple(kept)


def _rect(piece: Slab, corner: Point) -> Rect:
    x, y = corner
    return Rect(_round(piece.x + x), _round(piece.y + y), _round(piece.width), _round(piece.height))


def _round(number: float) -> float:
    return round(number, 1)
