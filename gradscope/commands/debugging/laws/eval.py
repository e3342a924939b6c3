"""The law of evaluation: in eval mode, the same inputs have the same outputs."""

from __future__ import annotations

import json

from gradscope.commands.debugging.laws.runs import LawArguments, LawVerdict, Program, say, started
from gradscope.errors import RecordingError
from gradscope.scene.timeline.laws.eval_answer import DiffersAt, EvalCall, eval_answer


def of_program(program: Program, _: LawArguments) -> LawVerdict:
    """Run a program once; in it, modules in eval mode are called again."""
    say("run in which forwards in eval mode run twice more")
    notes = program.folder / "run-eval.notes"
    notes.unlink(missing_ok=True)
    given = str(notes), program.on, "module" * program.module, *program.script
    ended = started(program, "run-eval", START, given, variables={"TORCH_COMPILE_DISABLE": "1"})
    calls = [_read(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    if ended.code and not calls:
        raise RecordingError(f"the program ended with {ended.code}: {ended.end}")
    return LawVerdict(eval_answer(calls), broken=any(call.is_broken for call in calls))


START = """
import sys
from gradscope.commands.debugging.laws.called_twice import run_program
sys.exit(run_program(*sys.argv[1:]))
"""


def _read(line: str) -> EvalCall:
    said = json.loads(line)
    first = said.pop("first")
    return EvalCall(**said, first=DiffersAt(**first) if first else None)
