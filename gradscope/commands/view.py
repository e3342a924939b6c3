"""`gradscope view`: a page to walk through a backward in, written and opened."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.commands.options.arguments import Rank, Step, Task, TracePath
from gradscope.commands.options.output import load, say, write_page
from gradscope.errors import UsageError


def view(
    trace: TracePath,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write.  [default: beside the trace]"),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(help="Begin at this node, leaf, module or source line.", metavar="NODE"),
    ] = None,
    step: Step = None,
    task: Task = None,
    rank: Rank = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Write a page to walk through the backward in, and open it: one file, which works offline."""
    import webbrowser

    from gradscope.analysis.graph.selection import Selection
    from gradscope.render.pictures import target_of
    from gradscope.scene.graph.options import GraphOptions

    target = target_of(trace, output, "html")
    if target.path is None and browser:
        raise UsageError("a page on the standard output cannot be opened: add --no-open")
    write_page(load(trace, rank), GraphOptions(Selection(step, task, around)), target)
    if browser and target.path is not None and not webbrowser.open(target.path.absolute().as_uri()):
        say((f"found no browser; open {target.path} in one",))
