"""Rules about the loss over the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.program.summary import recorded_again
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.timing.early_signs import EarlySigns, LossJump, Sign
from gradscope.analysis.timing.largest_rows import largest_rows
from gradscope.trace.schema import GraphTask, Step
from gradscope.trace.trace import Trace

SHOWN = 3


@rule("GS812", "loss-jumped", Severity.NOTE, reads=("step_summary",))
def loss_jumped(trace: Trace) -> Iterator[Found]:
    """The loss rose suddenly; what else changed in the steps before it is named.

    Each measured step is compared with the 15 before it: a loss jumps if it is at least 1.5 times
    as high as all of them, and eight times as far from their median as usual. Norms of gradients,
    updates and parameters that changed as suddenly, by a factor of three or more, are signs. So are
    those that grew over many steps until the jump (their cumulative sum, CUSUM, tells), by half or
    more. The first one is often the cause: a large update before the jump, or a large gradient in
    its own step, which points to the data: recorded with `--check-nodes`, the finding also names
    the samples with the largest parts of the gradient. It is a note, since losses of some trainings
    jump.

    Bad:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.01)
        for step in range(16):
            scale = 30.0 if step == 15 else 1.0
            optimizer.zero_grad()
            (w * scale).square().sum().backward()
            optimizer.step()

    Good:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.01)
        for step in range(16):
            optimizer.zero_grad()
            w.square().sum().backward()
            optimizer.step()
    """
    jump = trace.once(EarlySigns).jump
    if jump is None:
        return
    row, number = jump.step.row, jump.step.number
    then = f", and {jump.then.value}" if jump.then.value else ""
    more = f"; the highest of {jump.many} jumps" if jump.many > 1 else ""
    first = jump.signs[0].step if jump.signs else number
    command = recorded_again(trace, "--level", "values", "--steps", f"{max(first - 1, 0)}:{number}")
    yield Found(
        message=f"The loss rose from {jump.usual:.3g} to {row.loss:.3g} in step {number}{then}"
        f"{more}",
        site=_site(trace, jump),
        evidence=(Evidence(Step.TABLE, jump.step.step.id),),
        why="; ".join(filter(None, [_why(jump), largest_rows(trace, jump.step.step.id)])),
        fix=f"`{command}` records what happened there, with all values{_and_samples(trace)}",
        certainty=Certainty.INFERRED,
    )


def _and_samples(trace: Trace) -> str:
    """What the command names with one more option, which needs PyTorch."""
    if trace.meta.get("producer") != "pytorch" or "checked_nodes" in trace.meta:
        return ""
    return "; with `--check-nodes all`, also the samples with the largest gradients"


def _site(trace: Trace, jump: LossJump) -> Site:
    """The line of a backward of this step, or of the first backward."""
    tasks = trace.table(GraphTask)
    if not len(tasks):
        return Site()
    own = (tasks["step"] == jump.step.step.id).nonzero()[0]
    return site_of(trace, int(tasks["stack"][own[0] if len(own) else 0]))


def _why(jump: LossJump) -> str:
    number = jump.step.number
    if not jump.compared:
        return f"nothing but the loss was measured of steps {jump.since} to {number}"
    steps = f"{jump.compared} of the steps {jump.since} to {number}"
    measured = f"gradients and parameters were measured in {steps}"
    if not jump.signs:
        return f"no gradient, update or parameter is known to have changed suddenly; {measured}"
    earlier = [each for each in jump.signs if each.step < number]
    signs = earlier or list(jump.signs)
    named = ", ".join(dict.fromkeys(map(_worded, signs[:SHOWN])))
    more = f", and {len(signs) - SHOWN} more" if len(signs) > SHOWN else ""
    first = number - signs[0].step
    when = f"first sign {first} step{'s' * (first > 1)} before: " if first else "in the same step: "
    return f"{when}{named}{more}; {measured}"


def _worded(sign: Sign) -> str:
    """As in "the update of w1 was 31 times its median in step 412"."""
    factor = sign.factor if sign.factor >= 1 else 1 / sign.factor
    times = f"{factor:.2g} times" if sign.factor >= 1 else f"1/{factor:.2g} of"
    whose = f"the {sign.what} of {sign.name}" if sign.name else f"the norm of all {sign.what}s"
    if sign.grew:
        return f"{whose} grew from step {sign.step} on, to {times} its median before"
    return f"{whose} was {times} its median in step {sign.step}"
