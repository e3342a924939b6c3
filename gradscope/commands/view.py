"""`gradscope view`: a page to walk through a backward in, written and opened."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Rank, Step, Task, TracePath
from gradscope.commands.options.output import load, say, write
from gradscope.errors import UsageError
from gradscope.scene.choices import GraphOf


def view(
    trace: TracePath,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="LATER",
            help="A later trace of the program: the page shows it, and what is new, gone and "
            "slower in it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write.  [default: beside the trace]"),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            help="Begin at this node, leaf, module, source line or finding.", metavar="NODE"
        ),
    ] = None,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    graph: Annotated[
        GraphOf | None,
        typer.Option(
            help="Which graph to begin with; the page has both.", metavar="forward|backward"
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Write a page to walk through the backward in, and open it: one file, which works offline.

    Of two traces of a program, the page shows the later one, and where it differs from the other.
    """
    import webbrowser

    from gradscope.analysis.answers.meant import with_finding
    from gradscope.analysis.graph.selection import Selection
    from gradscope.render.pictures import target_of
    from gradscope.scene.differences import told_apart
    from gradscope.scene.graph.options import GraphOptions
    from gradscope.scene.viewer.scene import Earlier

    target = target_of(other or trace, output, "html")
    if target.path is None and browser:
        raise UsageError("a page on the standard output cannot be opened: add --no-open")
    shown, earlier = load(trace, rank), None
    if other is not None:
        earlier = Earlier(shown, told_apart((trace, other)))
        shown = load(other, rank)
    selection = with_finding(shown, Selection(step, task, around), calls=graph is GraphOf.FORWARD)
    write(shown, GraphOptions(selection, graph=graph), target, earlier=earlier)
    if browser and target.path is not None and not webbrowser.open(target.path.absolute().as_uri()):
        say((f"found no browser; open {target.path} in one",))
