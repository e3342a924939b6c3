"""Traverses graphs with a C function, which writes rows of numbers.

See native_walk.py, and Note [Where things are] in layout.py. Only nodes whose saved values are read
from Python get a Python object.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.callables import ONE, Callables
from gradscope.machine_code.language import External
from gradscope.watch.called.compiling import name_of
from gradscope.watch.called.results import own_result
from gradscope.watch.listener import SavedByNode
from gradscope.watch.native import lookups, native_walk, walk_memory as memory
from gradscope.watch.native.creation import RecordMaker, own_function
from gradscope.watch.native.forms import Forms, more_forms
from gradscope.watch.native.layout import (
    IN_WRAPPER,
    NO_NUMBER,
    NativeLayout,
    NotFound,
    described_at,
    in_custom,
    kinds_of_inputs,
    layout,
)
from gradscope.watch.native.records import RECORDING, TABLE, NativeNodeRecord
from gradscope.watch.native.saved_layout import SavedLayout, pointer, saved_layout
from gradscope.watch.native.versions import COUNTED, LIBRARIES, SHARED
from gradscope.watch.python_walk import DEEPEST, LEAF, GraphWalker, described
from gradscope.watch.unseen import INPUTS_UNSHOWN, SAVED_UNSHOWN, SHOWS_INPUTS, SHOWS_SAVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradscope.watch.listener import Listener
    from gradscope.watch.python_walk import WalkLeaf

Ints = NDArray[np.int64]
_CUSTOM = torch._C._FunctionBase
ROOM = 1 << 12
"""Smallest number of rows of nodes in an array."""

MOST_BYTES = 1 << 14  # of a node
WORD = 8
LARGEST = 1 << 62
"""Used instead of the smallest size of memory that is reported: none is."""

_STORAGE = memory.SAVED_COLUMNS.index("storage")
_OF_MEMORY = [memory.SAVED_COLUMNS.index(n) for n in ("storage", "walk", "data", "bytes")]


class GraphRows(NamedTuple):
    """Nodes, edges, and the layouts of inputs, node by node (leaves have none)."""

    nodes: Ints  # NODE_COLUMNS
    edges: Ints  # EDGE_COLUMNS
    inputs: Ints
    saved: Ints  # SAVED_COLUMNS


class _Arrays:
    """The arrays of rows, and the words that describe them."""

    def __init__(self, edges: int, inputs: int) -> None:
        rooms = ROOM, max(2 * ROOM, 2 * edges), max(2 * ROOM, 2 * inputs)
        self.nodes = np.empty((rooms[0], len(memory.NODE_COLUMNS)), np.int64)
        self.edges = np.empty((rooms[1], len(memory.EDGE_COLUMNS)), np.int64)
        self.inputs = np.empty(rooms[2], np.int64)
        self.saved = np.empty((rooms[1], memory.SAVED_ROW // 8), np.int64)
        words = []
        for array in (self.nodes, self.edges, self.inputs, self.saved):
            words += [array.ctypes.data, 0, len(array)]
        self.words = np.array(words, np.int64)

    def rows(self, used: Ints) -> GraphRows:
        nodes, edges, inputs, saved = used[1::3].tolist()
        return GraphRows(
            self.nodes[:nodes], self.edges[:edges], self.inputs[:inputs], self.saved[:saved]
        )


class NativeWalker(GraphWalker):
    """Finds nodes with a C function, which uses their records."""

    def __init__(self, listener: Listener, maker: RecordMaker, *, saved: bool) -> None:
        functions, self._layout = _ready(maker.frees)
        self.maker = maker
        super().__init__(listener, None, saved=saved, in_memory=True)
        self.names: list[str] = []  # names of nodes, by the number of their kind
        self.layouts: list[tuple[tuple[int, ...], Any, Any]] = []
        """Shape, dtype and device, by number."""
        self._numbers_of_names: dict[str, int] = {}
        self._numbers_of_layouts: dict[Any, int] = {}
        self.slots: list[str] = []  # names of slots, by number
        self._sets_of_slots = np.zeros(memory.MOST_SETS * memory.SET_OF_SLOTS // 8, np.int64)
        self._sets = 0
        self._saving: list[Any] = []  # nodes whose saved values have to be read
        self._reading: list[Any] = []  # nodes whose other arguments have to be read
        self._full: list[GraphRows] = []
        first = _Arrays(0, 0)
        self._arrays = {int(first.words[0]): first}  # by address
        self._kinds = np.zeros(2 * memory.MOST_KINDS, np.int64)
        self._known_layouts = np.zeros(memory.LAYOUT // 8 * memory.MOST_LAYOUTS, np.int64)
        self._asked = (self._kind, self._leaf, self._layout_of, self._put_rows_aside)
        self.look: Callable[[int, int, int], None] | None = None
        """Called with the address of the words and the first new rows of nodes and saved values."""
        self._looked_at = 0, 0
        self.large: Callable[[int, int, int, int], object] = _nobody_follows
        """Called with large storages: address of the StorageImpl, traversal, address and size."""
        self.words = self._words(self._layout)
        self.words[: memory.ROWS] = first.words
        self.forms = Forms(self.words)
        self._view = memoryview(self.words.data)  # faster to read
        self._at = self.words.ctypes.data
        self._walk_from = functions.over(native_walk.walk, self)
        self._walk_behind = functions.over(native_walk.walk_behind, self)
        self._exchange = functions.over(native_walk.exchange, self)
        self._more_forms = functions.over(more_forms, self)

    def _words(self, found: NativeLayout) -> Ints:
        words = np.zeros(memory.WORDS, np.int64)
        for ask, function in zip(
            range(memory.ASK_KIND, memory.FULL + 8, 8), self._asked, strict=True
        ):
            words[ask // 8] = id(function)
        filled = {
            memory.RECORDS: self.maker.records, memory.CURRENT_RECORDING: self.maker.recording,
            memory.COUNTER: self.maker.nodes.words.ctypes.data,
            memory.NUMBERS: self.maker.others.words.ctypes.data,
            memory.LEAVES: id(self._leaves), memory.KEEPING: id(self._saving),
            memory.DEEPEST: DEEPEST, memory.READING: id(self._reading),
            memory.SELDOM: self._arguments.seldom.words.ctypes.data,
            memory.KINDS: self._kinds.ctypes.data, memory.NOTHING: id(None),
            memory.LAYOUTS: self._known_layouts.ctypes.data,
            memory.AT_SEQUENCE: found.sequence, memory.AT_EDGES: found.edges,
            memory.AT_METADATA: found.metadata,
            memory.AT_INPUTS: found.inputs, memory.INPUT_BYTES: found.input_bytes,
            memory.AT_SHAPE: found.shape, memory.AT_VARIABLE: found.variable,
            memory.SLOTS: self._sets_of_slots.ctypes.data, memory.LARGE_FROM: LARGEST,
        }  # fmt: skip
        if self._saved:
            filled |= _in_saved(saved_layout())
        for place, word in filled.items():
            words[place // 8] = word
        return words

    def stop(self) -> None:
        """Stop: nothing is found any more."""
        self._walk_from = self._walk_behind = _nothing  # they refer to this

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of what was not recorded, with their counts."""
        many = {
            f"saved values of a node with paths of more than {DEEPEST:,} nodes": int(
                self.words[memory.TOO_DEEP // 8]
            ),
            "lines that created nodes, when Python could not be called": self.maker.failed,
            **super().left_out,
        }
        return {text: times for text, times in many.items() if times}

    def rows(self) -> GraphRows:
        """All rows since the last time."""
        self._put_rows_aside()
        parts = self._full[:]
        del self._full[: len(parts)]
        return (
            parts[0]
            if len(parts) == 1
            else GraphRows(*map(np.concatenate, zip(*parts, strict=True)))
        )

    # -- traversal --------------------------------------------------------------------------------

    def _walk(self, roots: list[Any]) -> list[tuple[int, int]]:
        words, met = self._view, []
        words[memory.WALK // 8] = perf_counter_ns()
        for root in roots:
            if isinstance(root, _CUSTOM):
                both = self._walk_from(_address(root))
            else:
                both = self._walk_behind(root)
            met.append((both // memory.ABOVE, both % memory.ABOVE))
        if words[memory.LARGE_SEEN // 8]:
            self._meet_large()
        if self.look is not None:
            self.look(self._at, *self._looked_at)
            self._looked_at = words[memory.NODES_USED // 8], words[memory.SAVED_USED // 8]
        if self._saving:
            self._look_at_saved()
        if self._reading:
            self._read_arguments()
        return met

    def record_of(self, node: Any) -> NativeNodeRecord | None:
        own = _address(node)
        address = _word(own + self._layout.metadata) if own else 0
        if not address or _word(address + TABLE) != self.maker.records:
            return None
        is_ours = _word(address + RECORDING) == self.maker.recording
        return NativeNodeRecord(address) if is_ours else None

    def made_inside(self, handed: Iterable[Any]) -> None:
        """Does nothing: native nodes do not refer to the node in whose run they were created."""

    def _meet_large(self) -> None:
        """Report large memory found by this traversal, while it exists."""
        words = self._view
        words[memory.LARGE_SEEN // 8] = 0
        array = self._arrays[words[memory.NODES // 8]].saved[: words[memory.SAVED_USED // 8]]
        each = array[array[:, _STORAGE] != 0][:, _OF_MEMORY]
        large = each[each[:, 3] >= words[memory.LARGE_FROM // 8]]
        for storage, then, data, size in np.unique(large, axis=0).tolist():
            if then == words[memory.WALK // 8]:
                self.large(storage, then, data, size)

    def _look_at_saved(self) -> None:
        nodes = self._saving[:]
        del self._saving[: len(nodes)]
        if not SHOWS_SAVED:
            self._hidden[f"some {SAVED_UNSHOWN}"] += len(nodes)
            return
        kept = []
        for node in nodes:
            record, saved = self.record_of(node), self._kept(node)
            if record is not None and saved:
                kept.append(SavedByNode(record, saved, partial(_shape, node)))
        if kept:
            self._listener.found_saved(kept, self._view[memory.WALK // 8])

    def _read_arguments(self) -> None:
        nodes = self._reading[:]
        del self._reading[: len(nodes)]
        for node in nodes:
            record = self.record_of(node)
            if record is not None:
                self._arguments.look(node, record.number)

    # -- questions of the traversal ---------------------------------------------------------------

    def _kind(self, node: Any) -> int:
        name = name_of(node)
        number = self._numbers_of_names.get(name)
        if number is None:
            number = self._numbers_of_names[name] = len(self.names)
            self.names.append(name)
        kind = memory.KIND * number
        if node._sequence_nr() == LEAF and hasattr(node, "variable"):
            return kind + memory.IS_LEAF
        if self._saved and self._arguments.has(type(node)):
            kind += memory.HAS_ARGUMENTS
        if isinstance(node, _CUSTOM):  # all custom functions share one C++ class
            kind += memory.IS_CUSTOM
        if self._saved and self._slots_of(type(node)):
            kind += memory.HAS_SAVED
            if not kind & memory.IS_CUSTOM:
                kind += self._set_of_slots(node) << memory.UPPER_HALF
        return kind

    def _set_of_slots(self, node: Any) -> int:
        """The number of the set of slots for this kind of nodes, with offsets as in this node.

        0: some saved values are not stored in the node itself.
        """
        rows: list[int] = []
        slots = self._slots_of(type(node))
        for name, slot in slots:
            value = getattr(node, name)
            at = 0 if type(value) is tuple else pointer(value) - pointer(node)
            if not 0 < at < MOST_BYTES or at % 8:
                return 0
            if slot not in self.slots:
                self.slots.append(slot)
            nr = own_result(node.name(), slot)
            rows += [at, self.slots.index(slot), -1 if nr is None else nr]
        if len(slots) > memory.MOST_SLOTS or self._sets + 1 == memory.MOST_SETS:
            return 0
        self._sets += 1
        begin = self._sets * memory.SET_OF_SLOTS // 8
        self._sets_of_slots[begin : begin + 1 + len(rows)] = [len(slots), *rows]
        return self._sets

    def _leaf(self, node: Any) -> WalkLeaf:
        return self._leaf_of(node.variable)

    def _layout_of(self, node: Any, nr: int) -> int:
        found = _described(node, nr, self._layout)
        if not SHOWS_INPUTS and (NO_NUMBER in found[0] or found[1] is None):
            self._hidden[INPUTS_UNSHOWN] = 1
        number = self._numbers_of_layouts.get(found)
        if number is None:
            number = self._numbers_of_layouts[found] = len(self.layouts)
            self.layouts.append(found)
        return number

    def _put_rows_aside(self) -> None:
        """Set the rows so far aside. The traversal continues with other arrays."""
        if self._view[memory.LARGE_SEEN // 8]:
            self._meet_large()
        if self.look is not None:
            self.look(self._at, *self._looked_at)
            self._looked_at = 0, 0
        self.forms.grow(self._more_forms)
        needed = (memory.NEED_EDGES, memory.NEED_INPUTS)
        arrays = _Arrays(*(int(self.words[place // 8]) for place in needed))
        words = arrays.words.copy()
        self._arrays[int(words[0])] = arrays
        self._exchange(words.ctypes.data)
        self._full.append(self._arrays.pop(int(words[0])).rows(words))


def _in_saved(found: SavedLayout) -> dict[int, int]:
    """The offsets in saved values, as words."""
    plain = found.plain
    return {
        memory.AT_TENSOR: found.tensor, memory.AT_HOOKS: found.hooks,
        memory.UNDEFINED: found.undefined, memory.AT_HISTORY: found.history,
        memory.AT_NODE: found.node, memory.AT_NEEDS: found.needs.word,
        memory.PART_OF_NEEDS: found.needs.shift, memory.AT_OUTPUT: found.output.word,
        memory.PART_OF_OUTPUT: found.output.shift, memory.AT_COUNTER: found.counter,
        memory.AT_VERSION: found.version.word, memory.PART_OF_VERSION: found.version.shift,
        memory.AT_KEYS: 8 * plain.keys, memory.PLAIN: plain.plain,
        memory.AT_STORAGE: 8 * plain.storage, memory.AT_DATA: 8 * plain.data,
        memory.AT_BYTES: 8 * plain.bytes, memory.AT_OFFSET: 8 * plain.offset,
        memory.AT_SIZES: 8 * plain.sizes, memory.AT_DTYPE: plain.dtype // 4 * 8,
        memory.PART_OF_DTYPE: plain.dtype % 4 * 16,
    }  # fmt: skip


def _described(node: Any, nr: int, where: NativeLayout) -> tuple[tuple[int, ...], Any, Any]:
    """Shape, dtype and device of one input of a node."""
    if SHOWS_INPUTS:
        return described(node._input_metadata[nr])
    return described_at(_word(_address(node) + where.inputs) + nr * where.input_bytes, where)


def _shape(node: Any, nr: int) -> tuple[int, ...]:
    return described(node._input_metadata[nr])[0]


def _nobody_follows(storage: int, walk: int, data: int, size: int) -> None:
    """The default of `NativeWalker.large`: does nothing."""


def _nothing(root: Any) -> None:
    """Does nothing, after the end of watching."""


def _address(node: Any) -> int:
    """The address of a node, from its Python object; 0: a custom function's node was released."""
    if not isinstance(node, _CUSTOM):
        return _word(id(node) + IN_WRAPPER)
    place = id(node) + in_custom()
    if SHARED:  # the Python object does not own the node
        counts = _word(place + 8)
        if not counts or not _word(counts + COUNTED) & memory.LOW_HALF:
            return 0
    return _word(place)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


@cache
def _ready(frees: int) -> tuple[Callables, NativeLayout]:
    """The compiled traversal for this build. Raises NotFound if graphs are not as expected."""
    if ctypes.sizeof(ctypes.c_void_p) != WORD:
        raise NotFound("addresses are not of 64 bits")
    found = layout()
    folder = Path(torch.__file__).parent / "lib"
    for name, functions in LIBRARIES.items():
        library = next(
            (p for p in folder.glob(f"lib{name}.*") if p.suffix in {".so", ".dylib"}), None
        )
        if library is None:
            raise NotFound(f"there is no lib{name}")
        handle = ctypes.CDLL(str(library))
        for function, symbol in functions.items():
            try:
                setattr(lookups, function, External(handle, symbol, 1))
            except AttributeError as error:
                raise NotFound(str(error)) from None
    lookups.own_frees = own_function("own_frees", frees, 1)
    in_custom()
    _ = SHOWS_INPUTS or kinds_of_inputs()  # now, not in the middle of the program
    own = native_walk.walk, native_walk.walk_behind, native_walk.exchange, more_forms
    return Callables(dict.fromkeys(own, ONE)), found
