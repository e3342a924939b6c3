"""Rules about NaN and Inf in recordings that hold only few values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.nonfinite.births import births
from gradscope.analysis.nonfinite.suspects import Suspect, Suspects, replacing_hooks
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.summary import recorded_again
from gradscope.analysis.program.training import Training
from gradscope.analysis.ranks import received
from gradscope.analysis.rules.numbers import GUARDS
from gradscope.analysis.rules.own_line import guarded, instead
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.signal.left_out import found_in_left_out_steps
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.values.crossings import crossings
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    CameInAct,
    CutAct,
    GraphTask,
    Node,
    NotFiniteAct,
    Step,
    StepAct,
)
from gradscope.trace.trace import Trace

FEW = 3
"""Number of lines that are named as possible origins."""

READ = ("item", "tolist", "numpy")

SHOWN = ("repr", "format")
"""What `print`, `str` and f-strings call."""

OF_NUMBERS = (
    "from_numpy", "frombuffer", "from_dlpack", "as_tensor", "asarray", "Tensor", "FloatTensor",
    "DoubleTensor", "tensor",
)  # fmt: skip
"""Calls that create tensors from data: from arrays and files first, from a list last."""

FINITE = frozenset((
    "zeros", "ones", "eye", "arange", "linspace", "rand", "randn", "randint", "randperm",
    "zeros_like", "ones_like", "rand_like", "randn_like", "one_hot",
))  # fmt: skip
"""Calls that fill a tensor with finite values."""


@rule("GS202", "non-finite-seen", Severity.ERROR, reads=("act",))
def non_finite_seen(trace: Trace) -> Iterator[Found]:
    """Parameters, or gradients at the end of the run, contain NaN or Inf; the loss may too.

    Level `engine` does not record values, except a loss that the program reads, a norm that it
    clips by, one element after each step, and all parameters in a few steps and at the end. These
    show the step in which the NaN or Inf appeared. The finding is at the line where it was noticed,
    and names calls of that step that may have produced it; there may be others. Level `values`
    finds which call did (GS201); this rule then reports nothing. Of a step that is left out (with
    `--every`, for example), the finding gives the number, so that it can be recorded.

    Bad:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            (w * step).log().sum().backward()
            optimizer.step()

    Good:
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            (w * step + 1).log().sum().backward()
            optimizer.step()
    """
    left_out = found_in_left_out_steps(trace)
    if left_out is not None:
        yield left_out
        return
    if births(trace).births:
        return
    acts = trace.once(Acts)
    told = acts.of(NotFiniteAct)
    reads = [act for act in told if act.facts.what == "read"]
    groups: dict[int, list[Done[NotFiniteAct]]] = {}
    for act in told:
        if act.facts.what != "read":
            groups.setdefault(act.of, []).append(act)
    built = {optimizer.built.id: optimizer for optimizer in acts.optimizers}
    harms = [
        _Harm(trace, harm, built.get(of), reads)
        for of, harm in groups.items()
        if not (harm[0].facts.when == "before" and harm[0].facts.value == "Inf")
    ]
    losses = [act for act in reads if act.facts.history]
    if harms:
        first = min(harms, key=lambda each: each.first.t)
        told_of = set(first.first.tensors)
        yield _found(first, sum(not told_of >= set(each.first.tensors) for each in harms))
        return
    for loss in losses:
        optimizer = _stepped_with(trace, acts, loss)
        if optimizer is not None:
            yield _found(_Harm(trace, [loss], optimizer, reads), others=0)
            return
    if losses:
        yield _read_only(trace, losses[0])


def _stepped_with(trace: Trace, acts: Acts, loss: Done[NotFiniteAct]) -> Optimizer | None:
    """The optimizer that stepped after a backward of this loss; None if the step was skipped."""
    made, tasks = np.sort(trace.table(Node)["t"]), trace.table(GraphTask)["begin"]
    if not _is_a_loss(trace, loss):
        return None
    before = made[: np.searchsorted(made, loss.t)]
    later = made[np.searchsorted(made, loss.t) :]
    begins = np.sort(tasks[tasks > before[-1]]) if len(before) else tasks[:0]
    if not len(begins) or (len(later) and later[0] < begins[0]):
        return None
    for optimizer in acts.optimizers:
        after = (act for act in (*optimizer.steps, *optimizer.cleared) if act.t > begins[0])
        first = min(after, key=lambda act: act.t, default=None)
        if first is not None and isinstance(first.facts, StepAct):
            return optimizer
    return None


def _is_a_loss(trace: Trace, read: Done[NotFiniteAct]) -> bool:
    """Whether a backward began at the tensor that was read; True where that is unknown."""
    made, nodes = read.facts.made, trace.table(Node)
    if made == NONE:
        return True
    its = nodes["id"][(nodes["t"] == made) | (nodes["sequence_nr"] == made)]
    return bool(np.isin(its, trace.table(GraphTask).ragged("roots").values).any())


class _Harm:
    """Parameters or gradients that are not finite, and what is known about how they became so."""

    def __init__(
        self,
        trace: Trace,
        harm: list[Done[NotFiniteAct]],
        optimizer: Optimizer | None,
        reads: list[Done[NotFiniteAct]],
    ) -> None:
        self.trace, self.acts, self.optimizer = trace, trace.once(Acts), optimizer
        self.first = harm[0]
        self.gradients = next((e for e in harm if e.facts.what == "gradients"), None)
        self.value = self.first.facts.value
        self.when = self.first.facts.when or "read"
        nodes, self.step = trace.table(Node), self.first.step
        if self.when in ("read", "end"):  # when the last node before it was created
            made = np.flatnonzero(nodes["t"] < self.first.t)
            self.step = int(nodes["step"][made].max(initial=NONE))
        own, later = (nodes["t"][mask] for mask in (
            nodes["step"] == self.step, nodes["step"] > self.step
        ))  # fmt: skip
        self.since = int(own.min(initial=self.first.t))
        self.until = int(later.min(initial=sys.maxsize))
        near = [each for each in reads if self._is_near(each)]
        losses = [each for each in near if each.facts.history]
        self.read = next(iter((*losses, *near)), None)

    def _is_near(self, act: Done[ActFacts]) -> bool:
        return self.since < act.t < self.until

    @property
    def backward(self) -> bool | None:
        """Whether it arose in a backward of a finite loss; None if the loss was not read."""
        if self.read is not None and self.read.facts.history:
            return False
        if self.when != "step":
            return None
        read = [act for act in self.acts.of(CutAct) if act.facts.by in READ]
        return True if any(self._is_near(act) for act in read) else None

    def suspects(self) -> list[Suspect]:
        training = self.trace.once(Training)
        bad = set(self.gradients.tensors) if self.gradients else set()
        held = set(self.optimizer.tensors) if self.optimizer else set()
        good = (held & training.reached) - bad if bad else set()
        suspects = self.trace.once(Suspects)
        return suspects.of_step(self.step, backward=self.backward, bad=bad, good=good)


def _found(harm: _Harm, others: int) -> Found:
    trace, first, value = harm.trace, harm.first, harm.value
    training, site = trace.once(Training), harm.acts.site(first)
    suspects = harm.suspects() if harm.when != "before" else []
    likely = suspects[:FEW]
    named = training.named(first.tensors)
    many = len(first.tensors) > 1
    what = "gradients of " * (first.facts.what == "gradients")
    hold = "hold" if many or what else "holds"
    if harm.when == "read":
        said = _who_read(first, site, "a loss of ")
        message = f"{value}: {said} ({_step(trace, harm.step)}), and the optimizer stepped with "
        message += "its gradients"
    else:
        message = f"{value}: {what}{named} {hold} {value} {_when(harm, site)}{_of_the_loss(harm)}"
    message += f"; later also those of {others} more optimizer{'s' * (others > 1)}" * bool(others)
    message += _can_make_one(suspects)
    read = harm.read
    seen = site if site.place else harm.acts.site(read) if read else Site()
    return Found(
        message=message,
        site=seen,
        evidence=(
            Evidence("act", first.id),
            *(Evidence("act", each.id) for each in (read,) if each is not None),
            *(Evidence("op", each.op) for each in likely if each.op != NONE),
            *few_tensors(trace, first.tensors),
        ),
        why=_why(harm, likely),
        fix=_fix(harm, suspects),
        certainty=Certainty.INFERRED,
    )


def _can_make_one(suspects: Sequence[Suspect]) -> str:
    """Calls that were seen to run, then those that are only known from the source."""
    more = f", and {len(suspects) - FEW} more" * (len(suspects) > FEW)
    seen, unseen = (
        [e.words for e in suspects[:FEW] if e.of_source is own] for own in (False, True)
    )
    said = f"; calls of that step that may have produced it include {'; '.join(seen)}" * bool(seen)
    also = "; from the source, calls without a node" if seen else "; from the source, calls"
    also += f" that may have produced it include {'; '.join(unseen)}"
    return said + also * bool(unseen) + more


def _when(harm: _Harm, site: Site) -> str:
    if harm.when == "before":
        return "before the first step"
    if harm.when == "end":
        return "at the end of the program"
    return f"after the step{at(site)} ({_step(harm.trace, harm.step)})"


def _step(trace: Trace, step: int) -> str:
    steps = trace.table(Step)
    return f"step {steps.row(step).number}" if steps.has(step) else "a step"


def _of_the_loss(harm: _Harm) -> str:
    read = harm.read
    if read is not None and read.facts.history:
        return f"; its loss was {read.facts.value}{at(harm.acts.site(read))}"
    if harm.backward:
        return ", though its loss was finite: it was produced in the backward"
    if read is not None:
        return f"; {_who_read(read, harm.acts.site(read))}"
    return ""


def _who_read(read: Done[NotFiniteAct], line: Site, of: str = "") -> str:
    """As in "item returned NaN at train.py:8", or "train.py:8 printed NaN"."""
    by, value = read.facts.by, f"{of}{read.facts.value}"
    if by not in SHOWN or not line.place:
        return f"{by} returned {value}{at(line)}"
    return f"{line} {'printed' if 'print(' in line.text else 'showed'} {value}"


def _why(harm: _Harm, likely: Sequence[Suspect]) -> str:
    why = "which call produced it was not recorded: that needs level values"
    if _measured(harm.trace):
        why = "no recorded value shows which call produced it"
    if harm.when == "step":
        why = f"all values checked after earlier steps were finite; {why}"
    if not likely and received.may_be_received(harm.trace, harm.first.tensors):
        return f"{why}; {received.WHY}"
    hooks = _hooks(harm.trace) if harm.backward is not False and harm.when == "step" else []
    if hooks:
        why += f"; hooks replaced gradients: {', '.join(hooks[:FEW])}"
    sure = any(not each.of_source and each.rank == 0 for each in likely)
    if not sure and not hooks and harm.when != "before" and not (harm.backward and likely):
        lines = _came_in(harm)
        where = f": tensors are created from data at {', '.join(lines[:FEW])}" * bool(lines)
        why += (
            f"; it may also be in the data{where}"
            if likely
            else "; no call of that step is known to produce one, so it may be in the data, or the "
            f"steps are too large{where}"
        )
    return why


def _came_in(harm: _Harm) -> list[str]:
    """Lines that create tensors from data, likeliest first: those of that step, then others.

    Calls that fill a tensor with values of their own, or create parameters, are left out.
    """
    held = harm.trace.once(Training).held
    written = harm.trace.once(SourceFiles).each(crossings)
    came = [(each.found.by, each.site, False) for each in written]
    came += [
        (act.facts.by, harm.acts.site(act), act.step == harm.step)
        for act in harm.acts.of(CameInAct)
        if held.isdisjoint(act.tensors)
    ]
    ranked: dict[str, tuple[bool, int]] = {}
    for by, site, now in came:
        if site.place and by not in FINITE:
            rank = (
                not (now and by in OF_NUMBERS),
                OF_NUMBERS.index(by) if by in OF_NUMBERS else len(OF_NUMBERS),
            )
            words = f"{site} ({by})"
            ranked[words] = min(rank, ranked.get(words, rank))
    return sorted(ranked, key=lambda words: ranked[words])


def _hooks(trace: Trace) -> list[str]:
    """Hooks that returned another gradient, and where they are defined."""
    hooks = replacing_hooks(trace)
    return [f"{name}{at(site_of(trace, stack))}" for name, stack in hooks.items()]


def _fix(harm: _Harm, suspects: Sequence[Suspect]) -> str:
    more = f"{_command(harm)} names the call that produced it"
    if _measured(harm.trace):
        more = "check with `torch.isfinite(...).all()` what that step read and computed"
    if len(suspects) == 1 and (name := suspects[0].name) in GUARDS:
        text = suspects[0].site.text
        better = guarded(text, (name, f"arc{name[1:]}"), GUARDS[name])
        if better:
            return f"{more}; if it is {suspects[0].site}, {instead(better, text)}"
    return more


def _measured(trace: Trace) -> bool:
    """Whether values of calls were recorded, so that no higher level would show more of them."""
    return trace.meta.get("level") in ("values", "full")


def _command(harm: _Harm) -> str:
    """The command that records the values of that step."""
    trace, steps = harm.trace, harm.trace.table(Step)
    options = ["--level", "values"]
    if harm.when != "end" and steps.has(harm.step):
        number = steps.row(harm.step).number
        if number > FEW:
            options += ["--steps", f"{number - 1}:{number}"]
    return f"`{recorded_again(trace, *options)}`"


def _read_only(trace: Trace, read: Done[NotFiniteAct]) -> Found:
    """A loss that was NaN or Inf without visible harm: it may have been skipped or masked."""
    acts = trace.once(Acts)
    site, value = acts.site(read), read.facts.value
    unseen = not any(
        isinstance(each, float) for step in acts.of(StepAct) for each in step.facts.size or ()
    )
    after = any(step.t > read.t for step in acts.of(StepAct))
    return Found(
        message=f"{value}: {_who_read(read, site)}, a value of a tensor with a graph "
        f"({_step(trace, read.step)})",
        site=site,
        evidence=(Evidence("act", read.id),),
        why="the parameters were not checked"
        + ", and values are not recorded below level values" * (not _measured(trace))
        if unseen
        else "the parameters stayed finite in all checks",
        fix="check with `torch.isfinite(...).all()` what that step read and computed"
        if _measured(trace)
        else f"`{recorded_again(trace, '--level', 'values')}` shows where it was first produced",
        certainty=Certainty.INFERRED,
        severity=Severity.WARNING if unseen and after and value == "NaN" else Severity.NOTE,
    )
