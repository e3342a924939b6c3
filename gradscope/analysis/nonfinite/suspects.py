"""Which calls of a step may have produced a NaN or an Inf whose origin was not recorded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Origins
from gradscope.analysis.program.arguments import Given
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.risks import risks
from gradscope.trace.schema import NONE, CameInAct, Edge, HookBegin, HookEnd, Node, Phase
from gradscope.trace.trace import Trace

NEVER = 9
MOST, DEEP, SOME = 400, 2000, 4
"""Limits: number of calls of a step, depth of the graph, and number of steps that made it."""

Bools = NDArray[np.bool_]

RISKS = {
    "log": (0, 2, "of 0 or less"),
    "log2": (0, 2, "of 0 or less"),
    "log10": (0, 2, "of 0 or less"),
    "log1p": (2, 3, "of -1 or less"),
    "logit": (0, 2, "of 0 or 1"),
    "reciprocal": (0, 1, "of 0"),
    "rsqrt": (0, 1, "of 0"),
    "div": (1, 2, "by 0"),
    "true_divide": (1, 2, "by 0"),
    "pow": (2, 0, "of 0 or a negative number"),
    "float_power": (2, 0, "of 0 or a negative number"),
    "sqrt": (2, 0, "of a negative number; its derivative is infinite at 0"),
    "acos": (2, 0, "of a value beyond ±1; its derivative is infinite there"),
    "asin": (2, 0, "of a value beyond ±1; its derivative is infinite there"),
    "acosh": (2, 0, "of 1 or less"),
    "atanh": (1, 0, "of 1 or -1"),
    "std": (2, 0, "of one value; its derivative is not finite where all are equal"),
    "std_mean": (2, 0, "of one value; its derivative is not finite where all are equal"),
    "var": (3, NEVER, "of one value"),
    "hypot": (NEVER, 0, "whose derivative is not finite where both are 0"),
    "atan2": (NEVER, 0, "whose derivative is not finite where both are 0"),
    "erfinv": (2, 2, "of 1 or -1"),
    "xlogy": (2, 1, "whose second argument is 0 or less"),
    **dict.fromkeys(("fmod", "remainder"), (2, NEVER, "by 0")),
    "linalg_inv": (2, 2, "of a singular matrix"),
    "linalg_inv_ex": (2, 2, "of a singular matrix"),
    "linalg_solve_ex": (2, 2, "of a singular matrix"),
    "linalg_cholesky_ex": (2, 2, "of a matrix that is not positive definite"),
    "linalg_eigh": (NEVER, 1, "whose derivative needs distinct eigenvalues"),
    "linalg_svd": (NEVER, 1, "whose derivative needs distinct singular values"),
    **dict.fromkeys(
        ("softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp"),
        (2, 2, "of a row that is all -inf"),
    ),
    **dict.fromkeys(("exp", "expm1", "sinh", "cosh"), (4, 4, "of more than 88")),
    **dict.fromkeys(
        ("nll_loss", "nll_loss_forward", "nll_loss_nd", "nll_loss2d", "nll_loss2d_forward"),
        (5, NEVER, "where all targets are ignored"),
    ),
}
"""By function name: its rank in a forward, and in a backward with a finite loss (0: likeliest); its
critical inputs."""

EMPTY = ("mean", "std", "std_mean", "var", "nll_loss", "nll_loss_forward", "nll_loss_nd")
MASKED = frozenset(("masked_fill", "masked_fill_", "where", "add", "log", "baddbmm"))
SOFTMAX = frozenset(("softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp"))
HUGE = 1e18
"""A factor that makes ordinary values, or their squares, overflow."""
HALF, HALF_RISK = "float16", (3, 3, "of more than 65504, the largest float16")
OF_HALF = frozenset(("mul", "pow", "exp", "mm", "addmm", "bmm", "sum", "add", "_to_copy", "square"))
OFF_THE_EDGE = frozenset(
    ("clamp", "clamp_min", "clamp_", "maximum", "softplus", "exp", "log_sigmoid_forward", "cosh")
)
"""Calls whose result is kept away from 0, or from values that overflow."""

UNKNOWN = frozenset(("pow", "div", "exp", *SOFTMAX))
"""Calls that are suspects only if more than their name is known."""

DIVISIONS = ("div", "true_divide")
LAST, GUARDED = 5, 10


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call that produces a NaN or Inf from certain inputs."""

    name: str  # "log"
    what: str  # "of 0 or less"
    site: Site
    op: int
    rank: int
    of_source: bool = False  # found in the source, not seen to run

    @property
    def words(self) -> str:
        return f"{self.name.strip('_')} at {self.site} ({self.what})"


def replacing_hooks(trace: Trace) -> dict[str, int]:
    """Hooks that returned another gradient, by name: the stack of their definitions."""
    begins, ends = trace.table(HookBegin), trace.table(HookEnd)
    replaced = {*ends["node"][ends["replaced"] != 0].tolist()}
    mine = np.flatnonzero(np.isin(begins["node"], list(replaced)))
    pairs = zip(begins["name"][mine].tolist(), begins["stack"][mine].tolist(), strict=True)
    return {trace.text(name): stack for name, stack in sorted({*pairs})}


class Suspects:
    """The suspects of one step, the likeliest first; at most one for each line."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._calls = trace, trace.once(Calls)

    def of_step(
        self, step: int, *, backward: bool | None, bad: Collection[int], good: Collection[int]
    ) -> list[Suspect]:
        """The suspects. `backward`: the loss was finite; `bad`, `good`: leaves by gradient."""
        calls = self._calls
        ops = calls.ops
        own = (ops["phase"] != Phase.OPTIMIZER) | (ops["node"] != NONE)  # closures run in steps
        own &= (ops["task"] == NONE) | (backward is not False)  # or in a hook
        mine = np.flatnonzero(own & (ops["step"] == step))
        leads = np.ones(len(self._trace.table(Node)), np.bool_)
        if backward and bad:  # a NaN of a forward spreads to later leaves
            leads = self._leads(step, bad)
            leads &= ~self._leads(step, good) if good else leads
        found: dict[str, Suspect] = {}
        for at in mine[-MOST:].tolist():
            suspect = self._suspect(at, backward=backward)
            if suspect is None or not self._is_on_a_way(at, leads):
                continue
            before = found.get(suspect.site.place)
            if before is None or suspect.rank < before.rank:
                found[suspect.site.place] = suspect
        for suspect in (
            *self._brought_in(step, backward=backward),
            *self._of_source(backward=backward),
        ):
            found.setdefault(suspect.site.place, suspect)
        several = sorted(found.values(), key=lambda each: each.rank)
        for limit in (LAST, GUARDED):  # omit the unlikely if there are others
            likely = [each for each in several if each.rank < limit]
            if likely:
                return likely
        return several

    @cached_property
    def _read(self) -> dict[tuple[int, int], int]:
        """By line and name: a call with recorded arguments, as some calls of a line have."""
        nodes, ops = self._trace.table(Node), self._calls.ops
        at = nodes.positions(ops["node"])
        read = np.flatnonzero((at != NONE) & (nodes["arguments"][at] != 0))[::-1]
        keys = zip(ops["stack"][read].tolist(), ops["name"][read].tolist(), strict=True)
        return dict(zip(keys, read.tolist(), strict=True))

    def _given(self, at: int) -> Given:
        ops = self._calls.ops
        alike = self._read.get((int(ops["stack"][at]), int(ops["name"][at])), at)
        return self._calls.given(at) or self._calls.given(alike)

    def _suspect(self, at: int, *, backward: bool | None) -> Suspect | None:
        calls, name = self._calls, self._calls.name(at)
        risk = RISKS.get(name)
        if name in EMPTY and any(0 in calls.shape(each) for each in calls.inputs(at)[:1]):
            risk = (0, 0, "of an empty tensor")
        elif name in ("mul", "kl_div") and self._is_of_two_logarithms(at):
            name, risk = "kl_div", (0, NEVER, "whose target is a log-probability")
        elif risk is None and name in OF_HALF:
            made, by = calls.outputs(at), self._given(at).get("other")
            risk = HALF_RISK if made and calls.dtype(made[0]) == HALF else None
            if isinstance(by, int | float) and abs(by) > HUGE:
                risk = (1, 1, f"by {by:.2g}")
        if risk is None or not calls.site(at).place or self._is_harmless(at, name):
            return None
        forward, behind, what = risk
        if name in DIVISIONS and calls.given(at).get("other") == 0:
            forward, behind, what = 0, 0, "by 0, as it was here"
        rank = min(forward, behind) if backward is None else behind if backward else forward
        if rank == NEVER:
            return None
        guarded = GUARDED if what != "of an empty tensor" and self._is_guarded(at, name) else 0
        return Suspect(name, what, calls.site(at), calls.id(at), rank + guarded)

    def _brought_in(self, step: int, *, backward: bool | None) -> Iterator[Suspect]:
        """Calls without a node whose results are saved by the graph, if recorded."""
        acts = self._trace.once(Acts)
        for act in acts.of(CameInAct):
            name, site = act.facts.by.strip("_"), acts.site(act)
            if name in RISKS and name not in UNKNOWN and act.step <= step and site.place:
                forward, _, what = RISKS[name]
                if not backward and forward != NEVER:
                    yield Suspect(name, what, site, NONE, forward + 1)

    def _of_source(self, *, backward: bool | None) -> Iterator[Suspect]:
        """Risky calls in the source, on lines without recorded calls because they got no gradient.

        For a backward with a finite loss: calls in hooks that replaced gradients.
        """
        calls, hooks = self._calls, replacing_hooks(self._trace)
        seen = {(calls.site(at).place, calls.name(at)) for at in self._risky.tolist()}
        for risk in self._trace.once(SourceFiles).each(risks):
            name, site = risk.found.name, risk.site
            if name not in RISKS:
                continue
            forward, _, what = RISKS[name]
            hooked = risk.found.function.rpartition(".")[2] in hooks
            if (site.place, name) not in seen and (hooked or not backward) and forward != NEVER:
                yield Suspect(name, what, site, NONE, forward + (not hooked), of_source=True)

    @cached_property
    def _risky(self) -> Ids:
        """The first call of each line and name that produces NaN for certain inputs."""
        chosen = self._calls.called(*RISKS)
        chosen = chosen[np.asarray(self._calls.ops["node"][chosen] != NONE, np.bool_)]
        keys = np.stack([self._calls.ops[name][chosen] for name in ("stack", "name")])
        return chosen[np.unique(keys, axis=1, return_index=True)[1]]

    def _is_harmless(self, at: int, name: str) -> bool:
        """Whether no ordinary input makes it fail: squares, x / 2, softmax of plain scores."""
        given = self._given(at)
        exponent, other = given.get("exponent"), given.get("other")
        if name == "pow":
            if int(self._calls.ops["node"][at]) == NONE:
                return True  # its input is unknown
            return isinstance(exponent, int | float) and exponent >= 1 and exponent == int(exponent)
        if name in DIVISIONS:
            return isinstance(other, int | float) and other != 0 and self._is_fixed(at, other)
        if name in SOFTMAX:
            inputs = self._calls.inputs(at)
            maker = self._calls.origin(inputs[0]) if inputs else NONE
            return maker == NONE or self._calls.name(maker) not in MASKED
        return False

    def _is_fixed(self, at: int, other: float) -> bool:
        """Whether a divisor was recorded of this very call, or is a number that its line has."""
        if "other" in self._calls.given(at):
            return True
        if len(self._calls.inputs(at)) > 1:  # a tensor's value in another step
            return False
        numbers = re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", self._calls.site(at).text)
        return other in map(float, numbers)

    def _is_of_two_logarithms(self, at: int) -> bool:
        """Whether a product belongs to kl_div, which takes the log of its target."""
        calls = self._calls
        inputs = calls.inputs(at)
        if len(inputs) != 2 or [*map(calls.needs_grad, inputs)].count(True) != 1:
            return False
        makers = [calls.origin(each) for each in inputs]
        made = [calls.name(each) for each in makers if each != NONE]
        came = (self._trace.once(Origins).of(each) for each in inputs)
        made += [each.by for each in came if each is not None]
        return len(made) > 1 and all(name.strip("_") == "log_softmax" for name in made)

    def _is_guarded(self, at: int, name: str) -> bool:
        """Whether its argument was kept in the domain: clamped, or by adding a small number."""
        calls = self._calls
        inputs = calls.inputs(at)
        if name in DIVISIONS:
            inputs = inputs[1:]
        maker = calls.origin(inputs[0], SAME_NUMBERS) if inputs else NONE
        if maker == NONE or name in SOFTMAX:
            return False
        return calls.name(maker) in OFF_THE_EDGE or (
            calls.name(maker) in ("add", "add_") and len(calls.inputs(maker)) == 1
        )

    def _is_on_a_way(self, at: int, leads: Bools) -> bool:
        """Whether its node leads to a leaf with NaN; True for a call without a node."""
        nodes, node = self._trace.table(Node), int(self._calls.ops["node"][at])
        return node == NONE or not nodes.has(node) or bool(leads[nodes.index(node)])

    def _leads(self, step: int, leaves: Collection[int]) -> Bools:
        """Which nodes of a step lead to one of these leaves; all, without leaves or if too deep."""
        nodes, edges = self._trace.table(Node), self._trace.table(Edge)
        inputs, found = nodes.ragged("inputs"), np.zeros(len(nodes), np.bool_)
        places = inputs.owners[np.isin(inputs.values, list(leaves))]
        names = self._trace.texts(nodes["name"][places])
        found[[at for at, name in zip(places, names, strict=True) if name == ACCUMULATE_GRAD]] = (
            True
        )
        node, after = nodes.positions(edges["node"]), nodes.positions(edges["next"])
        known = (node != NONE) & (after != NONE)
        ago = step - nodes["step"][node[known]]  # another optimizer may have stepped since
        known[known] &= (ago >= 0) & (ago < SOME)
        node, after = node[known], after[known]
        for _ in range(DEEP):
            new = node[found[after] & ~found[node]]
            if not len(new):
                break
            found[new] = True
        else:
            return np.ones(len(nodes), np.bool_)
        return found
