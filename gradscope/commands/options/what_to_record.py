"""Options of `gradscope trace`: what to record, privacy, stops."""

from functools import partial
from typing import Annotated

import typer

_what_option = partial(typer.Option, rich_help_panel="What to record")
_stop_option = partial(typer.Option, rich_help_panel="Stop and debug")
_privacy_option = partial(typer.Option, rich_help_panel="Privacy")

Level = Annotated[
    str,
    _what_option(
        help="How much to record: graph, engine (also events and times), values (also NaN, Inf and "
        "norms) or full (also calls without nodes, and whole stacks).",
        metavar="LEVEL",
    ),
]
On = Annotated[
    str,
    _what_option(
        help="Engine behind `import torch`: torch, gradscope, or auto (PyTorch if installed).",
        metavar="ENGINE",
    ),
]
Native = Annotated[
    bool,
    _what_option(
        "--native/--no-native",
        help="Use compiled hooks for the PyTorch versions that have them: faster.",
    ),
]
ChecksFunctions = Annotated[
    bool,
    _what_option(
        "--check-functions/--no-check-functions",
        help="When the script has ended, test the backward of custom Functions against their "
        "forward (from level engine on).",
    ),
]
ChecksNodes = Annotated[
    str | None,
    _what_option(
        help="Compute gradients of these nodes again in float64 when the script has ended, and "
        "say which differ: all, a share of the runs of each line as in 1%, or nodes as in 'Conv*'.",
        metavar="NODES",
    ),
]
KeepsValues = Annotated[
    bool,
    _what_option(
        "--keep-values",
        help="With --check-nodes, keep the values of these nodes next to the trace, for "
        "gradscope verify.",
    ),
]
KeepsSource = Annotated[
    bool,
    _privacy_option(
        "--source/--no-source",
        help="Keep the text of the program's own files and lines in the trace. Rules that read it "
        "need it. Secrets in it are masked.",
    ),
]
KeepsArguments = Annotated[
    bool,
    _privacy_option(
        "--arguments/--no-arguments",
        help="Keep the script's arguments in the trace. Secrets in them are masked.",
    ),
]
StopOn = Annotated[
    list[str] | None,
    _stop_option(
        help="End the script when this is found: nan, inf or rule:SLUG. nan and inf record at "
        "level values.",
        metavar="WHAT",
    ),
]
Break = Annotated[
    list[str] | None,
    _stop_option(
        "--break",
        help="Stop the script there and open the debugger: nan, 'node Mul*', train.py:41, "
        "'grad *.bias', … (in the debugger: help break).",
        metavar="WHERE",
    ),
]
BreakIn = Annotated[
    str | None,
    _stop_option(
        help="Stop at the first operation (forward) or at the first node (backward).",
        metavar="forward|backward",
    ),
]
Execute = Annotated[
    list[str] | None,
    _stop_option(
        "-x",
        help="Run this debugger command at each stop. Can be given several times.",
        metavar="COMMAND",
    ),
]
PostMortem = Annotated[
    bool,
    _stop_option(
        "--pm", help="Open the debugger after an exception that ends the script (post mortem)."
    ),
]

Script = Annotated[
    list[str], typer.Argument(metavar="SCRIPT [ARGS...]", help="The script and its arguments.")
]
IsModule = Annotated[
    bool, typer.Option("-m", "--module", help="Run SCRIPT as a module, like python -m.")
]
Steps = Annotated[
    str | None,
    _what_option(
        help="Record only these steps, as in 3:7 (both included), 3:, 5 or 0:9,100:109.",
        metavar="A:B,…",
    ),
]
Every = Annotated[
    int | None,
    _what_option(
        help="Record one step in N, and those of --steps; others run at full speed.",
        min=1,
        metavar="N",
    ),
]
Keep = Annotated[
    int | None,
    _what_option(
        help="Keep the first 3 steps and the latest N in the trace, and let those between go; 0: "
        "none.  [default: 20, as soon as the trace is nearly as large as --max-bytes]",
        min=0,
        metavar="N",
    ),
]
Around = Annotated[
    list[str] | None,
    _what_option(
        help="With --keep, also keep N steps before and after the first nan, inf or rule:SLUG, or "
        "every spike of the gradients; exception: the latest steps are always there. All but "
        "exception and most rules record at level values.",
        metavar="WHAT",
    ),
]
Measures = Annotated[
    bool,
    _what_option(
        "--summary/--no-summary",
        help="Measure loss, gradients and parameters in 1% of the time, also in steps that are "
        "left out.",
    ),
]
Ranks = Annotated[
    str | None,
    _what_option(help="Of several ranks, record only these, as in 0,3.", metavar="R,…"),
]
RanksHere = Annotated[
    int | None,
    _what_option(
        help="Start the script as N ranks on this machine; each writes its own trace.",
        min=1,
        metavar="N",
    ),
]
MostEvents = Annotated[
    int | None,
    _what_option(help="Stop recording, at the end of a step, after N events.", min=1, metavar="N"),
]
MostBytes = Annotated[
    int | None,
    _what_option(
        help="Largest size of the trace; 0: no limit. In its last eighth, old steps make room for "
        "new ones: see --keep.  [default: 256 MB]",
        min=0,
        metavar="N",
    ),
]
Dap = Annotated[
    str | None,
    _stop_option(
        help="Wait for an editor's debugger at this port (0: any free one) or socket.",
        metavar="PORT|PATH",
    ),
]
OnScreen = Annotated[
    bool,
    _stop_option("--screen", help="Use the whole terminal at each stop (needs Textual)."),
]
