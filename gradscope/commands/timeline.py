"""`gradscope timeline`: steps and backwards over time, and the events of the engine."""

from typing import Annotated

import typer

from gradscope.commands.options.arguments import (
    Everything,
    Plain,
    Rank,
    Step,
    Task,
    TracePaths,
    Width,
)
from gradscope.commands.options.output import load, terminal
from gradscope.scene.choices import SortBy


def timeline(
    trace: TracePaths,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    events: Annotated[
        bool, typer.Option("--events", help="List the events of the engine.")
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            help="Show up to N spans, and N nodes or events of each backward. Default: 10; 40 with "
            "--step, --task or --events.",
            min=1,
            metavar="N",
        ),
    ] = None,
    sort: Annotated[
        SortBy,
        typer.Option(help="Order of the nodes: order (as they ran) or time.", metavar="BY"),
    ] = SortBy.ORDER,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show steps and backwards over time."""
    from gradscope.render.views.timeline import event_lines, timeline_lines
    from gradscope.scene.timeline.events import event_list
    from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene

    is_chosen = step is not None or task is not None or events
    limits = (0, 0) if everything else (rows or (40 if is_chosen else 10), 3 if is_chosen else 1)
    options = TimelineOptions(step, task, *limits, sort)
    out = terminal(plain=plain, width=width)
    loaded = load(trace, rank)
    if events:
        out.show(event_lines(event_list(loaded, options, limits[0]), out.width, out.charset))
    else:
        out.show(timeline_lines(timeline_scene(loaded, options), out.width, out.charset))
