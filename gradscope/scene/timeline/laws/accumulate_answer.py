"""The answer of `gradscope law accumulate`: gradients of a whole batch, and of its parts."""

from __future__ import annotations

import math

from gradscope.analysis.identity.sites import at
from gradscope.analysis.likeness.laws.accumulate import PartsCause, PartsDiffer, PartsOfBatch
from gradscope.analysis.likeness.laws.gradients import GradientPair, Precision
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural

MOST = 5
"""Number of gradients that are listed."""


def accumulate_answer(found: PartsOfBatch) -> Answer:
    """The answer about a run with whole batches, and one with parts."""
    first = found.first
    return Answer(
        _title(found),
        facts=(("backwards", f"{_counts(first)}"),) * (first is not None),
        sections=filled(
            Topic("why", tuple(map(_why, first.causes)) if first else ()),
            Topic(
                "gradients", tuple(gradient_lines(first.pairs, ("whole", "parts")) if first else ())
            ),
            Topic("compared", tuple(compared_gradients(found)) if found.gradients else ()),
        ),
        notes=(OTHER_START,) if found.other_start else (),
        data=found,
    )


OTHER_START = (
    "gradients can only be compared if both runs begin with the same parameters: seed the "
    "generators first, as with torch.manual_seed(0)"
)


def _title(found: PartsOfBatch) -> str:
    if found.other_start:
        return f"cannot be compared: {found.other_start} is not the same before the first step"
    if not found.gradients:
        return "no gradient was recorded that could be compared"
    if found.first is None:
        return f"parts have the same gradients as whole batches, in {plural(found.steps, 'step')}"
    where = f" before step {found.first.step}{at(found.first.site)}"
    if math.isnan(found.first.factor):
        few = f"{len(found.first.pairs)} of {plural(found.gradients, 'gradient')}"
        return f"parts have other gradients than the whole batch: {few}{where}"
    times = f"{found.first.factor:.4g} times those of the whole batch"
    return f"the gradients of the parts are {times}, in all parameters{where}"


def _counts(first: PartsDiffer | None) -> str:
    whole, parts = first.backwards if first is not None else (0, 0)
    return f"{whole} before the step with the whole batch, {parts} with parts"


def _why(cause: PartsCause) -> str:
    inferred = "" if cause.seen else "inferred: "
    return f"{inferred}{cause.words}{at(cause.site)}; {cause.advice}"


def gradient_lines(pairs: tuple[GradientPair, ...], names: tuple[str, str]) -> list[str]:
    """Some gradients, each with its norms in both runs."""
    lines = []
    for pair in pairs[:MOST]:
        norms = ", ".join(
            f"{name}: none" if math.isnan(norm) else f"{name}: norm {norm:.6g}"
            for name, norm in zip(names, pair.norms, strict=True)
        )
        times = f" ({pair.factor:.4g} times)" if math.isfinite(pair.factor) else ""
        lines.append(f"{pair.name}  {norms}{times}")
    if len(pairs) > MOST:
        lines.append(f"and {len(pairs) - MOST} more")
    return lines


def compared_gradients(found: PartsOfBatch) -> list[str]:
    """What was compared, and how."""
    gradients = plural(found.gradients, "gradient")
    lines = [
        f"{gradients} in {plural(found.steps, 'step')}, before clipping: min, max, mean and norm",
        in_words(found.precision),
    ]
    if found.small:
        lines.append(f"{plural(found.small, 'gradient')} too small to be compared")
    return lines


def in_words(precise: Precision) -> str:
    """Which differences are too small to matter."""
    return (
        f"half of the bits of {precise.dtype} must agree: relative differences up to "
        f"{precise.tolerance:.1g}, and more in later steps"
    )
