"""Which calls are left out unless everything is wanted."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.graph.forward.aside import Aside
from gradscope.trace.schema import Frame, Module, Op, Phase, Stack, Tensor, Version
from tests.shared.by_hand import trace_of


def test_fillings_are_writes_to_what_nothing_has_read() -> None:
    aside = Aside(
        trace_of(
            Tensor(0, storage=0, leaf=True, requires_grad=True),
            Tensor(1, storage=1),
            Tensor(2, storage=2),
            Module(0, "", "Linear", parameters=(0,)),
            Op(0, "uniform_", begin=0, inputs=(0,), outputs=(0,)),
            Op(1, "copy_", begin=1, inputs=(0, 2), outputs=(0,)),
            Op(2, "zero_", begin=2, inputs=(1,), outputs=(1,)),
            Op(3, "mul", begin=3, inputs=(0, 1), outputs=(3,)),
            Op(4, "mul_", begin=4, inputs=(0,), outputs=(0,)),
            Op(5, "add_", begin=5, inputs=(3,), outputs=(3,)),
            Op(6, "_fused_sgd_", begin=6, inputs=(0,), outputs=(0,), phase=Phase.OPTIMIZER),
            *(
                Version(storage=at, tensor=tensor, old=0, new=1, op=op)
                for op, tensor, at in ((0, 0, 0), (1, 0, 0), (2, 1, 1), (4, 0, 0), (5, 3, 3))
            ),
        )
    )

    assert aside.fillings.tolist() == [0, 1, 2, 6]


def test_what_only_leads_to_a_parameter_fills_it() -> None:
    # weight = Parameter(empty(3)), a buffer zeros(2); x is read by a call as the parameter is
    aside = Aside(
        trace_of(
            *(Tensor(id, leaf=True) for id in (0, 3)),
            Tensor(1, leaf=True, requires_grad=True, name="net.weight"),
            Tensor(2, leaf=True, name="net.count"),
            Module(0, "net", "Net", parameters=(1,)),
            Op(0, "empty", begin=0, outputs=(0,)),
            Op(1, "detach", begin=1, inputs=(0,), outputs=(1,)),
            Op(2, "zeros", begin=2, outputs=(5,)),
            Op(6, "lift_fresh", begin=2, inputs=(5,), outputs=(5,)),
            Op(7, "detach", begin=2, inputs=(5,), outputs=(2,)),
            Op(8, "zero_", begin=2, inputs=(2,), outputs=(2,)),
            Op(3, "uniform_", begin=3, inputs=(1,), outputs=(1,)),
            Version(storage=0, tensor=1, old=0, new=1, op=3),
            Op(4, "randn", begin=4, outputs=(3,)),
            Op(5, "addcmul", begin=5, inputs=(3, 1, 2), outputs=(4,)),
        )
    )

    assert aside.fillings.tolist() == [0, 1, 2, 4, 5, 6]
    assert aside.passing.tolist() == [3]


def test_what_the_engine_calls_and_what_returns_what_it_was_given_are_counted_apart() -> None:
    aside = Aside(
        trace_of(
            Frame(0, file="train.py", line=3),
            Stack(0, frame=0),
            Op(0, "mul", begin=0, inputs=(0,), outputs=(1,), stack=0),
            Op(1, "contiguous", begin=1, inputs=(1,), outputs=(1,), stack=0),
            Op(2, "mm", begin=2, inputs=(1,), outputs=(2,), task=1),
            Op(3, "sin", begin=3, inputs=(1,), outputs=(3,), task=1, stack=0),
            Op(4, "relu_", begin=4, inputs=(3,), outputs=(3,), stack=0),
        )
    )

    assert (aside.engines.tolist(), aside.passing.tolist()) == ([2], [1])
    assert aside.counted(np.ones(5, bool)) == (0, 1, 1)
