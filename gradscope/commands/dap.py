"""`gradscope dap`: the debugger for editors, by the Debug Adapter Protocol."""

from typing import Annotated

import typer


def dap(
    port: Annotated[
        str | None,
        typer.Option(
            help="Listen on this port of this machine (0: any that is free), or at a socket of "
            "this path, instead of the standard input; the line it prints says which, and the "
            "token to launch with.",
            metavar="PORT|PATH",
        ),
    ] = None,
) -> None:
    """Serve the debugger to an editor: threads, stacks, variables, steps back, breakpoints."""
    from gradscope.debug.dap.listen import over_pipe, over_port

    if port is None:
        over_pipe()
    else:
        over_port(port)
