"""`gradscope view`: an interactive page about a trace, written and opened."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Rank, Step, Task, TracePath
from gradscope.commands.options.output import load, say, write
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


def view(
    trace: TracePath,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="LATER",
            help="Later trace of the same program: the page shows it, and what changed.",
            show_default=False,
        ),
    ] = None,
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

    The page is one HTML file and works offline. With two traces of a program it shows the later one
    and what changed.
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
            f"use gradscope render -o {output} {trace}"
        )
    target = target_of(other or trace, output, PAGE)
    if target.path is None and browser:
        raise UsageError("a page written to standard output cannot be opened: add --no-open")
    shown, earlier = load(trace, rank), None
    if other is not None:
        earlier = Earlier(shown, told_apart((trace, other)))
        shown = load(other, rank)
    selection = with_finding(shown, Selection(step, task, around), calls=graph is GraphOf.FORWARD)
    write(shown, GraphOptions(selection, graph=graph), target, earlier=earlier)
    if browser and target.path is not None and not webbrowser.open(target.path.absolute().as_uri()):
        say((f"no browser was found; open {target.path} in one",))
