"""How a table or an event kind is declared, and what its columns are."""

from __future__ import annotations

import builtins
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NONE = -1
"""In a column of ids or times: there is none, or not yet."""


@dataclass(frozen=True, slots=True)
class Ref:
    """An id, or a list of ids, of rows in another table."""

    table: str


@dataclass(frozen=True, slots=True)
class Time:
    """Nanoseconds since `meta.clock_base`, on one monotonic clock."""


@dataclass(frozen=True, slots=True)
class Interned:
    """Text, stored as an id of the `string` table."""


@dataclass(frozen=True, slots=True)
class Json:
    """JSON of this type as text, or empty."""

    type: type


Ns = Annotated[int, Time()]
Text = Annotated[str, Interned()]
Texts = Annotated[tuple[str, ...], Interned()]
JsonObject = Annotated[str, Interned(), Json(dict)]
JsonList = Annotated[str, Interned(), Json(list)]
StringId = Annotated[int, Ref("string")]
FrameId = Annotated[int, Ref("frame")]
StackId = Annotated[int, Ref("stack")]
ModuleId = Annotated[int, Ref("module")]
ThreadId = Annotated[int, Ref("thread")]
DeviceId = Annotated[int, Ref("device")]
StepId = Annotated[int, Ref("step")]
TensorId = Annotated[int, Ref("tensor")]
TensorIds = Annotated[tuple[int, ...], Ref("tensor")]
StorageId = Annotated[int, Ref("storage")]
OpId = Annotated[int, Ref("op")]
NodeId = Annotated[int, Ref("node")]
NodeIds = Annotated[tuple[int, ...], Ref("node")]
SavedId = Annotated[int, Ref("saved")]
TaskId = Annotated[int, Ref("graph_task")]
SpanId = Annotated[int, Ref("span")]
ProcessGroupId = Annotated[int, Ref("process_group")]
ActId = Annotated[int, Ref("act")]
CapturedId = Annotated[int, Ref("captured")]
PlanId = Annotated[int, Ref("plan")]
CompilationId = Annotated[int, Ref("compilation")]
RegionId = Annotated[int, Ref("region")]
RegionOpIds = Annotated[tuple[int, ...], Ref("region_op")]
Ints = tuple[int, ...]
Floats = tuple[float, ...]


# Note [Rows are declared at once and made when needed]
# A dataclass compiles every method when its class is declared. For the sixty kinds of rows this
# takes half as long as importing NumPy, and showing a trace needs rows of only a few kinds. So
# methods all rows can share are in `Row`; an `__init__` is compiled with the first row of its kind.


class Row:
    """One row of a table. Each table is a subclass whose fields are its columns.

    Rows with the same cells are equal, even if a cell is `math.nan`. The `==` of a dataclass agrees
    up to Python 3.12, but not from 3.13 on.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    TABLE: ClassVar[str]

    def __init__(self, *cells: Any, **named: Any) -> None:
        made = type(self)
        made.__init__ = _initializer(made)  # type: ignore[method-assign]
        made.__init__(self, *cells, **named)

    def cells(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or type(self) is not type(other):
            return NotImplemented
        return self.cells() == other.cells()

    def __hash__(self) -> int:
        return hash(self.cells())

    def __repr__(self) -> str:
        cells = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({', '.join(cells)})"

    def __reduce__(self) -> tuple[type[Row], tuple[Any, ...]]:
        return type(self), self.cells()

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _initializer(row: type[Row]) -> Callable[..., None]:
    """The `__init__` a frozen dataclass would have; its globals also name the module."""
    defaults = {f.name: f.default for f in fields(row)}
    scope = {"__name__": row.__module__, "put": object.__setattr__, "defaults": defaults}
    parameters = (
        name if default is MISSING else f"{name}=defaults[{name!r}]"
        for name, default in defaults.items()
    )
    lines = (f"    put(self, {name!r}, {name})" for name in defaults)
    source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines)
    exec(source, scope)  # noqa: S102  as dataclasses does; the names are those of a declaration
    made: Callable[..., None] = scope["__init__"]  # type: ignore[assignment]
    return made


R = TypeVar("R", bound=Row)


@dataclass_transform(frozen_default=True, eq_default=False)
def declared(row: type[R]) -> type[R]:
    """Collect the fields of a row. See Note [Rows are declared at once and made when needed]."""
    return dataclass(init=False, repr=False, eq=False, slots=True)(row)


@declared
class Event(Row):
    """One event of the engine. Each kind is a subclass with its own table, `event.<kind>`."""

    KIND: ClassVar[str]
    SHORT: ClassVar[Mapping[int, tuple[str, ...]]]
    """Codes of this kind in short form, each with the columns that a, b, c and d stand for."""
    CODE: ClassVar[int]
    """The code that producers write: the latest one. NONE: the kind has no short form."""
    seq: int = NONE  # orders the events of all kinds; without gaps
    t: Ns = 0
    thread: ThreadId = NONE
    task: TaskId = NONE


E = TypeVar("E", bound=Event)

TABLES: dict[str, type[Row]] = {}
"""Every table by name, including those of events."""

EVENTS: dict[str, type[Event]] = {}
"""Every event kind, by name."""


@dataclass_transform(frozen_default=True, eq_default=False)
def table(name: str) -> Callable[[type[R]], type[R]]:
    """Declare a table. Rows are looked up by `id` if they have one."""

    def declare(row: type[R]) -> type[R]:
        return added(name, declared(row))

    return declare


def added(name: str, row: type[R]) -> type[R]:
    """Register a row class under the name of its table."""
    row.TABLE = name
    TABLES[name] = row
    return row


@dataclass_transform(frozen_default=True, eq_default=False)
def event(
    name: str, *, short: Mapping[int, tuple[str, ...]] = MappingProxyType({})
) -> Callable[[type[E]], type[E]]:
    """Declare an event kind with its own table, ordered among all events by `seq`.

    `short`: its codes among single events in a file (`short.event`), and the columns other than
    `node` that a, b, c and d stand for. The meaning of a code never changes: columns added later
    get a new code.
    """

    def declare(row: type[E]) -> type[E]:
        made = declared(row)
        made.KIND, made.SHORT, made.CODE = name, short, max(short, default=NONE)
        _check_codes(made)
        EVENTS[name] = made
        return added(f"event.{name}", made)

    return declare


def is_declared(name: str) -> bool:
    """Whether this names a table, a kind of event, or a column of one: "act", "op.inputs"."""
    row, _, column = name.partition(".")
    made = EVENTS.get(row) or TABLES.get(row)
    return made is not None and (not column or column in made.__match_args__)


def _check_codes(kind: type[Event]) -> None:
    taken = {code: other.KIND for other in EVENTS.values() for code in other.SHORT}
    own = {*kind.__match_args__} - {"node"}
    for code, names in kind.SHORT.items():
        if taken.get(code, kind.KIND) != kind.KIND:
            raise TypeError(f"code {code} of '{kind.KIND}' is already used by '{taken[code]}'")
        if len(names) > len(CELLS) or not own.issuperset(names):
            raise TypeError(f"code {code} of '{kind.KIND}' names {names}: at most 4 of its columns")


CELLS = "abcd"
"""Names of the numbers of a single event in short form."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one field of a row is stored."""

    name: str
    type: type  # type of one item: int, float, bool or str
    many: bool
    ref: str | None
    time: bool
    interned: bool
    default: Any  # value of a cell that was not filled in
    json: Any = None  # dict or list, if its text is JSON of that type

    @property
    def stored(self) -> builtins.type:
        """Type of one item in a file: for text, that of its id."""
        return int if self.interned else self.type


_columns: dict[type[Row], tuple[Column, ...]] = {}


def columns(row: type[Row]) -> tuple[Column, ...]:
    """The columns of a table or event kind, in order."""
    if row not in _columns:
        _columns[row] = tuple(_column(f.name, _type(str(f.type)), f.default) for f in fields(row))
    return _columns[row]


@cache
def _type(text: str) -> Any:
    """The declared type of a column: from this module, or a builtin.

    `get_type_hints` would evaluate the same few texts again for each column.
    """
    return eval(text)  # noqa: S307  the text is from our own declarations


def _column(name: str, hint: Any, default: Any) -> Column:
    marks: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    many = get_origin(hint) is tuple
    base = get_args(hint)[0] if many else hint
    return Column(
        name=name,
        type=base,
        many=many,
        ref=next((mark.table for mark in marks if isinstance(mark, Ref)), None),
        time=any(isinstance(mark, Time) for mark in marks),
        interned=any(isinstance(mark, Interned) for mark in marks),
        default=base() if default is MISSING else default,
        json=next((mark.type for mark in marks if isinstance(mark, Json)), None),
    )
