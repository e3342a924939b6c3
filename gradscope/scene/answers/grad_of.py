"""The history of a gradient, step by step, in words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gradscope.analysis.answers.grad_of import (
    PASSED_OVER,
    UNDEFINED,
    GradAct,
    GradStory,
    Happening,
    Round,
    grad_story,
)
from gradscope.analysis.answers.meant import tensor_meant
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import at, in_brackets
from gradscope.scene.answers.answer import Answer, Topic
from gradscope.scene.answers.not_recorded import inferred, not_added_up, not_at_level
from gradscope.scene.readable import count, number, plural
from gradscope.trace.schema import ClipAct, GradZeroedAct, StepAct, ZeroGradAct
from gradscope.trace.trace import Trace

FEW = 4
HOW = {
    "stolen": "moved into .grad without a copy",
    "cloned": "copied into a new .grad",
    "in place": "added to the existing .grad in place",
    "out of place": "added to the existing .grad, into a new tensor",
    "": "arrived in .grad",
}


def grad_of(trace: Trace, wanted: str, why: str = "--why-none") -> Answer:
    """The history of a tensor's gradient; the tensor by id, unique name or finding.

    `why`: the option or command that explains a missing gradient.
    """
    story = grad_story(trace, tensor_meant(trace, wanted))
    facts = *_facts(story, names := node_names(trace)), *trace.once(Sharding).story(story.tensor)
    sections = [_section(each, names) for each in story.rounds]
    if story.could_send:
        sections.append(Topic("nodes with an edge to it", tuple(_senders(story, names))))
    notes = (
        *not_at_level(trace, "engine", "what sent gradients; clears, clips and steps"),
        *(inferred(trace, "decrement", "what sent gradients") if story.brought else ()),
        *(not_added_up(trace) if story.brought else ()),
        *(not_at_level(trace, "values", "norms") if story.brought else ()),
    )
    return Answer(_title(story, why), facts, tuple(sections), notes, story)


def _title(story: GradStory, why: str) -> str:
    if not story.backwards:
        return f"No backward was recorded, so {story.title} has no gradient."
    if story.brought:
        brought = f"{count(story.brought)} of {plural(story.backwards, 'backward')}"
        left = _last_left(story.rounds)
        where = f"; after the last one, .grad has {left}" if left else ""
        return f"{brought} sent {story.title} a gradient{where}."
    if story.could_send:
        return (
            f"Nodes have an edge to {story.title}; whether they sent it a gradient was not "
            "recorded."
        )
    return f"No backward sent {story.title} a gradient; {why} says why."


def _last_left(rounds: tuple[Round, ...]) -> str:
    """As in "norm 0.14", or "56 NaN"; "" where values were not checked."""
    last = next((each for each in rounds[::-1] if each.norms or each.bad), None)
    if last is None:
        return ""
    return last.bad[-1][1] if last.bad else f"norm {number(last.norms[-1])}"


def _facts(story: GradStory, names: NodeNames) -> Iterable[tuple[str, str]]:
    if story.nodes:
        shown = ", ".join(f"{names.title(node)} (node {node})" for node in story.nodes[:FEW])
        more = f" and {count(len(story.nodes) - FEW)} more" * (len(story.nodes) > FEW)
        yield "arrives at", shown + more
    if not story.leaf:
        yield "leaf", "no: its gradient is passed on, and kept only after retain_grad()"
    norms = [norm for each in story.rounds for norm in each.norms]
    if len(norms) > 1:
        yield "norms of .grad", f"{number(min(norms))} to {number(max(norms))}"
    first = next((bad for each in story.rounds for bad in each.bad), None)
    if first is not None:
        many = sum(len(each.bad) for each in story.rounds)
        rest = f", and after {plural(many - 1, 'more backward')}" if many > 1 else ""
        yield "not finite", f"{first[1]} in .grad after backward {first[0]}{rest}"


def _senders(story: GradStory, names: NodeNames) -> Iterable[str]:
    return (f"{names.title(each.node)}{at(each.site)}" for each in story.could_send)


def _section(told: Round, names: NodeNames) -> Topic:
    first = tuple(dict.fromkeys(h.backward for h in told.happenings if h.backward >= 0))
    title = (
        f"backward{'s' * (len(first) > 1)} {', '.join(map(str, first))}"
        if first
        else "outside backwards"
    )
    if told.times > 1:
        others = told.backwards[len(first) :]
        alike = f"{others[0]} to {others[-1]}" if len(others) > 1 else ", ".join(map(str, others))
        title += f"; the same in the next {plural(told.times - 1, 'iteration')}" + (
            f" (backward{'s' * (len(others) > 1)} {alike})" if others else ""
        )
        if len(told.norms) > 1:
            title += f", norms {number(min(told.norms))} to {number(max(told.norms))}"
        if told.bad:
            title += f", {told.bad[-1][1]} in the last"
    return Topic(title, tuple(_in_words(each, names) for each in told.happenings))


def _in_words(h: Happening, names: NodeNames) -> str:
    where, norm = at(h.site), _norm(h)
    match h.part:
        case GradAct.BEGAN:
            return f"the backward started from it{where}{norm}"
        case GradAct.SENT:
            who = f"{count(h.times)} × {h.name}" if h.times > 1 else names.title(h.node)
            what = "None (no gradient)" if h.how == UNDEFINED else f"a gradient{norm}"
            return f"{who}{in_brackets(h.site)} sent {what}"
        case GradAct.SUMMED:
            return f"summed: {plural(h.times, 'addition')} {h.how}{norm}"
        case GradAct.HOOK:
            return f"hook {h.name or '?'}{in_brackets(h.site)} {_hooked(h)}"
        case GradAct.KEPT:
            return f"{HOW.get(h.how, HOW[''])}, in the backward{where}{norm}"
        case GradAct.RETURNED:
            return f"autograd.grad returned it{where}{norm}"
    return _of_program(h)


def _of_program(h: Happening) -> str:
    where, facts = at(h.site), h.facts
    match h.part:
        case GradAct.CLEARED:
            return f"cleared: {_cleared(h)}{where}"
        case GradAct.WRITTEN:
            verb = f"set {h.how}" if h.how else "written"
            return f"{verb} by {h.name or 'assignment'}{where}"
        case GradAct.CLIPPED:
            clip = facts if isinstance(facts, ClipAct) else ClipAct()
            scaled = f": total norm {number(clip.norm)}" if not math.isnan(clip.norm) else ""
            limit = f", limit {number(clip.max)}" if not math.isnan(clip.max) else ""
            return f"clipped by {h.name}{where}{scaled}{limit}"
        case GradAct.UNSCALED:
            return f"unscaled{where}"
        case GradAct.SKIPPED:
            return f"{h.name or 'optimizer'}'s step was skipped by the scaler{where}"
    if h.how == PASSED_OVER:
        return f"skipped by {h.name or 'optimizer'}'s step{where}: its .grad was None"
    rates = facts.lr if isinstance(facts, StepAct) else ()
    rate = f", lr {', '.join(map(_rate, rates[:FEW]))}" if rates else ""
    return f"used by {h.name or 'optimizer'}'s step{where}{rate}{moved_it(*h.moved)}"


def moved_it(by: float, size: float) -> str:
    """The norm of the update by which a step changed a parameter, where it was recorded."""
    if math.isnan(by):
        return ""
    share = f" ({number(by / size)} of the parameter's norm)" if by > 0 and size > 0 else ""
    return f", update of norm {number(by)}{share}"


def _cleared(h: Happening) -> str:
    if isinstance(h.facts, GradZeroedAct):
        return f"{h.name} wrote zeros into it"
    if isinstance(h.facts, ZeroGradAct):
        return f"{h.name or 'a module'}'s zero_grad set it {h.how}"
    return f"set {h.how}"


def _rate(value: float) -> str:
    return "None" if math.isnan(value) else number(value)


def _hooked(h: Happening) -> str:
    if h.bad:
        return f"{h.how}{_norm(h)}"
    if math.isnan(h.before) or math.isnan(h.norm):
        return h.how
    return f"{h.how}: norm {number(h.before)} to {number(h.norm)}"


def _norm(h: Happening) -> str:
    if h.bad:
        return f", not finite: {h.bad}"
    return "" if math.isnan(h.norm) else f", norm {number(h.norm)}"
