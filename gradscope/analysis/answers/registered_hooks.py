"""Every hook: where it was registered, on what, how often it was called, and what it changed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gradscope.analysis.identity.leaves import leaf_of
from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import member
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    HookAct,
    HookBegin,
    HookEnd,
    HookKind,
    Module,
    Node,
    Place,
    Value,
)
from gradscope.trace.trace import Trace

KINDS = {
    "register_hook": HookKind.TENSOR,
    "register_post_accumulate_grad_hook": HookKind.POST_ACCUMULATE,
    "register_forward_hook": HookKind.MODULE_FORWARD,
    "register_forward_pre_hook": HookKind.MODULE_FORWARD_PRE,
    "register_full_backward_hook": HookKind.MODULE_BACKWARD,
    "register_backward_hook": HookKind.MODULE_BACKWARD,
    "register_full_backward_pre_hook": HookKind.MODULE_BACKWARD_PRE,
    "register_step_pre_hook": HookKind.OPTIMIZER_PRE,
    "register_step_post_hook": HookKind.OPTIMIZER_POST,
    "saved_tensors_hooks, pack_hook": HookKind.PACK,
    "saved_tensors_hooks, unpack_hook": HookKind.UNPACK,
    "node": HookKind.POST,
}
ANYWHERE = frozenset((
    HookKind.OPTIMIZER_PRE, HookKind.OPTIMIZER_POST, HookKind.PACK, HookKind.UNPACK, HookKind.POST,
))  # fmt: skip
"""Kinds for which it is not recorded on what they were registered."""
LIBRARY = "torch."
"""Prefix of the names of hooks of PyTorch's distributed training."""
MACHINERY = "BackwardHook."
"""Prefix of the names of hooks with which the engines call module hooks."""


@dataclass(frozen=True, slots=True)
class On:
    """What a hook is on: a leaf, a module, or a tensor whose grad_fn has this name and line."""

    tensor: int = NONE
    module: int = NONE
    node: str = ""
    made: str = ""  # the line

    @property
    def is_named(self) -> bool:
        return self.tensor != NONE or self.module != NONE


@dataclass(slots=True)
class Hook:
    """One function registered as a hook on one thing, or on several similar ones."""

    kind: HookKind | None  # None: unknown to this version of gradscope
    name: str
    on: str  # in words: "body.weight", "head", "a tensor with grad_fn TanhBackward0"
    written: Site  # the function
    registered: list[Site] = field(default_factory=list)  # each line once
    registrations: int = 0
    calls: int = 0
    replaced: int = 0
    unfinished: int = 0  # calls that did not return
    ns: int = 0
    norms: list[float] = field(default_factory=list)  # of the value afterwards, if recorded
    nodes: list[int] = field(default_factory=list)  # on which it was called
    first: int = 0  # when it was registered, or first called

    @property
    def is_machinery(self) -> bool:
        return self.name.startswith(MACHINERY)

    @property
    def is_of_library(self) -> bool:
        """Whether PyTorch registered it: `written` is then the line that made PyTorch do so."""
        return self.name.startswith(LIBRARY)


@dataclass(frozen=True, slots=True)
class Hooks:
    """All hooks of a trace, in the order in which they were registered or first called."""

    hooks: tuple[Hook, ...]
    registrations_recorded: bool

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.hooks)


def hooks_of(trace: Trace) -> Hooks:
    told = _Told(trace)
    found = sorted(told.all(), key=lambda each: each.first)
    return Hooks(tuple(found), trace.meta.get("level") != "graph")


class _Told:
    """Calls of hooks, matched with their registrations."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._modules = module_names(trace)
        self._ons: dict[tuple[int, int], On] = {}

    def all(self) -> Iterator[Hook]:
        called = self._called()
        acts = self._trace.once(Acts)
        waiting: dict[tuple[HookKind | None, str], list[tuple[On, Hook]]] = defaultdict(list)
        for (kind, name, on, _), hook in called.items():
            waiting[kind, name].append((on, hook))
        uncalled: dict[tuple[HookKind | None, str, On, str], Hook] = {}
        for act in acts.of(HookAct):
            kind, name = KINDS.get(act.facts.by), act.facts.hook
            site, on = acts.site(act), _on_of(act)
            candidates = waiting[kind, name]
            if kind is HookKind.POST:  # or before the run: nodes do not say which
                candidates = [*candidates, *waiting[HookKind.PRE, name]]
            anywhere = kind in ANYWHERE
            hook = self._of_registration(
                candidates, on, site, anywhere=anywhere
            ) or uncalled.setdefault(
                (kind, name, on, site.place),
                Hook(kind, name, self._in_words(on), Site(), first=act.t),
            )
            hook.registrations += 1
            hook.first = min(hook.first, act.t)
            if site not in hook.registered:
                hook.registered.append(site)
        yield from called.values()
        yield from uncalled.values()

    def _of_registration(
        self, candidates: list[tuple[On, Hook]], on: On, site: Site, *, anywhere: bool
    ) -> Hook | None:
        """The called hook that a registration may belong to."""
        if anywhere:
            its = [hook for _, hook in candidates]
        elif on.is_named:
            its = [hook for other, hook in candidates if other == on]
        else:
            its = [hook for other, hook in candidates if not other.is_named]
        alike = [hook for hook in its if hook.written.place == site.place]
        return next(iter(alike or its), None)

    def _called(self) -> Mapping[tuple[HookKind | None, str, On, str], Hook]:
        found: dict[tuple[HookKind | None, str, On, str], Hook] = {}
        open_calls: dict[tuple[int, int, int, int], list[tuple[HookBegin, Hook]]] = defaultdict(
            list
        )
        norms = self._norms()
        for event in self._trace.events(HookBegin, HookEnd):
            key = (event.task, event.node, event.hook, event.index)
            if isinstance(event, HookBegin):
                hook = self._hook(found, event)
                hook.calls += 1
                if event.node not in hook.nodes[-1:]:
                    hook.nodes.append(event.node)
                hook.unfinished += 1
                open_calls[key].append((event, hook))
            elif open_calls[key]:
                begin, hook = open_calls[key].pop()
                hook.unfinished -= 1
                hook.replaced += event.replaced
                hook.ns += event.t - begin.t
                if event.replaced and event.seq in norms:
                    hook.norms.append(norms[event.seq])
        return found

    def _hook(
        self, found: dict[tuple[HookKind | None, str, On, str], Hook], begin: HookBegin
    ) -> Hook:
        kind, on, written = (
            member(HookKind, begin.hook),
            self._on(begin),
            site_of(self._trace, begin.stack),
        )
        key = (kind, begin.name, on, written.place)
        if key not in found:
            found[key] = Hook(kind, begin.name, self._in_words(on), written, first=begin.t)
        return found[key]

    def _norms(self) -> dict[int, float]:
        """The norm of the value after a hook, by the event at which it returned."""
        table = self._trace.table(Value)
        looked = table["place"] == Place.HOOK
        pairs = zip(table["seq"][looked].tolist(), table["norm"][looked].tolist(), strict=True)
        return {seq: norm for seq, norm in pairs if not math.isnan(norm)}

    def _on(self, begin: HookBegin) -> On:
        key = (begin.node, begin.module)
        if key not in self._ons:
            self._ons[key] = self._made_on(begin)
        return self._ons[key]

    def _made_on(self, begin: HookBegin) -> On:
        nodes = self._trace.table(Node)
        if begin.module != NONE:
            return On(module=begin.module)
        if not nodes.has(begin.node):
            return On()
        row = nodes.row(begin.node)
        leaf = leaf_of(self._trace, row)
        if leaf is not None:
            return On(tensor=leaf.tensor)
        return On(node=row.name, made=site_of(self._trace, row.stack).place)

    def _in_words(self, on: On) -> str:
        if on.tensor != NONE:
            return self._trace.once(Training).title(on.tensor)
        if on.module != NONE and self._trace.table(Module).has(on.module):
            path = self._modules.get(on.module)
            return f"module {path}" if path else self._trace.table(Module).row(on.module).type
        made = f" from {on.made}" if on.made else ""
        return f"a tensor with grad_fn {on.node}{made}" if on.node else ""


def _on_of(act: Done[ActFacts]) -> On:
    tensor = act.tensors[0] if act.tensors else NONE
    return On(tensor=tensor, module=act.module)
