"""`gradscope timeline`: steps and backwards over time, and the events of the engine."""

from typing import TYPE_CHECKING, Annotated

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
from gradscope.scene.choices import RankHeat, SortBy

if TYPE_CHECKING:
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.trace.trace import Trace


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
        RankHeat | None,
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
    from gradscope.render.views.rank_views import columns_in
    from gradscope.render.views.timeline import event_lines, timeline_lines
    from gradscope.scene.timeline.events import event_list
    from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene

    is_chosen = step is not None or task is not None or events
    limits = (0, 0) if everything else (rows or (40 if is_chosen else 10), 3 if is_chosen else 1)
    out = terminal(plain=plain, width=width)
    options = TimelineOptions(step, task, *limits, sort, columns_in(out.width))
    if json and ranks is None:
        raise UsageError("--json needs --ranks: gradscope timeline --ranks time --json")
    is_of_all = task is not None or events or ranks is not None  # events have numbers
    loaded = load(trace, rank, None if is_of_all else step)
    if ranks is not None:
        _show_ranks(loaded, ranks, out, 0 if everything else rows, as_json=json)
    elif events:
        out.show(event_lines(event_list(loaded, options, limits[0]), out.width, out.charset))
    else:
        out.show(timeline_lines(timeline_scene(loaded, options), out.width, out.charset))


def _show_ranks(
    trace: "Trace", what: RankHeat, out: "Terminal", rows: int | None, *, as_json: bool
) -> None:
    """Show all ranks by step, or print the numbers."""
    import orjson

    from gradscope.analysis.ranks.heat import rank_steps
    from gradscope.render.views.rank_views import columns_in, heat_lines
    from gradscope.scene.timeline.rank_heat import heat_facts, heat_scene
    from gradscope.scene.timeline.timeline import MOST_RANKS

    found = trace.once(rank_steps)
    if found is None:
        raise UsageError("--ranks needs a trace of several ranks, with steps")
    if as_json:
        write_bytes(orjson.dumps(heat_facts(found, what)) + b"\n")
        return
    scene = heat_scene(found, what, columns_in(out.width), MOST_RANKS if rows is None else rows)
    out.show(heat_lines(scene, out.width, out.charset))
