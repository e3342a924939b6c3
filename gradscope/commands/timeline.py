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
from gradscope.commands.options.output import load, terminal, write_bytes
from gradscope.errors import UsageError
from gradscope.scene.choices import Heat, SortBy


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
    ranks: Annotated[
        Heat | None,
        typer.Option(
            help="Show all ranks by step: time, gradient (norm), non-finite or alike.",
            metavar="WHAT",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print --ranks as JSON.")] = False,
    everything: Everything = False,
    plain: Plain = False,
    width: Width = None,
) -> None:
    """Show steps and backwards over time."""
    import orjson

    from gradscope.analysis.ranks.heat import rank_steps
    from gradscope.render.views.ranks import columns_in, heat_lines
    from gradscope.render.views.timeline import event_lines, timeline_lines
    from gradscope.scene.timeline.events import event_list
    from gradscope.scene.timeline.ranks import heat_facts, heat_scene
    from gradscope.scene.timeline.timeline import MOST_RANKS, TimelineOptions, timeline_scene

    is_chosen = step is not None or task is not None or events
    limits = (0, 0) if everything else (rows or (40 if is_chosen else 10), 3 if is_chosen else 1)
    out = terminal(plain=plain, width=width)
    columns = columns_in(out.width)
    options = TimelineOptions(step, task, *limits, sort, columns)
    if json and ranks is None:
        raise UsageError("--json needs --ranks: gradscope timeline --ranks time --json")
    loaded = load(trace, rank)
    if ranks is not None:
        found = loaded.once(rank_steps)
        if found is None:
            raise UsageError("--ranks needs a trace of several ranks, with steps")
        if json:
            write_bytes(orjson.dumps(heat_facts(found, ranks)) + b"\n")
        else:
            many = 0 if everything else rows or MOST_RANKS
            out.show(heat_lines(heat_scene(found, ranks, columns, many), out.width, out.charset))
    elif events:
        out.show(event_lines(event_list(loaded, options, limits[0]), out.width, out.charset))
    else:
        out.show(timeline_lines(timeline_scene(loaded, options), out.width, out.charset))
