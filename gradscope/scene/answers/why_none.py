"""Why a leaf's `.grad` is None, in words."""

from __future__ import annotations

from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.answers.why_none import LeafGradient, gradient_of
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.trace.trace import Trace


def why_none(trace: Trace, wanted: str) -> Answer:
    """Why a tensor's `.grad` is None; the tensor by id, unique name or finding."""
    story = gradient_of(trace, tensor_meant(trace, wanted))
    facts = (
        ("backwards", _backwards(story)),
        ("requires_grad", "yes" if story.asks else "no"),
        ("optimizers", ", ".join(map(str, story.held)) or "none holds it"),
    )
    parts = (
        ("what to do", (story.fix,) if story.fix else ()),
        ("what set requires_grad", story.asked),
        ("how its module ran", story.ran),
        ("where the graph was cut", story.cuts),
        ("what cleared its gradient", story.cleared),
    )
    sections = filled(*(Topic(title, tuple(map(str, lines))) for title, lines in parts))
    notes = not_at_level(
        trace, "engine", "what was frozen, cut and cleared, and which gradients arrived"
    )
    return Answer(story.answer, facts, sections, notes, story)


def _backwards(story: LeafGradient) -> str:
    if not story.knows:
        return f"{story.backwards}; whether they sent it a gradient was not recorded"
    return f"{story.brought} of {story.backwards} sent it a gradient"
