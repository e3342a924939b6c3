"""Finds the origin of zeros at which a logarithm or a root is not finite."""

from __future__ import annotations

from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.nonfinite.births import Birth
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.trace.schema import NONE, Node, Op, Value
from gradscope.trace.trace import Trace

KEEP_ZEROS = SAME_NUMBERS | {"pow", "square", "abs", "sqrt"}
"""Calls that return zero for zero, and for little else."""

MAKE_ZEROS = {"relu", "relu_", "clamp", "clamp_", "clamp_min", "clamp_min_", "relu6", "hardtanh"}
"""Calls that set values to zero, and pass no gradient to these."""


def made_zero_by(trace: Trace, birth: Birth) -> tuple[str, str]:
    """Name and line of the call that set the argument to zero, if recorded; otherwise "", ""."""
    calls, ops, nodes = trace.once(Calls), trace.table(Op), trace.table(Node)
    op = birth.op if birth.op != NONE or not nodes.has(birth.node) else nodes.row(birth.node).op
    if not ops.has(op):
        return "", ""
    inputs = calls.inputs(ops.index(op))
    maker = calls.origin(inputs[0], KEEP_ZEROS) if inputs else NONE
    if maker == NONE or calls.name(maker) not in MAKE_ZEROS:
        return "", ""
    values = trace.table(Value)
    row = ops.row(int(ops["id"][maker]))
    its = values["op"] == row.id
    if not (values["zero"][its].any() and values["min"][its].min() == 0):
        return "", ""
    return calls.name(maker).rstrip("_"), at(site_of(trace, row.stack))
