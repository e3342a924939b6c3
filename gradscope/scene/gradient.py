"""Why a leaf's `.grad` is None, as what is shown of one thing."""

from __future__ import annotations

from gradscope.analysis.program.gradient import gradient_of
from gradscope.scene.details import ChosenScene, Section, found_row
from gradscope.trace.schema import Tensor
from gradscope.trace.trace import Trace


def why_none(trace: Trace, wanted: str) -> ChosenScene:
    """Of a tensor, by its id or a name that only it has."""
    story = gradient_of(trace, found_row(trace, Tensor, wanted).id)
    facts = (
        ("backwards", f"{story.brought} of {story.backwards} brought it a gradient"),
        ("requires_grad", "yes" if story.asks else "no"),
        ("optimizers", ", ".join(map(str, story.held)) or "none holds it"),
    )
    parts = (
        ("Who set requires_grad", story.asked),
        ("How its module ran", story.ran),
        ("Cuts behind which it lies", story.cuts),
        ("Who cleared its gradient", story.cleared),
    )
    sections = tuple(Section(title, tuple(map(str, lines))) for title, lines in parts if lines)
    return ChosenScene(story.answer, facts, sections)
