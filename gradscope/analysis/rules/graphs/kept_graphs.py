"""Rules about graphs that stay, beyond the step or the backward they were made for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gradscope.analysis.findings import Evidence, Severity
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.graphs.retained_graphs import walked_again
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Deed, Saved
from gradscope.trace.trace import Trace

MANY = 3
"""Steps whose graphs are kept together: two may be those of now and of just before."""


@rule("GS601", "graph-kept", Severity.WARNING, needs="engine")
def graph_kept(trace: Trace) -> Iterator[Found]:
    """Graphs of former steps are still there, because something holds tensors with a history.

    A loss that is put into a list, or added to a running total, holds the graph it was computed by
    (and what that saved, unless a backward let go of it), and so memory grows from step to step.
    What is kept for later needs `.item()` or `.detach()`. Names are looked through at the ends of
    some steps; what only C++ code holds is not seen.

    Bad:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss)

    Good:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    """
    acts = trace.once(Acts)
    looks: dict[tuple[object, ...], list[Done]] = defaultdict(list)
    for act in acts.of(Deed.KEPT):
        if act.facts.get("when") != "evaluation":
            facts = act.facts
            key = facts.get("name"), facts.get("attribute"), facts.get("container"), act.stack
            looks[key].append(act)
    for same in looks.values():
        last = max(same, key=_steps)
        if not last.facts.get("container") and any(walked_again(trace)):
            continue  # GS603 tells of it
        if _steps(last) >= MANY and (len(same) == 1 or _steps(same[0]) < _steps(last)):
            yield _kept(acts, last, len(same))


def _steps(act: Done) -> int:
    found = act.facts.get("steps")
    return found if isinstance(found, int) else 0


def _kept(acts: Acts, act: Done, looks: int) -> Found:
    facts, sites = act.facts, acts.sites(act)
    what, many, steps = holder(act), facts.get("many", 0), _steps(act)
    grows = isinstance(facts.get("longest"), int) and facts["longest"] > 2
    stored = f", stored at {sites[0]}" if sites[0].place else ""
    if facts.get("container"):
        said = f"{what} holds {many} tensors with the graphs of {steps} steps{stored}"
    else:
        said = f"{what} has a graph that reaches back over {steps} steps{stored}"
    others = f"; also stored at {', '.join(map(str, sites[1:]))}" if len(sites) > 1 else ""
    return Found(
        message=f"The history is kept: {said}",
        site=sites[0],
        evidence=(Evidence("act", act.id),),
        why=f"looked at {looks} time{'s' * (looks > 1)} at the ends of steps; a tensor that was "
        "not detached holds the nodes of its graph, and what these saved until a backward lets go "
        f"of it{_let_go(acts)}{others}"
        + ("; each step adds its graph to the one before, which takes longer and longer" * grows),
        fix=_detached(sites[0].text) or "keep `x.item()` or `x.detach()` instead of `x`",
    )


def _let_go(acts: Acts) -> str:
    """What is known of whether backwards let go of what was saved."""
    released = acts.trace.table(Saved)["released"]
    if not len(released):
        return ""
    left = int((released == NONE).sum())
    if not left:
        return " (backwards let go of all that was recorded, and nodes stay)"
    return f" (no backward let go of {left:,} of {len(released):,} saved values)"


def holder(act: Done) -> str:
    """What holds them, as a program writes it."""
    name, container = act.facts.get("name", ""), act.facts.get("container", "")
    shown = f"`.{name}`" if act.facts.get("attribute") else f"`{name}`"
    return f"the {container} {shown}" if container else shown


def _detached(line: str) -> str:
    """The program's own line, with what it keeps detached; "" where that is not clear."""
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return ""
    before = ast.unparse(statement)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if len(call.args) != 1 or not isinstance(call.args[0], ast.Name | ast.Attribute | ast.Call):
            return ""
        call.args[0] = _without_history(call.args[0])
    elif isinstance(statement, ast.AugAssign | ast.Assign):
        statement.value = _without_history(statement.value)
    else:
        return ""
    return f"write `{ast.unparse(statement)}` instead of `{before}`"


def _without_history(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])
