"""`gradscope view`: an interactive page about a trace, written and opened."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Rank, Step, Task
from gradscope.commands.options.output import load, of_all, say, write
from gradscope.errors import UsageError
from gradscope.scene.choices import GraphOf

PAGE = "html"

Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="Page to write. Default: next to the trace.", metavar="FILE"
    ),
]
Around = Annotated[
    str | None,
    typer.Option(
        help="Open at this node, parameter, module, source line or finding.", metavar="NODE"
    ),
]
Graph = Annotated[
    GraphOf | None,
    typer.Option(help="Open with this graph; the page has both.", metavar="forward|backward"),
]


def is_earlier_and_later(traces: list[Path]) -> bool:
    """Whether these are two traces to compare; others are the ranks of one run."""
    from gradscope.analysis.ranks.merging.merge import rank_of
    from gradscope.trace import load_save
    from gradscope.trace.schema import Meta

    if len(traces) != 2:
        return False
    one, other = (rank_of(load_save.load(each, [Meta])) for each in traces)
    return one == other


def view(
    trace: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Trace file; with a later one of the same program the page shows what changed; or "
            "the files of several ranks.",
        ),
    ],
    output: Output = None,
    around: Around = None,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    graph: Graph = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Write an interactive page about a trace, and open it.

    The page is one HTML file and works offline. With two traces of the same rank it shows the later
    one and what changed.
    """
    import webbrowser

    from gradscope.analysis.answers.meant import with_finding
    from gradscope.analysis.graph.selection import Selection
    from gradscope.render.formats import format_of_file
    from gradscope.render.pictures import target_of
    from gradscope.scene.differences import told_apart
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.scene.viewer.scene import Earlier

    named = "" if output is None else format_of_file(output.name)
    if named not in {"", PAGE}:
        raise UsageError(
            f"view writes only {PAGE}, not {output} (format {named}): "
            f"use gradscope render -o {output} {trace[0]}"
        )
    two = is_earlier_and_later(trace)
    target = target_of(trace[1] if two else of_all(trace), output, PAGE)
    if target.path is None and browser:
        raise UsageError("a page written to standard output cannot be opened: add --no-open")
    earlier = Earlier(load(trace[0], rank), told_apart((trace[0], trace[1]))) if two else None
    shown = load(trace[1] if two else trace, rank)
    selection = with_finding(shown, Selection(step, task, around), calls=graph is GraphOf.FORWARD)
    write(shown, GraphOptions(selection, graph=graph), target, earlier=earlier)
    if browser and target.path is not None and not webbrowser.open(target.path.absolute().as_uri()):
        say((f"no browser was found; open {target.path} in one",))
