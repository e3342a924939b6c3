"""The memory of the compiled traversal: its words, its rows, and the offsets in objects."""

from __future__ import annotations

from gradscope.machine_code.callables import offset
from gradscope.watch.native.layout import INLINE
from gradscope.watch.python_walk import WalkLeaf

# Offsets of the words of a graph: first the arrays of rows, each with its number of rows and its
# size; then the functions to ask, and the lookup tables; then the offsets in a node.
NODES, NODES_USED, NODES_ROOM = range(0, 24, 8)
EDGES, EDGES_USED, EDGES_ROOM = range(24, 48, 8)
INPUTS, INPUTS_USED, INPUTS_ROOM = range(48, 72, 8)
SAVED, SAVED_USED, SAVED_ROOM = range(72, 96, 8)
ROWS = 12
ASK_KIND, ASK_LEAF, ASK_LAYOUT, FULL = range(96, 128, 8)
RECORDS, CURRENT_RECORDING, COUNTER, NUMBERS = range(128, 160, 8)
LEAVES, KEEPING, DEEPEST, TOO_DEEP = range(160, 192, 8)
KINDS, KINDS_USED, LAYOUTS, LAYOUTS_USED = range(192, 224, 8)
NEED_EDGES, NEED_INPUTS, NOTHING = range(224, 248, 8)
AT_SEQUENCE, AT_EDGES, AT_METADATA, AT_INPUTS = range(248, 280, 8)
INPUT_BYTES, AT_SHAPE, AT_VARIABLE = range(280, 304, 8)
SLOTS, WALK = range(304, 320, 8)
# Offsets in saved values; PART_OF_…: position of a number in its word, in bits.
AT_TENSOR, AT_HOOKS, UNDEFINED, AT_HISTORY, AT_NODE = range(320, 360, 8)
AT_NEEDS, PART_OF_NEEDS, AT_OUTPUT, PART_OF_OUTPUT = range(360, 392, 8)
AT_COUNTER, AT_VERSION, PART_OF_VERSION = range(392, 416, 8)
AT_KEYS, PLAIN, AT_STORAGE, AT_DATA, AT_BYTES = range(416, 456, 8)
AT_OFFSET, AT_SIZES, AT_DTYPE, PART_OF_DTYPE = range(456, 488, 8)
PENDING = 488
READING, SELDOM = range(496, 512, 8)
LARGE_FROM, LARGE_SEEN = range(512, 528, 8)
FORMS, FORMS_USED, FORMS_ROOM, FORMS_MOST, FORM_PLACES = range(528, 568, 8)
WORDS = 71

NODE_COLUMNS = (
    "number", "kind", "sequence", "topological", "context", "site", "t", "leaf", "first", "rest",
    "many", "edges",
)  # fmt: skip
EDGE_COLUMNS = ("node", "index", "target", "nr", "source")
SAVED_COLUMNS = (
    "node", "slot", "what", "tensor", "own", "layout", "t", "walk", "data", "bytes", "offset",
    "version", "form", "nr", "operand", "counter", "storage",
)  # fmt: skip
"""`operand`: address of a tensor that no node created and that is neither a leaf nor a result of
the node itself. `storage`: address of its StorageImpl."""

PLAIN_VALUE, PACKED, A_LEAF, LATER = range(4)
"""Kinds of rows. LATER: an output (`nr`) of a node that the traversal has not visited yet (instead
of the tensor: the record of the node); replaced before the traversal ends."""

NODE_ROW, EDGE_ROW = 8 * len(NODE_COLUMNS), 8 * len(EDGE_COLUMNS)
SAVED_ROW, FORM_ROW = 8 * len(SAVED_COLUMNS), 8 * (2 + 2 * INLINE)  # dtype, dims, sizes, strides
NO_TENSOR, OF_UNMET = -1, -3  # no node created it; a node that no traversal has found

IS_LEAF, HAS_SAVED, IS_CUSTOM, HAS_ARGUMENTS, KIND = 1, 2, 4, 8, 16
"""Flags of a kind; KIND: factor of the number of its name. The upper half: the index of its slots
among SLOTS; 0: its saved values are read from Python."""

MOST_SLOTS, SLOT = 15, 3 * 8
SET_OF_SLOTS = 8 + MOST_SLOTS * SLOT
"""The number of slots; for each its offset in the node, its number, and the index of the node's
result that it holds (or -1)."""

MOST_SETS = 512
UPPER_HALF = 32  # bits

MOST_KINDS, MOST_LAYOUTS = 1 << 10, 1 << 11  # at most half are used
FEW_FORMS, MOST_FORMS = 1 << 10, 1 << 17  # initial and largest number of entries
LAYOUT = 64  # bytes: its number plus one, dtype and device, number of sizes, and the sizes
SCRATCH = 3 * 8

LEAF_NODE, LEAF_TENSOR = offset(WalkLeaf, "node"), offset(WalkLeaf, "tensor")
ABOVE = 1 << 40
"""A traversal returns the number of a node, plus this times the length of its longest path."""
LOW_HALF = 0xFFFFFFFF
