"""Rules about what hooks do to gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.answers.registered_hooks import Hook, hooks_of
from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import Edge, HookKind, Place, Value
from gradscope.trace.trace import Trace


@rule("GS811", "hook-returns-zeros", needs="values", reads=("value", "hook_begin"))
def hook_returns_zeros(trace: Trace) -> Iterator[Found]:
    """A hook replaced a gradient by zeros each time it was called.

    The parameter it belongs to never learns. Often a mask is wrong: a threshold at the wrong scale,
    or an inverted comparison.

    Bad:
        w = torch.tensor([0.5, -0.2], requires_grad=True)
        w.register_hook(lambda grad: grad * (w.abs() > 10))
        for _ in range(2):
            (w * 3).sum().backward()

    Good:
        w = torch.tensor([0.5, -0.2], requires_grad=True)
        w.register_hook(lambda grad: grad * (w.abs() > 0.3))
        for _ in range(2):
            (w * 3).sum().backward()
    """
    zeros = _given_something(trace)
    if not zeros:
        return
    for hook in hooks_of(trace).hooks:
        if hook.kind is not HookKind.TENSOR or hook.calls < 2 or hook.replaced < hook.calls:
            continue
        nodes = [node for node in hook.nodes if node in zeros]
        if nodes and len(hook.norms) == hook.calls and not any(hook.norms):
            yield _found(hook, nodes)


def _given_something(trace: Trace) -> frozenset[int]:
    """Nodes whose hooks returned zeros although the node before them received something else."""
    values, edges = trace.table(Value), trace.table(Edge)
    left = (values["place"] == Place.HOOK) & (values["count"] == values["zero"])
    taken = (values["place"] == Place.NODE_INPUT) & (values["norm"] > 0)
    before = np.isin(edges["node"], values["node"][taken])
    fed = distinct(edges["next"][before])
    return frozenset(values["node"][left].tolist()).intersection(fed.tolist())


def _found(hook: Hook, nodes: list[int]) -> Found:
    site = hook.registered[0] if hook.registered else hook.written
    written = f", defined at {hook.written}," if hook.written.place not in ("", site.place) else ""
    return Found(
        message=f"The hook {hook.name} on {hook.on or 'a tensor'}, registered at {site},{written} "
        f"returned only zeros in all of its {hook.calls:,} calls",
        site=site,
        evidence=tuple(Evidence("node", node) for node in nodes[:1]),
        why=f"the gradients it received were not zero, and its result replaced them: "
        f"{hook.on or 'its tensor'} is not trained",
        fix="check what it multiplies by: print how many elements of the mask are not zero; to "
        "freeze a parameter on purpose, set requires_grad to False",
        certainty=Certainty.CERTAIN,
    )
