"""Scripts whose loop becomes a step: `run(path, steps, captured=…)` says what they print."""

from __future__ import annotations

import ast
import random
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from gradscope.record.from_runtime.script.aliases import torch_is_gradscope
from gradscope.runtime.fast.capture.captured import Captured
from gradscope.runtime.fast.capture.pieces import DEFINITION, _names, _set_before_read
from tests.runtime.fast.capture.test_pieces import replays

REPEATED = 6


def as_step(tree: ast.Module) -> ast.FunctionDef:
    """Let the body of the longest loop be a function `turn` that the loop calls.

    A script without a loop is repeated, but for its imports and definitions.
    """
    if not any(isinstance(node, ast.For) for node in tree.body):
        first = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom | ast.ClassDef)]
        loop = ast.parse(f"for again in range({REPEATED}): pass").body[0]
        assert isinstance(loop, ast.For)
        loop.body = [node for node in tree.body if node not in first]
        loop.end_lineno = loop.body[-1].end_lineno
        tree.body = [*first, loop]
    loops = [node for node in tree.body if isinstance(node, ast.For)]
    loop = max(loops, key=lambda node: (node.end_lineno or 0) - node.lineno)
    body, others = loop.body, [node for node in tree.body if node is not loop]
    given = sorted(_names([loop.target], ast.Store))  # type: ignore[list-item]
    stored = _names(body, ast.Store)
    kept = _set_before_read(body) - _names(others, ast.Load)
    shared = sorted(stored - kept - set(given))
    definition = ast.parse(f"def turn({', '.join(given)}): pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = [*([ast.Global(shared)] if shared else []), *body]
    call = ast.parse(f"turn({', '.join(given)})").body
    loop.body = call
    place = tree.body.index(loop)
    tree.body[place:place] = [definition, *ast.parse("turn = made_step(turn)").body]
    ast.fix_missing_locations(tree)
    definition.lineno, definition.end_lineno = body[0].lineno, body[-1].end_lineno
    return definition


def run(path: Path, steps: int, *, captured: bool) -> tuple[str, list[int], str]:
    """What a script prints; how often its pieces were replayed; what was said of them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    definition = as_step(tree)
    made: list[Any] = []

    def made_step(function: Any) -> Any:
        function.__dict__[DEFINITION] = definition
        made.append(Captured(function) if captured else function)
        return made[0]

    said, told = StringIO(), StringIO()
    before, state = sys.argv, random.getstate()
    sys.argv = [str(path), str(steps)]
    scope = {"__name__": "__main__", "__file__": str(path), "made_step": made_step}
    try:
        with torch_is_gradscope(), redirect_stdout(said), redirect_stderr(told):
            exec(compile(tree, str(path), "exec"), scope)
    finally:
        sys.argv = before
        random.setstate(state)
    return said.getvalue(), list(replays(made[0])) if captured else [], told.getvalue()
