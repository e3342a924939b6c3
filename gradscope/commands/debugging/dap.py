"""`gradscope dap`: the debugger for editors, by the Debug Adapter Protocol."""

from typing import Annotated

import typer


def dap(
    port: Annotated[
        str | None,
        typer.Option(
            help="Listen on this port (0: any free one) or socket instead of standard input. "
            "Prints the port or socket, and the token that a client must send.",
            metavar="PORT|PATH",
        ),
    ] = None,
) -> None:
    """Serve the debugger to an editor (Debug Adapter Protocol)."""
    from gradscope.debug.dap.listen import over_pipe, over_port

    if port is None:
        over_pipe()
    else:
        over_port(port)
