"""In the child process of `gradscope law`: hold one thing equal, before the program is recorded."""

from pathlib import Path

from gradscope.commands.debugging.laws.held import EVERY, lines_noted

NOTHING = "nothing"


def prepared(arguments: list[str]) -> list[str]:
    """Hold what is named, and return the command line of gradscope that records the program.

    The arguments are the name of what is held, the file of notes, and options of `trace`.
    """
    from gradscope.record.acts.numbers.summaries.step_summaries import measure_every_step

    name, notes, *command = arguments
    held = next((each for each in EVERY if each.name == name), None)
    measure_every_step()
    if held is not None and held.begin is not None:
        held.begin(lines_noted(Path(notes)))
    return ["trace", *command]
