"""Traverses a graph in a C function, without the interpreter or an object for each node.

The offsets in a node are those found by `layout.py`. All of this runs with the interpreter lock
held. Python is asked about kinds of nodes, layouts and leaves that occur for the first time, and
may run any code meanwhile; so a node's row is written at once after all answers are available.
"""

from __future__ import annotations

from gradscope.machine_code.interpreter import (
    PYTHON,
    as_int,
    call_nothing,
    drop,
    from_int,
    keep,
)
from gradscope.machine_code.language import External, increase, load, store
from gradscope.machine_code.loaded import PROCESS
from gradscope.machine_code.seldom import due
from gradscope.watch.native.forms import lacks_forms
from gradscope.watch.native.layout import IN_WRAPPER
from gradscope.watch.native.lookups import (
    is_met,
    kind_of,
    layout_of,
    leaf_of,
    python_object,
    record_made_late,
    record_of,
)
from gradscope.watch.native.records import (
    CONTEXT,
    FIRST,
    MANY,
    NUMBER,
    REST,
    SITE,
    TIME,
    TOPOLOGICAL,
)
from gradscope.watch.native.saved import put_saved, settle, source_of
from gradscope.watch.native.versions import EDGE, OWNER
from gradscope.watch.native.walk_memory import (
    ABOVE,
    AT_EDGES,
    AT_INPUTS,
    AT_SEQUENCE,
    AT_VARIABLE,
    DEEPEST,
    EDGE_ROW,
    EDGES,
    EDGES_ROOM,
    EDGES_USED,
    FULL,
    HAS_ARGUMENTS,
    HAS_SAVED,
    INPUTS,
    INPUTS_ROOM,
    INPUTS_USED,
    IS_LEAF,
    KEEPING,
    KIND,
    LEAF_NODE,
    LEAF_TENSOR,
    LOW_HALF,
    MOST_SLOTS,
    NEED_EDGES,
    NEED_INPUTS,
    NO_TENSOR,
    NODE_ROW,
    NODES,
    NODES_ROOM,
    NODES_USED,
    NOTHING,
    NUMBERS,
    READING,
    ROWS,
    SAVED_ROOM,
    SAVED_USED,
    SCRATCH,
    SELDOM,
    SET_OF_SLOTS,
    SLOTS,
    TOO_DEEP,
    UPPER_HALF,
)

OF_OWNER, IS_VISITED, CELL = 8, 16, 24

malloc = External(PROCESS, "malloc", 1)
realloc = External(PROCESS, "realloc", 2)
free = External(PROCESS, "free", 1, nothing=True)
append = External(PYTHON, "PyList_Append", 2, half=True)


def put(place: int, value: int) -> int:
    """Store a number in a cell, as a Python object."""
    former = load(place)
    store(place, from_int(value))
    drop(former)
    return 0


def write_edges(graph: int, node: int, number: int) -> int:
    """Write the rows of a node's edges. Returns the length of the longest path from it."""
    edge, end = load(node + load(graph + AT_EDGES)), load(node + load(graph + AT_EDGES) + 8)
    row = load(graph + EDGES) + EDGE_ROW * load(graph + EDGES_USED)
    above, index = 0, 0
    while edge < end:
        following, nr = load(edge), load(edge + EDGE - 8) & LOW_HALF
        target, source = 0, NO_TENSOR
        if following != 0:
            record = record_of(graph, following)
            if record != 0:
                target, source = load(record + NUMBER), source_of(record, nr)
                path = load(record + TOPOLOGICAL) + 1
                above = path if path > above else above  # noqa: FURB136 -- there is no max
        store(row, number)
        store(row + 8, index)
        store(row + 16, target)
        store(row + 24, nr)
        store(row + 32, source)
        row += EDGE_ROW
        edge += EDGE
        index += 1
    increase(graph + EDGES_USED, index)
    return above


def edges_of(graph: int, node: int) -> int:
    """The number of a node's edges."""
    begin = node + load(graph + AT_EDGES)
    return (load(begin + 8) - load(begin)) // EDGE


def write_inputs(graph: int, many: int, layouts: int) -> int:
    """Write the layouts of a node's inputs. Returns the first number for the further inputs."""
    place = load(graph + INPUTS) + 8 * load(graph + INPUTS_USED)
    i = 0
    while i < many:
        store(place + 8 * i, load(layouts + 8 * i))
        i += 1
    increase(graph + INPUTS_USED, many)
    numbers = load(graph + NUMBERS)
    rest = load(numbers)
    if many > 1:
        store(numbers, rest + 2 * (many - 1))
    return rest


def write_node(graph: int, node: int, record: int, kind: int, leaf: int, layouts: int) -> int:
    """Write all rows of a node. Returns the length of the longest path from it."""
    number = load(record + NUMBER)
    first, rest, many = number, 0, 1
    if leaf != 0:
        first = as_int(load(leaf + LEAF_TENSOR))
        put(leaf + LEAF_NODE, number)
    else:
        many = load(node + load(graph + AT_INPUTS) + 8) & LOW_HALF
        rest = write_inputs(graph, many, layouts)
    before = load(graph + EDGES_USED)
    above = write_edges(graph, node, number)
    row = load(graph + NODES) + NODE_ROW * load(graph + NODES_USED)
    store(row, number)
    store(row + 8, (kind & LOW_HALF) // KIND)
    store(row + 16, load(node + load(graph + AT_SEQUENCE)))
    store(row + 24, above)
    store(row + 32, load(record + CONTEXT))
    store(row + 40, load(record + SITE))
    store(row + 48, load(record + TIME))
    store(row + 56, load(node + load(graph + AT_VARIABLE)) if leaf != 0 else 0)
    store(row + 64, first)
    store(row + 72, rest)
    store(row + 80, many)
    store(row + 88, load(graph + EDGES_USED) - before)
    increase(graph + NODES_USED, 1)
    store(record + FIRST, first)
    store(record + REST, rest)
    store(record + MANY, many)
    store(record + TOPOLOGICAL, above)
    return above


def has_room(graph: int) -> int:
    """Whether there is room for the rows."""
    if load(graph + NODES_USED) >= load(graph + NODES_ROOM):
        return 0
    if load(graph + SAVED_USED) + MOST_SLOTS > load(graph + SAVED_ROOM):
        return 0
    if lacks_forms(graph):
        return 0
    if load(graph + EDGES_USED) + load(graph + NEED_EDGES) > load(graph + EDGES_ROOM):
        return 0
    return load(graph + INPUTS_USED) + load(graph + NEED_INPUTS) <= load(graph + INPUTS_ROOM)


def is_due(graph: int, kind: int, record: int, layout: int) -> int:
    """Whether the arguments of a node that are not tensors should be read."""
    return due(load(graph + SELDOM), kind & LOW_HALF, load(record + SITE), layout)


def remembered(cell: int, nodes: int) -> int:
    """Append a node to a Python list; 0: an error."""
    wrapper = python_object(cell)
    if wrapper == 0:
        return 0
    failed = append(nodes, wrapper)
    drop(wrapper)
    return failed == 0


def look(graph: int, cell: int, record: int, scratch: int) -> int:
    """Record one node; 0: an error. First all questions to Python, then all rows."""
    node = load(cell)
    kind = kind_of(graph, cell)
    if kind < 0:
        return 0
    leaf, i, layouts = 0, 0, scratch + SCRATCH
    many = load(node + load(graph + AT_INPUTS) + 8) & LOW_HALF
    edges = edges_of(graph, node)
    if kind & IS_LEAF and load(node + load(graph + AT_VARIABLE)) != 0:
        leaf = leaf_of(graph, cell, load(node + load(graph + AT_VARIABLE)))
        if leaf == 0:
            return 0
    if leaf == 0:
        while i < many:
            layout = layout_of(graph, cell, i, scratch)
            if layout < 0:
                return 0
            store(layouts + 8 * i, layout)
            i += 1
    store(graph + NEED_EDGES, edges)
    store(graph + NEED_INPUTS, many)
    while has_room(graph) == 0:
        answer = call_nothing(load(graph + FULL))
        if answer == 0:
            return 0
        drop(answer)
        store(graph + NEED_EDGES, edges)
        store(graph + NEED_INPUTS, many)
    if is_met(record):  # meanwhile, by another thread
        return 1
    above = write_node(graph, node, record, kind, leaf, layouts)
    shape = load(layouts) if many > 0 else 0
    reads = kind & HAS_ARGUMENTS and is_due(graph, kind, record, shape)
    if reads and remembered(cell, load(graph + READING)) == 0:
        return 0
    if kind & HAS_SAVED:
        slots = load(graph + SLOTS) + SET_OF_SLOTS * (kind >> UPPER_HALF)
        if kind >> UPPER_HALF > 0 and put_saved(graph, node, record, slots, layouts):
            return 1
        if above > load(graph + DEEPEST):
            increase(graph + TOO_DEEP, 1)
            return 1
        return remembered(cell, load(graph + KEEPING))
    return 1


def push_unknown(graph: int, node: int, place: int) -> int:
    """Push the unknown targets of a node, the first on top. Returns the next one."""
    first, edge = load(node + load(graph + AT_EDGES)), load(node + load(graph + AT_EDGES) + 8)
    while edge > first:
        edge -= EDGE
        following = load(edge)
        if following != 0:
            record = record_of(graph, following)
            known = 0
            if record != 0:
                known = is_met(record)
            if known == 0:
                place = pushed(place, following)
    return place


def pushed(cell: int, node: int) -> int:
    """Push a node. Returns the next cell."""
    store(cell, node)
    store(cell + OF_OWNER, load(node + OWNER) if OWNER else 0)
    store(cell + IS_VISITED, 0)
    return cell + CELL


def walk(self: int, root: int) -> int:
    """Visit all unknown nodes that the node at an address leads to, and then itself."""
    return walk_from(as_int(self), as_int(root))


def walk_behind(self: int, root: int) -> int:
    """Visit all unknown nodes behind a node, given its Python object."""
    return walk_from(as_int(self), load(root + IN_WRAPPER))


def walk_from(graph: int, root: int) -> int:
    """Visit all unknown nodes that a node leads to, then itself. Returns its number.

    A stack has a cell for each node: its address, the address of its reference counts, and whether
    its targets were visited. Above it is room for the data of a single visit.
    """
    room, used = 256, 1
    stack = malloc(CELL * room)
    pushed(stack, root)
    while used > 0:
        cell = stack + CELL * (used - 1)
        node = load(cell)
        record = record_of(graph, node)
        if record == 0:
            record = record_made_late(graph, node)
            if record == 0:
                settle(graph)
                free(stack)
                return 0
        if is_met(record):
            used -= 1
        else:
            edges, many = edges_of(graph, node), load(node + load(graph + AT_INPUTS) + 8) & LOW_HALF
            if used + 8 + edges + many > room:
                room = 2 * room + edges + many
                stack = realloc(stack, CELL * room)
                cell = stack + CELL * (used - 1)
            end = cell + CELL
            if load(cell + IS_VISITED) == 0:
                store(cell + IS_VISITED, 1)
                end = push_unknown(graph, node, cell + CELL)
            if end == cell + CELL:
                if look(graph, cell, record, end) == 0:
                    settle(graph)
                    free(stack)
                    return 0
                used -= 1
            else:
                used += (end - cell - CELL) // CELL
    free(stack)
    settle(graph)
    record = record_of(graph, root)
    return from_int(ABOVE * load(record + TOPOLOGICAL) + load(record + NUMBER))


def exchange(self: int, given: int) -> int:
    """Replace the arrays of rows and their sizes by the given ones."""
    graph, other = as_int(self), as_int(given)
    settle(graph)
    i = 0
    while i < ROWS:
        former = load(graph + 8 * i)
        store(graph + 8 * i, load(other + 8 * i))
        store(other + 8 * i, former)
        i += 1
    keep(load(graph + NOTHING))
    return load(graph + NOTHING)
