"""The answer of `gradscope law resume`: what a run did not restore from its checkpoint."""

from __future__ import annotations

from gradscope.analysis.identity.sites import at
from gradscope.analysis.likeness.laws.resume import NotRestored, Resumed
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural


def resume_answer(found: Resumed) -> Answer:
    """The answer about a run that was resumed from a checkpoint, and the whole run."""
    begins = f"step {found.offset} of the whole run"
    if found.lost:
        what = " and ".join(dict.fromkeys(each.what for each in found.lost))
        title = f"not restored: {what}, from step {found.lost[0].step} of the whole run on"
    else:
        title = f"the resumed run does what the whole run did, in {plural(found.steps, 'step')}"
    loads = [f"a module's state is loaded at {site}" for site in found.loads if site.place]
    return Answer(
        title,
        facts=(("resumed at", begins),),
        sections=filled(
            *(Topic(each.what, tuple(_lost_lines(each))) for each in found.lost),
            Topic("lines", tuple(loads)),
            Topic("compared", tuple(_compared_steps(found))),
        ),
        notes=(UNSEEN,),
        data=found,
    )


UNSEEN = (
    "not compared by themselves: buffers, the state of optimizers and schedulers, generators of "
    "Python and NumPy, and on PyTorch the data; they show in what a step does"
)


def _lost_lines(lost: NotRestored) -> list[str]:
    lines = [f"{lost.how}{at(lost.site)}"]
    if lost.one or lost.other:
        lines.append(f"whole run: {lost.one}; resumed: {lost.other}")
    if not lost.seen:
        lines.append("inferred: nothing else that was compared differs before it")
    return lines


def _compared_steps(found: Resumed) -> list[str]:
    return [
        f"{plural(found.steps, 'step')}: learning rates, the engine's random generator",
        f"{plural(found.values, 'value')} of parameters, other leaves and calls, to the last bit",
        f"{plural(found.hashes, 'parameter')} after steps: hashes of all bits",
    ]
