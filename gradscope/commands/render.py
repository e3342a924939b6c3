"""`gradscope render`: draw the graph of a trace."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Everything, Rank, Step, Task, TracePath
from gradscope.commands.options.output import (
    load,
    write,
)
from gradscope.render.formats import format_help
from gradscope.scene.choices import ColorBy, GraphOf, GroupBy


class ThemeName(StrEnum):
    """The background of a picture."""

    LIGHT = "light"
    DARK = "dark"


Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="The file to write; - for the output.")
]
Graph = Annotated[
    GraphOf | None,
    typer.Option(
        help="What the program computed, its backward, or both; without it the backward, and of a "
        "program without gradients the forward graph. plan: what captured steps do instead.",
        metavar="forward|backward|both|plan",
    ),
]
Around = Annotated[
    str | None,
    typer.Option(
        help="Only what is near a node: its id, its name (MulBackward0#2), a leaf, a module, "
        "a source line (train.py:41), or a finding (#b4ce).",
        metavar="NODE",
    ),
]
PathTo = Annotated[
    str | None,
    typer.Option(help="Only what a gradient passes on its way to this leaf.", metavar="PARAM"),
]
Expand = Annotated[
    list[str] | None,
    typer.Option(help="Open this module, or all around this line or node.", metavar="NAME"),
]
Fold = Annotated[
    list[str] | None,
    typer.Option(help="Keep this module, or the loop on this line, folded.", metavar="NAME"),
]


def render(
    trace: TracePath,
    output: Output = None,
    format: Annotated[str | None, typer.Option("-f", "--format", help=format_help())] = None,
    around: Around = None,
    hops: Annotated[int, typer.Option(help="How near, with --around.", min=0)] = 2,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    path_to: PathTo = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="Only the chain of nodes that took longest.")
    ] = False,
    color: Annotated[ColorBy, typer.Option(help="What the colours tell.")] = ColorBy.KIND,
    group: Annotated[GroupBy, typer.Option(help="What is framed together.")] = GroupBy.MODULE,
    expand: Expand = None,
    fold: Fold = None,
    saved: Annotated[bool, typer.Option("--saved", help="Show what nodes keep.")] = False,
    tensors: Annotated[bool, typer.Option("--tensors", help="Show all shapes.")] = False,
    merge_leaves: Annotated[
        bool, typer.Option("--merge-leaves", help="One box for a leaf, not one for each use.")
    ] = False,
    graph: Graph = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Open no more than this many boxes, legible or not.", min=1),
    ] = None,
    everything: Everything = False,
    theme: Annotated[ThemeName, typer.Option(help="The background.")] = ThemeName.LIGHT,
) -> None:
    """Draw the backward graph of a trace, its forward graph, or both."""
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
    target, loaded = target_of(trace, output, format), load(trace, rank)
    selection = with_finding(loaded, options.selection, calls=graph is GraphOf.FORWARD)
    options = replace(options, selection=selection)
    write(loaded, options, target, "dark" if theme is ThemeName.DARK else "")
