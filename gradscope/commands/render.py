"""`gradscope render`: draw the graph of a trace."""

import sys
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.arguments import Rank, Step, Task, TracePaths
from gradscope.commands.options.output import load, of_all, say, write
from gradscope.errors import UsageError
from gradscope.render.formats import format_help
from gradscope.scene.choices import ColorBy, GraphOf, GroupBy

if TYPE_CHECKING:
    from gradscope.render.pictures import Target
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.trace.trace import Trace


class ThemeName(StrEnum):
    """The background of a picture."""

    LIGHT = "light"
    DARK = "dark"


_part_option = partial(typer.Option, rich_help_panel="Part of the graph")
_look_option = partial(typer.Option, rich_help_panel="Look of the picture")
LARGE = 20_000_000
"""Size of a picture in bytes above which the user is asked."""
BYTES_OF_A_BOX = 500, 1_100
"""Least and largest size of a box in an SVG with its edges, measured with 10,000 to 100,000 nodes.
"""

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="File to write; its ending chooses the format. - is standard output.",
        metavar="FILE",
    ),
]
Graph = Annotated[
    GraphOf | None,
    typer.Option(
        help="Graph to draw: backward (the default), forward, both, or plan (captured steps). "
        "Without gradients the default is forward.",
        metavar="GRAPH",
    ),
]
Around = Annotated[
    str | None,
    _part_option(
        help="Draw what is near a node (its id or name, as MulBackward0#2), a parameter, a "
        "module, a source line (train.py:41) or a finding (#b4ce).",
        metavar="NODE",
    ),
]
PathTo = Annotated[
    str | None,
    _part_option(
        help="Draw only what a gradient passes on its way to this parameter.", metavar="PARAM"
    ),
]
Expand = Annotated[
    list[str] | None,
    _look_option(help="Open this module, or what is around this line or node.", metavar="NAME"),
]
Fold = Annotated[
    list[str] | None,
    _look_option(help="Keep this module, or the loop on this line, folded.", metavar="NAME"),
]
OutputFormat = Annotated[
    str | None, typer.Option("-f", "--format", help=format_help(), metavar="FORMAT")
]
Hops = Annotated[
    int,
    _part_option(help="With --around: how many edges away from the node.", min=0, metavar="N"),
]
Critical = Annotated[
    bool,
    _part_option("--critical", help="Draw only the chain of nodes that took longest."),
]
Color = Annotated[
    ColorBy,
    _look_option(help="Meaning of the colors: kind, time, grad or structure.", metavar="BY"),
]
Group = Annotated[
    GroupBy,
    _look_option(help="Draw frames around modules, or none.", metavar="BY"),
]
WithSaved = Annotated[bool, _look_option("--saved", help="Show saved tensors.")]
WithShapes = Annotated[bool, _look_option("--tensors", help="Show the shape on every edge.")]
OneLeaf = Annotated[
    bool,
    _look_option("--merge-leaves", help="Draw one box for a leaf, not one for each use."),
]
Limit = Annotated[
    int | None,
    _look_option(
        help="Draw up to N boxes, even if their text becomes too small to read.", min=1, metavar="N"
    ),
]
Theme = Annotated[ThemeName, _look_option(help="light or dark.", metavar="THEME")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Write a large picture without asking.")]


def render(
    trace: TracePaths,
    output: Output = None,
    format: OutputFormat = None,
    around: Around = None,
    hops: Hops = 2,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    path_to: PathTo = None,
    critical: Critical = False,
    color: Color = ColorBy.KIND,
    group: Group = GroupBy.MODULE,
    expand: Expand = None,
    fold: Fold = None,
    saved: WithSaved = False,
    tensors: WithShapes = False,
    merge_leaves: OneLeaf = False,
    graph: Graph = None,
    limit: Limit = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Draw everything: all steps and all boxes.")
    ] = False,
    theme: Theme = ThemeName.LIGHT,
    yes: Yes = False,
) -> None:
    """Draw the graph of a trace as a picture."""
    from gradscope.analysis.answers.meant import with_finding
    from gradscope.analysis.graph.selection import Selection
    from gradscope.render.pictures import target_of
    from gradscope.scene.graph.options import GraphOptions

    options = GraphOptions(
        graph=graph,
        selection=Selection(step, task, around, hops, path_to, critical=critical),
        color_by=color,
        group_by=group,
        merge_leaves=merge_leaves,
        saved=saved,
        tensors=tensors,
        expand=tuple(expand or ()),
        fold=tuple(fold or ()),
        everything=everything,
        limit=limit,
    )
    target = target_of(of_all(trace), output, format)
    loaded = load(trace, rank, _step_only(options, target))
    if loaded.all_nodes is not None and not len(loaded.all_nodes.ids):
        loaded = load(trace, rank)  # the picture is of the forward
    selection = with_finding(loaded, options.selection, calls=graph is GraphOf.FORWARD)
    options = replace(options, selection=selection)
    if not yes:
        _ask_about_size(loaded, options, target)
    write(loaded, options, target, "dark" if theme is ThemeName.DARK else "")


def _step_only(options: "GraphOptions", target: "Target") -> int | None:
    """The step, if the picture needs no other.

    Calls are numbered and names found among all; saved values, too, and other steps release them.
    """
    part, format = options.selection, target.format
    is_backward = options.graph in {None, GraphOf.BACKWARD}
    is_picture = format.takes == "picture" and format.name != "json"  # that has ids
    others = part.around, part.path_to, options.expand, options.fold, options.saved
    is_whole = not (is_backward and is_picture) or part.backward is not None or any(others)
    return None if is_whole else part.step


def _ask_about_size(trace: "Trace", options: "GraphOptions", target: "Target") -> None:
    """Ask before drawing a picture that is larger than most programs can open."""
    from gradscope.scene.readable import byte_count

    boxes = _most_boxes(trace, options)
    least, most = (boxes * each for each in BYTES_OF_A_BOX)
    if most <= LARGE or target.format.takes != "picture":
        return
    size = f"{byte_count(least)} to {byte_count(most)}"
    large = f"the picture would have up to {boxes:,} boxes, {size}"
    smaller = "--step, --task or --around choose a part of it"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{large}: add --yes to write it; {smaller}")
    say((f"{large}; {smaller}",))
    if not typer.confirm("Write it?", err=True):
        raise typer.Abort


def _most_boxes(trace: "Trace", options: "GraphOptions") -> int:
    """The largest number of boxes that the picture can have, without laying it out."""
    from gradscope.analysis.graph.selection import select
    from gradscope.trace.schema import Node, Op

    limit = None if options.everything else options.limit or 0
    if limit is not None and limit * BYTES_OF_A_BOX[1] <= LARGE:
        return limit
    every = len(trace.table(Op)) if options.graph not in {None, GraphOf.BACKWARD} else 0
    if options.graph is not GraphOf.FORWARD and len(trace.table(Node)):
        every += len(select(trace, options.selection).nodes)
    return every if limit is None else min(limit, every)
