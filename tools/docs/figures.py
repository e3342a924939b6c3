"""Record the programs in docs/engine/ and put what came out into docs/engine/index.md.

    python tools/docs/figures.py            # rewrite the figures
    python tools/docs/figures.py --check    # say which are behind; exit with 1 if any is

A figure stands between `<!-- figure: KIND NAME … -->` and `<!-- /figure -->`. What holds of every
run is checked; pictures and times are made anew, and not compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from paths import DOCS, HOUSE

from gradscope.analysis.identity.names import node_names
from gradscope.scene.timeline.events import event_list
from gradscope.scene.timeline.timeline import TimelineOptions
from gradscope.trace import schema
from gradscope.trace.load_save import load
from gradscope.trace.trace import Trace

PROGRAMS = DOCS / "engine"
PAGE = PROGRAMS / "index.md"
FIGURE = re.compile(r"(<!-- figure: (.+?) -->\n)(.*?)(<!-- /figure -->)", re.DOTALL)


def command(*arguments: str) -> str:
    """What gradscope prints."""
    outcome = subprocess.run(
        [Path(sys.executable).with_name("gradscope"), *arguments],
        cwd=HOUSE,
        env={**os.environ, "COLUMNS": "110", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode:
        sys.exit(f"gradscope {' '.join(arguments)}\n{outcome.stdout}{outcome.stderr}")
    return outcome.stdout


@cache
def recorded(name: str, folder: Path) -> Trace:
    """The trace of a program, kept in a folder."""
    path = folder / f"{name}.json"
    source = PROGRAMS / f"{name}.py"
    shown = source if source.exists() else HOUSE / "samples" / f"{name}.py"
    command("trace", "-q", "--on", "gradscope", "-o", str(path), str(shown.relative_to(HOUSE)))
    return load(path)


def code(_: Path, name: str) -> str:
    """The program itself."""
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    return f"```python\n{text}```\n"


def events(folder: Path, name: str, task: str, *kinds: str) -> str:
    """The events of one backward, without their times; of some kinds, or all."""
    trace = recorded(name, folder)
    lines = event_list(trace, TimelineOptions(task=int(task)), 0).lines
    rows = [(e.kind, e.node, e.details) for e in lines if not kinds or e.kind in kinds]
    return table(rows)


def every(folder: Path, name: str, *kinds: str) -> str:
    """The events of all backwards, each with its backward's number."""
    lines = event_list(recorded(name, folder), TimelineOptions(), 0).lines
    rows = [(f"b{e.backward}", e.kind, e.node, e.details) for e in lines]
    return table([row for row in rows if not kinds or row[1] in kinds])


def nodes(folder: Path, name: str) -> str:
    """Every node: its number in the sequence, where its gradients go, what it keeps."""
    trace = recorded(name, folder)
    names = node_names(trace)
    edges: dict[int, list[str]] = {}
    for edge in sorted(trace.rows(schema.Edge), key=lambda edge: (edge.node, edge.index)):
        target = "nobody" if edge.next == schema.NONE else names.title(edge.next)
        edges.setdefault(edge.node, []).append(target)
    kept: dict[int, list[str]] = {}
    for saved in trace.rows(schema.Saved):
        kept.setdefault(saved.node, []).append(f"{saved.slot} (version {saved.version})")
    head = ("node", "sequence", "gradients go to", "keeps")
    rows = [
        (
            names.title(node.id),
            "last" if node.sequence_nr == schema.NONE else str(node.sequence_nr),
            ", ".join(edges.get(node.id, [])),
            ", ".join(kept.get(node.id, [])),
        )
        for node in trace.rows(schema.Node)
    ]
    return table([head, *rows])


def calls(folder: Path, name: str) -> str:
    """Every call of an operation: in which backward it ran, if in one."""
    trace = recorded(name, folder)
    numbers = {task.id: f"in backward {n}" for n, task in enumerate(trace.rows(schema.GraphTask))}
    nodes_by_id = node_names(trace)
    rows = [
        (op.name, numbers.get(op.task, "forward"),
         "" if op.node == schema.NONE else nodes_by_id.title(op.node))
        for op in trace.rows(schema.Op)
    ]  # fmt: skip
    return table([("call", "when", "its node"), *rows])


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows of text in columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    return "```\n" + "".join(f"{line.rstrip()}\n" for line in lines) + "```\n"


def picture(folder: Path, name: str) -> str:
    if folder == PROGRAMS:
        recorded(name, folder)
        command("render", "-o", str(folder / f"{name}.svg"), str(folder / f"{name}.json"))
    return f"![the graph of {name}.py](engine/{name}.svg)\n"


def timeline(folder: Path, name: str) -> str:
    if folder != PROGRAMS:
        return ""
    recorded(name, folder)
    text = command("timeline", str(folder / f"{name}.json")).replace(f"{HOUSE}{os.sep}", "")
    return "```\n" + "".join(f"{line.rstrip()}\n" for line in text.splitlines()) + "```\n"


KINDS: dict[str, Callable[..., str]] = {
    "code": code, "events": events, "every": every, "nodes": nodes, "calls": calls,
    "picture": picture, "timeline": timeline,
}  # fmt: skip


def drawn(page: str, folder: Path) -> str:
    """The page with all of its figures made anew; those that are not in `folder` stay."""

    def figure(found: re.Match[str]) -> str:
        kind, *arguments = found[2].split()
        return f"{found[1]}{KINDS[kind](folder, *arguments) or found[3]}{found[4]}"

    return FIGURE.sub(figure, page)


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    if arguments == ["--check"]:
        with TemporaryDirectory() as folder:
            fresh = drawn(page, Path(folder))
        if fresh != page:
            print(f"{PAGE.relative_to(HOUSE)} is behind: python tools/docs/figures.py")
        return int(fresh != page)
    PAGE.write_text(drawn(page, PROGRAMS), encoding="utf-8", newline="\n")
    print(PAGE.relative_to(HOUSE))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
