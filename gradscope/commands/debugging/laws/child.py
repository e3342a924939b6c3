"""The child process of `gradscope law`: holds one thing equal, then records the program."""

import sys
from pathlib import Path

from gradscope.commands.debugging.laws.held import EVERY, lines_noted

NOTHING = "nothing"


def main(arguments: list[str]) -> None:
    """Record a program: what is held, the file of notes, and a command line of `trace`."""
    from gradscope.cli import main as gradscope
    from gradscope.record.acts.numbers.summaries.step_summaries import measure_every_step

    name, notes, *command = arguments
    held = next((each for each in EVERY if each.name == name), None)
    measure_every_step()
    if held is not None and held.begin is not None:
        held.begin(lines_noted(Path(notes)))
    gradscope(["trace", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
