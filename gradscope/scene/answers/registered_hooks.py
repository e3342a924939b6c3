"""All hooks of a program, in words."""

from __future__ import annotations

from gradscope.analysis.answers.registered_hooks import Hook, hooks_of
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.scene.readable import count, duration, number, plural
from gradscope.trace.schema import HookKind
from gradscope.trace.trace import Trace

FEW = 3
KINDS = {
    HookKind.TENSOR: "register_hook",
    HookKind.PRE: "register_prehook of a node",
    HookKind.POST: "register_hook of a node",
    HookKind.RETAINS_GRAD: "retain_grad",
    HookKind.CAPTURE: "capture hook of autograd.grad",
    HookKind.POST_ACCUMULATE: "register_post_accumulate_grad_hook",
    HookKind.PACK: "saved_tensors_hooks, pack",
    HookKind.UNPACK: "saved_tensors_hooks, unpack",
    HookKind.MODULE_FORWARD_PRE: "register_forward_pre_hook",
    HookKind.MODULE_FORWARD: "register_forward_hook",
    HookKind.MODULE_BACKWARD_PRE: "register_full_backward_pre_hook",
    HookKind.MODULE_BACKWARD: "register_full_backward_hook",
    HookKind.OPTIMIZER_PRE: "register_step_pre_hook",
    HookKind.OPTIMIZER_POST: "register_step_post_hook",
}
PACKING = (HookKind.PACK, HookKind.UNPACK)
"""Kinds whose return value always replaces the tensor."""


def hooks(trace: Trace, _: str = "") -> Answer:
    told = hooks_of(trace)
    library = [each for each in told.hooks if each.is_of_library]
    own = [each for each in told.hooks if not (each.is_machinery or each.is_of_library)]
    changed = [each for each in own if each.replaced]
    left = [each for each in own if each.calls and not each.replaced]
    uncalled = [each for each in own if not each.calls]
    machinery = [each for each in told.hooks if each.is_machinery]
    sections = filled(
        Topic("returned a replacement", _lines(changed)),
        Topic("registered, but not called during the recording", _lines(uncalled)),
        Topic("called, changed nothing", _lines(left)),
        Topic("hooks of PyTorch's distributed training", _lines(library)),
    )
    facts = [("calls", _calls(own))] if own else []
    if library:
        facts.append(("of PyTorch", f"{plural(len(library), 'hook')}, calls: {_calls(library)}"))
    if machinery:
        others = plural(sum(each.calls for each in machinery), "call")
        facts.append(("internal", f"{others} by the engine itself, for module hooks"))
    if any(h.calls and not h.registrations and told.registrations_recorded for h in own):
        facts.append(
            ("not recorded", "where some were registered: for all modules, or by PyTorch itself")
        )
    lacking = "where hooks were registered" if own else "hooks, and where they were registered"
    notes = (
        *not_at_level(trace, "engine", lacking),
        *not_at_level(trace, "values", "values after hooks"),
    )
    title = _title(own, len(changed), len(uncalled)) if own or not library else NONE_OF_ITS_OWN
    return Answer(title, tuple(facts) if own or library else (), sections, notes, told)


NONE_OF_ITS_OWN = "The program registered no hook itself."


def _calls(hooks: list[Hook]) -> str:
    calls = sum(each.calls for each in hooks)
    return f"{count(calls)}, which took {duration(sum(each.ns for each in hooks))}"


def _title(own: list[Hook], changed: int, uncalled: int) -> str:
    if not own:
        return "No hook was recorded."
    parts = [plural(len(own), "hook")]
    if changed:
        parts.append(f"{count(changed)} returned a replacement")
    if uncalled:
        parts.append(f"{count(uncalled)} {'was' if uncalled == 1 else 'were'} never called")
    return f"{'; '.join(parts)}."


def _lines(hooks: list[Hook]) -> tuple[str, ...]:
    return tuple(map(_in_words, hooks))


def _in_words(hook: Hook) -> str:
    kind = KINDS.get(hook.kind, "of unknown kind") if hook.kind is not None else "?"
    on = f" on {hook.on}" if hook.on else ""
    lines = [site.place for site in hook.registered if site.place]
    several = f" ({count(hook.registrations)} times)" * (hook.registrations > 1)
    shown = f"{', '.join(lines[:FEW])}{', …' * (len(lines) > FEW)}"
    where = f", registered at {shown}{several}" if lines else ""
    verb = "registered through" if hook.is_of_library else "written at"
    written = f" ({verb} {hook.written})" if hook.written.place else ""
    written = "" if hook.written.place in lines else written
    return f"{hook.name or '?'}{written}: {kind}{on}{where}{_did(hook)}"


def _did(hook: Hook) -> str:
    if not hook.calls:
        return ""
    called = f": called {'once' if hook.calls == 1 else f'{count(hook.calls)} times'}"
    if hook.unfinished:
        called += f", {count(hook.unfinished)} of them did not return"
    if not hook.replaced:
        return called
    if hook.kind in PACKING:
        return f"{called}, returned another tensor{_times(hook)}"
    what = "the gradient" if hook.kind in _OF_GRADIENTS else "the value it received"
    return f"{called}, replaced {what}{_times(hook)}{_norms(hook)}"


_OF_GRADIENTS = frozenset((
    HookKind.TENSOR, HookKind.PRE, HookKind.POST, HookKind.MODULE_BACKWARD,
    HookKind.MODULE_BACKWARD_PRE, HookKind.POST_ACCUMULATE,
))  # fmt: skip


def _times(hook: Hook) -> str:
    if hook.replaced == hook.calls:
        return " each time" if hook.calls > 1 else ""
    return f" {plural(hook.replaced, 'time')}"


def _norms(hook: Hook) -> str:
    if not hook.norms:
        return ""
    least, most = number(min(hook.norms)), number(max(hook.norms))
    return f"; norm afterwards {least}" + f" to {most}" * (least != most)
