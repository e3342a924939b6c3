"""An operator that a script registers is seen in the trace, and what it is made of inside it."""

from __future__ import annotations

from gradscope.trace.schema import Op
from tests.record.running import House

REGISTERS = """
import torch
@torch.library.custom_op("mine::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x.exp() * 2
double.register_autograd(lambda ctx, g: g * 2)
lib = torch.library.Library("other", "DEF")
lib.define("three(Tensor x) -> Tensor")
lib.impl("three", lambda x: x * 3 + 1, "CompositeImplicitAutograd")
lib.define("plain(Tensor x) -> Tensor")
lib.impl("plain", lambda x: x.abs(), "CPU")
x = torch.ones(3, requires_grad=True)
double(x)
torch.ops.other.three(x).sum().backward()
torch.ops.other.plain(x.detach())
"""


def test_a_users_operator_is_an_operation_around_those_it_is_made_of(house: House) -> None:
    house.write(REGISTERS)

    ran = house.trace("script.py")

    ops = list(house.recorded().rows(Op))
    assert (ran.code, ran.err) == (0, "")
    for name, inside in (
        ("mine::double", ["exp", "mul"]),
        ("other::three", ["mul", "add"]),
        ("other::plain", ["abs"]),
    ):
        (outer,) = (op for op in ops if op.name == name)
        found = [
            op.name
            for op in ops
            if op is not outer and outer.begin <= op.begin <= op.end <= outer.end
        ]
        assert found == inside, name
        assert len(outer.inputs) == len(outer.outputs) == 1, name
    assert house.violations() == []
