"""Why a leaf's `.grad` is None, as what is shown of one thing."""

from __future__ import annotations

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.answers.why_none import LeafGradient, gradient_of
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.trace.trace import Trace


def why_none(trace: Trace, wanted: str) -> Answer:
    """Of a tensor, by its id, a name that only it has, or a finding."""
    story = gradient_of(trace, tensor_meant(trace, wanted))
    facts = (
        ("backwards", _backwards(story)),
        ("requires_grad", "yes" if story.asks else "no"),
        ("optimizers", ", ".join(map(str, story.held)) or "none holds it"),
    )
    parts = (
        ("who set requires_grad", story.asked),
        ("how its module ran", story.ran),
        ("cuts behind which it lies", story.cuts),
        ("who cleared its gradient", story.cleared),
    )
    sections = filled(*(Topic(title, tuple(map(str, lines))) for title, lines in parts))
    notes = not_at_level(trace, "engine", "what froze, cut and cleared, and which gradients came")
    return Answer(story.answer, facts, sections, notes, story)


def _backwards(story: LeafGradient) -> str:
    if not story.knows:
        return f"{story.backwards}; whether they brought it a gradient was not recorded"
    return f"{story.brought} of {story.backwards} brought it a gradient"
