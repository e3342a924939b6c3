"""List the nodes and the events of a trace: a reader in plain Python, without gradscope.

python docs/read_trace.py docs/gallery/mlp.json
"""

import gzip
import json
import sys
from itertools import accumulate

CODES = """pop node_begin node_end push task_begin task_end skipped hook_begin hook_end capture
    accumulate saved_released callback reentrant_enter reentrant_leave error push pop decrement
    buffer_made buffer_added wait wake saved_unpacked""".split()


def cells(coded, rows):
    """A column of integers or text, as "How a column is written" says."""
    if not isinstance(coded, dict):
        return coded if isinstance(coded, list) else [coded] * rows
    if "runs" in coded:
        pairs = zip(coded["runs"], coded["values"], strict=True)
        return [value for times, value in pairs for _ in range(times)]
    return list(accumulate(cells(coded["by"], rows - 1), initial=coded["first"]))


def table(trace, name, *columns):
    """The rows of a table, each as a tuple of these columns."""
    for block in trace["blocks"]:
        if block.get("table") == name and not block.get("amend"):
            yield from zip(*(cells(block.get(c, 0), block["rows"]) for c in columns), strict=True)


def nodes(trace):
    """Every backward node: its id, its name and its sequence_nr."""
    text = dict(table(trace, "string", "id", "text"))
    made_by = dict(table(trace, "short.operator", "number", "node_name"))
    found = list(table(trace, "node", "id", "name", "sequence_nr"))
    for id, op, sequence, topological in table(
        trace, "short.call", "number", "op", "sequence", "topological"
    ):
        found += [(id, made_by[op], sequence)] if topological >= 0 else []
    return sorted((id, text[name], sequence) for id, name, sequence in found)


def events(trace):
    """Every event in order: its kind and its node (-1: none)."""
    singles = table(trace, "short.event", "t", "code", "node")
    placed = [(t, [(CODES[code], node)]) for t, code, node in singles]
    placed += [(t, [("dependency", n)]) for t, n in table(trace, "short.dependency", "t", "node")]
    moves = {}
    for begin, node, how, left in table(trace, "short.move", "begin", "target", "how", "left"):
        buffer = "buffer_made" if how % 4 == 0 else "buffer_added"
        sent = [("decrement", node), (buffer, node), ("push", node)]
        moves.setdefault(begin, []).extend(sent if left == 0 else sent[:2])
    for begin, ended, node, told in table(trace, "short.run", "begin", "ended", "node", "told"):
        kinds = ["pop", "node_begin", "node_end", "saved_released"][: 3 + told if told >= 0 else 0]
        sent = moves.get(begin, [])
        placed.append((ended if told < 0 else begin, [(kind, node) for kind in kinds] + sent))
    return [event for _, events in sorted(placed, key=lambda pair: pair[0]) for event in events]


if __name__ == "__main__":
    opened = gzip.open if sys.argv[1].endswith(".gz") else open
    with opened(sys.argv[1], "rt", encoding="utf-8") as file:
        trace = json.load(file)
    for row in [*nodes(trace), *events(trace)]:
        print(*row)
