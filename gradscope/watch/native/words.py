"""What the compiled walk works on: its words, its rows, and where objects keep what."""

from __future__ import annotations

from gradscope.compiled.callables import offset
from gradscope.watch.listener import Made, MadeWithTraceback
from gradscope.watch.walk import Leaf

# The places of a graph's words. First arrays of rows, each with how many rows it has and has room
# for; then what is asked, and what is looked up; then where things are in a node.
NODES, NODES_USED, NODES_ROOM = range(0, 24, 8)
EDGES, EDGES_USED, EDGES_ROOM = range(24, 48, 8)
INPUTS, INPUTS_USED, INPUTS_ROOM = range(48, 72, 8)
ROWS = 9
NEW, ASK_KIND, ASK_LEAF, ASK_LAYOUT, FULL = range(72, 112, 8)
KEY, PARENT, CLASS, WITH_TRACEBACK, RECORDING = range(112, 152, 8)
NUMBERS, LEAVES, KEEPING, DEEPEST, TOO_DEEP = range(152, 192, 8)
KINDS, KINDS_USED, LAYOUTS, LAYOUTS_USED = range(192, 224, 8)
NEED_EDGES, NEED_INPUTS, NOTHING = range(224, 248, 8)
AT_SEQUENCE, AT_EDGES, AT_METADATA, AT_DICT, AT_INPUTS = range(248, 288, 8)
INPUT_BYTES, AT_SHAPE, AT_VARIABLE = range(288, 312, 8)
WORDS = 39

NODE_COLUMNS = (
    "number", "kind", "sequence", "topological", "context", "site", "t", "leaf", "first", "rest",
    "many", "edges",
)  # fmt: skip
EDGE_COLUMNS = ("node", "index", "target", "nr", "source")
NODE_ROW, EDGE_ROW = 8 * len(NODE_COLUMNS), 8 * len(EDGE_COLUMNS)
NO_TENSOR = -1

IS_LEAF, HAS_SAVED, IS_CUSTOM, KIND = 1, 2, 4, 8
"""What a kind says of a node; and KIND times the number of its name."""

MOST_KINDS, MOST_LAYOUTS = 1 << 10, 1 << 11  # half as many are kept
LAYOUT = 64  # bytes: its number plus one, dtype and device, how many numbers, and the numbers
SCRATCH = 3 * 8

OF_RECORDING, NUMBER, CONTEXT, SITE, TIME, TOPOLOGICAL, FIRST, REST, MANY = (
    offset(Made, name)
    for name in "recording number context site t topological first rest many".split(" ")  # noqa: SIM905
)
OF_TRACEBACK = offset(MadeWithTraceback, "made")
LEAF_NODE, LEAF_TENSOR = offset(Leaf, "node"), offset(Leaf, "tensor")
TYPE = 8  # of an object of Python's
LOW_HALF = 0xFFFFFFFF
