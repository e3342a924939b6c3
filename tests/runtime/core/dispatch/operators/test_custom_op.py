"""`torch.library.custom_op`: a function of the user's that autograd takes as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gradscope.trace import schema


def sine(torch: Any, name: str) -> Any:
    """An operator with a backward."""

    def compute(x, s=1.0):  # type: ignore[no-untyped-def]  # hints are given below
        return torch.sin(x.detach()) * s

    compute.__annotations__ = {"x": torch.Tensor, "s": float, "return": torch.Tensor}
    made = torch.library.custom_op(f"{name}::sine", compute, mutates_args=())

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.s = inputs[1]

    made.register_autograd(
        lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.s, None), setup_context=set_up
    )
    return made


def test_it_is_one_node_named_after_the_operator(torch: Any, name: str, seen: Any) -> None:
    made = sine(torch, name)
    x = torch.zeros(2, requires_grad=True)

    result = made(x, 3.0)
    result.sum().backward()

    assert type(result.grad_fn).__name__ == f"GeneratedBackwardFor_{name}_sine_defaultBackward"
    assert x.grad.tolist() == [3.0, 3.0]
    assert str(made) == f"<CustomOpDef({name}::sine)>"
    seen(lambda trace: f"{name}::sine" in [op.name for op in trace.table(schema.Op).rows()])


def test_it_is_called_through_torch_ops_too(torch: Any, name: str) -> None:
    made = sine(torch, name)
    x = torch.ones(2)

    assert str(made._opoverload._schema) == f"{name}::sine(Tensor x, float s=1.) -> Tensor"
    assert torch.equal(getattr(torch.ops, name).sine(x), made(x))
    assert torch.equal(getattr(torch.ops, name).sine.default(x, s=2.0), made(x, 2.0))
    assert not made(x).requires_grad


def test_without_a_formula_backward_says_so(torch: Any, name: str) -> None:
    def double(x):  # type: ignore[no-untyped-def]
        return x.detach() * 2

    double.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    made = torch.library.custom_op(f"{name}::double", double, mutates_args=())

    result = made(torch.ones(1, requires_grad=True))

    with pytest.raises(RuntimeError) as caught:
        result.backward()
    assert str(caught.value).startswith(
        f"Trying to backward through {name}.double.default but no autograd formula was registered."
    )


def test_results_must_not_be_inputs(torch: Any, name: str) -> None:
    def same(x):  # type: ignore[no-untyped-def]
        return x

    same.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    made = torch.library.custom_op(f"{name}::same", same, mutates_args=())

    with pytest.raises(RuntimeError, match="must not also be an input to this custom operator"):
        made(torch.ones(1))


def test_writes_are_counted(torch: Any, name: str) -> None:
    def fill(x):  # type: ignore[no-untyped-def]
        x.detach().numpy()[...] = 7

    fill.__annotations__ = {"x": torch.Tensor, "return": None}
    made = torch.library.custom_op(f"{name}::fill", fill, mutates_args={"x"})
    x = torch.zeros(2)

    made(x)

    assert x.tolist() == [7.0, 7.0]
    assert x._version == 1
    assert str(made._opoverload._schema) == f"{name}::fill(Tensor(a0!) x) -> ()"


def test_lists_of_tensors_have_lists_of_gradients(torch: Any, name: str) -> None:
    def weighted(tensors, weights):  # type: ignore[no-untyped-def]
        return sum(t.detach() * w for t, w in zip(tensors, weights, strict=True))

    weighted.__annotations__ = {
        "tensors": list[torch.Tensor], "weights": Sequence[float], "return": torch.Tensor,
    }  # fmt: skip
    made = torch.library.custom_op(f"{name}::weighted", weighted, mutates_args=())
    needs: list[Any] = []

    def set_up(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.weights = inputs[1]

    def backward(ctx: Any, grad: Any) -> Any:
        needs.append(ctx.needs_input_grad[0])
        return [grad * w for w in ctx.weights], None

    made.register_autograd(backward, setup_context=set_up)
    x, y = torch.ones(1, requires_grad=True), torch.ones(1)

    made([x, y], [2.0, 3.0]).backward()

    assert x.grad.item() == 2.0
    assert needs == [[True, False]]


def test_a_kernel_for_a_device_can_be_switched_off(torch: Any, name: str) -> None:
    def zero(x):  # type: ignore[no-untyped-def]
        return torch.zeros(1)

    zero.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    made = torch.library.custom_op(f"{name}::zero", zero, mutates_args=())
    made.register_kernel("cpu")(lambda x: torch.ones(1))

    values = [made(torch.ones(1)).item()]
    with made.set_kernel_enabled("cpu", enabled=False):
        values.append(made(torch.ones(1)).item())
    values.append(made(torch.ones(1)).item())

    assert values == [1.0, 0.0, 1.0]


SCHEMAS = {
    "(Tensor x, Tensor? y, Tensor[] a, SymInt b, SymInt[] c, bool d) -> Tensor": lambda T: {
        "x": T, "y": T | None, "a": list[T], "b": int, "c": Sequence[int], "d": bool, "return": T,
    },
    "(Tensor x, Scalar e, SymInt? i, str s) -> (Tensor, Tensor)": lambda T: {
        "x": T, "e": int | float | bool, "i": int | None, "s": str, "return": tuple[T, T],
    },
}  # fmt: skip


@pytest.mark.parametrize("text", SCHEMAS)
def test_schemas_follow_from_type_hints(torch: Any, text: str) -> None:
    hints = SCHEMAS[text](torch.Tensor)
    names = ", ".join(name for name in hints if name != "return")
    scope: dict[str, Any] = {}
    exec(f"def function({names}): ...", scope)
    scope["function"].__annotations__ = hints

    assert torch.library.infer_schema(scope["function"], mutates_args=()) == text


def test_functions_without_hints_are_refused(torch: Any) -> None:
    def bare(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        torch.library.infer_schema(bare, mutates_args=())
