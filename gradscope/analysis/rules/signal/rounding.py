"""Rules about updates that the dtype of the parameters rounds away."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import ClipAct, ScheduleAct, StepAct, Tensor, Value
from gradscope.trace.trace import Trace

HALF_SPACING = {"bfloat16": 2.0**-9, "float16": 2.0**-12}
"""Half the distance between two values, relative to them: at least this much, at most twice."""

FULL = frozenset({"Adam", "AdamW", "NAdam"})
"""Optimizers whose first step moves each element by the learning rate."""

LATER = 0.2
"""About how far their later steps move an element at least, in learning rates."""

PLAIN = "SGD"
"""An optimizer whose first step moves a parameter by its gradient times the learning rate."""

STEPS = 3
"""Number of its steps that must show it: momentum makes later ones larger."""

LOST = 0.5
"""Less than this part of the expected norm of an update was seen."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A step of an optimizer of which most was rounded away."""

    optimizer: Optimizer
    step: Done[StepAct]
    rate: float
    dtype: str
    many: int  # number of parameters of this dtype that were measured
    expected: float  # how far the step should move an element
    part: float  # of that it moved them
    size: float  # typical size of their elements


class LostUpdates:
    """For each optimizer whose updates are rounded away: one of its steps that shows it."""

    def __init__(self, trace: Trace) -> None:
        self._trace, acts = trace, trace.once(Acts)
        rising = {act.of for act in acts.of(ScheduleAct)}
        found = (self._of(each, scheduled=each.built.id in rising) for each in acts.optimizers)
        self.all = tuple(each for each in found if each is not None)
        self.optimizers = frozenset(each.optimizer.built.id for each in self.all)

    def _of(self, optimizer: Optimizer, *, scheduled: bool) -> Lost | None:
        if optimizer.type == PLAIN:
            return self._of_gradients(optimizer)
        rates = [max(step.facts.lr, default=math.nan) for step in optimizer.steps]
        if optimizer.type not in FULL or not rates or any(map(math.isnan, rates)):
            return None
        if scheduled and rates[-1] == max(rates) > rates[0]:
            return None  # the rate still rises
        highest = max(rates)
        both = zip(optimizer.steps, rates, strict=True)
        look = next((step for step, rate in both if rate == highest and step.facts.moved), None)
        return self._look(optimizer, look, highest) if look is not None else None

    def _of_gradients(self, optimizer: Optimizer) -> Lost | None:
        """The first of the measured steps, if most of each of the first three was rounded away."""
        found = []
        for step in [each for each in optimizer.steps if each.facts.moved][:STEPS]:
            norms = self._gradients.get(step.step, {})
            if len({*step.facts.lr}) != 1 or not norms or self._clips:
                return None
            found.append(self._look(optimizer, step, step.facts.lr[0], norms))
        return found[0] if len(found) == STEPS and None not in found else None

    @cached_property
    def _clips(self) -> bool:
        """Whether gradients were clipped after they were recorded."""
        return bool(self._trace.once(Acts).of(ClipAct))

    @cached_property
    def _gradients(self) -> Mapping[int, Mapping[int, float]]:
        """The rms of gradients by step and parameter."""
        found: dict[int, dict[int, float]] = {}
        acts, values = self._trace.once(Acts), self._trace.table(Value)
        for each in self._trace.once(TensorNumbers).gradients:
            steps = [acts.by_id[act].step for act in each.acts] or values["step"][each.rows]
            for step, rms in zip(steps, each.rms.tolist(), strict=True):
                found.setdefault(int(step), {})[each.tensor] = rms
        return found

    def _look(
        self,
        optimizer: Optimizer,
        step: Done[StepAct],
        rate: float,
        gradients: Mapping[int, float] | None = None,
    ) -> Lost | None:
        """What one measured step says of the parameters of the narrowest dtype."""
        tensors, by_dtype = self._trace.table(Tensor), dict[str, list[tuple[float, ...]]]()
        both = zip(optimizer.tensors, step.facts.moved, step.facts.size, strict=False)
        for tensor, moved, size in both:
            rms = 1.0 if gradients is None else gradients.get(tensor, math.nan)
            if tensors.has(tensor) and not math.isnan(moved + size + rms):
                row = tensors.row(tensor)
                dtype, many = row.dtype.rpartition(".")[2], math.prod(row.shape)
                numbers = many, moved, size, rms * math.sqrt(many)
                by_dtype.setdefault(dtype, []).append(numbers)
        for dtype, half in HALF_SPACING.items():
            every = several = by_dtype.get(dtype, [])
            if gradients is not None:  # they differ more between layers than sizes do
                several = [each for each in every if _is_lost(*each, rate=rate, half=half)]
            elements = sum(each[0] for each in several)
            if not elements or 2 * elements < sum(each[0] for each in every):
                continue
            moved, size, gradient = (
                math.sqrt(sum(each[column] ** 2 for each in several) / elements)
                for column in (1, 2, 3)
            )
            full = rate * gradient
            later = gradients is None and step is not optimizer.steps[0]
            expected = full * (LATER if later else 1.0)
            if 0 < full < size * half and moved < LOST * expected:
                part = moved / expected
                return Lost(optimizer, step, rate, dtype, len(several), expected, part, size)
        return None


def _is_lost(
    many: float, moved: float, size: float, gradient: float, *, rate: float, half: float
) -> bool:
    """Whether most of one parameter's update was rounded away."""
    return bool(many) and 0 < rate * gradient < size * half and moved < LOST * rate * gradient


@rule("GS807", "rounded-away", fully="values", reads=("act", "tensor"))
def rounded_away(trace: Trace) -> Iterator[Found]:
    """Parameters in half precision do not move: the steps are smaller than their spacing.

    bfloat16 has 8 bits of precision: next to 0.05 its values are 0.0002 apart, and a step of less
    than half of that is rounded away, in each step again. The rule compares the learning rate of
    Adam and AdamW with the weights; for SGD, the learning rate times the gradients of three steps.
    It reports them only if measured steps moved the weights by less than half of what they should.

    Bad:
        w = torch.linspace(0.5, 1.5, 12).reshape(3, 4).half().requires_grad_()
        optimizer = torch.optim.Adam([w], lr=1e-5, eps=1e-4)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()

    Good:
        w = torch.linspace(0.5, 1.5, 12).reshape(3, 4).requires_grad_()
        optimizer = torch.optim.Adam([w], lr=1e-5)
        for _ in range(3):
            optimizer.zero_grad()
            (w.half() * w.half()).sum().backward()
            optimizer.step()
    """
    acts = trace.once(Acts)
    for lost in trace.once(LostUpdates).all:
        built, step = acts.site(lost.optimizer.built), acts.site(lost.step)
        site = built if built.place else step
        moved = f"moved by {lost.part:.0%} of that" if lost.part else "did not move at all"
        step_of = "the first step" if lost.step is lost.optimizer.steps[0] else "a step"
        spacing = 2 * HALF_SPACING[lost.dtype] * lost.size
        yield Found(
            message=f"{lost.dtype} rounds updates away: {step_of} of {lost.optimizer.type}"
            f"{at(site)} should move parameters by about {lost.expected:.1g}, and {lost.many} of "
            f"them {moved}{at(step)}",
            site=site,
            evidence=(Evidence("act", lost.optimizer.built.id), Evidence("act", lost.step.id)),
            why=f"values of this dtype next to {lost.size:.1g}, the typical size of these "
            f"parameters, are at least {spacing:.1g} apart, and less than half of that is rounded "
            f"away; the learning rate is {lost.rate:g}; parameters were compared before and after "
            "the step",
            fix="keep the parameters in float32 and compute in half precision with "
            "`torch.autocast`, or use an optimizer with float32 copies or stochastic rounding",
            certainty=Certainty.CERTAIN,
        )
