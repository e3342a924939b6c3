"""`torch.autograd.functional`: Jacobians and Hessians of functions, whole or times a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.both import leaf, raises

PRODUCTS = ["vjp", "jvp", "vhp", "hvp"]
ALL = [*PRODUCTS, "jacobian", "hessian"]


def numbers(torch: Any, *values: Any) -> Any:
    return torch.tensor(list(values), dtype=torch.float64)


def lists(result: Any) -> Any:
    """Tensors as lists, in tuples as they came."""
    return tuple(map(lists, result)) if isinstance(result, tuple) else result.tolist()


def cubes(x: Any) -> Any:
    return (x**3).sum()


def test_vjp_multiplies_from_the_left(torch: Any) -> None:
    x, y = numbers(torch, 1.0, 2.0), numbers(torch, 3.0, 4.0)

    found = torch.autograd.functional.vjp(lambda a, b: a * b, (x, y), numbers(torch, 1.0, 10.0))

    assert lists(found) == ([3.0, 8.0], ([3.0, 40.0], [1.0, 20.0]))


def test_jvp_multiplies_from_the_right(torch: Any) -> None:
    x, y = numbers(torch, 1.0, 2.0), numbers(torch, 3.0, 4.0)
    v = (numbers(torch, 1.0, 0.0), numbers(torch, 1.0, 1.0))

    found = torch.autograd.functional.jvp(lambda a, b: (a * b, a + b), (x, y), v)

    assert lists(found) == (([3.0, 8.0], [4.0, 6.0]), ([4.0, 2.0], [2.0, 1.0]))


@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_products_with_the_hessian(torch: Any, name: str) -> None:
    x = numbers(torch, 1.0, 2.0)
    product = getattr(torch.autograd.functional, name)

    value, found = product(lambda a: a[0] ** 2 * a[1], x, numbers(torch, 1.0, 10.0))

    assert (value.tolist(), found.tolist()) == (2.0, [4.0 + 20.0, 2.0])


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_jacobian_has_a_row_per_output_and_a_column_per_input(
    torch: Any, *, vectorize: bool
) -> None:
    x, y = numbers(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64)

    found = torch.autograd.functional.jacobian(
        lambda a, b: (a * b, a.sum() * 2), (x, y), vectorize=vectorize
    )

    assert lists(found) == (
        ([[3.0, 0.0], [0.0, 3.0]], [1.0, 2.0]),
        ([2.0, 2.0], 0.0),
    )


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_jacobian_has_the_shape_of_output_and_input(torch: Any, *, vectorize: bool) -> None:
    x = torch.ones(2, 3, dtype=torch.float64)

    found = torch.autograd.functional.jacobian(
        lambda a: a.sum(1, keepdim=True).expand(2, 4), x, vectorize=vectorize
    )

    assert tuple(found.shape) == (2, 4, 2, 3)
    assert found.sum().item() == 24.0


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_hessian_is_a_jacobians_jacobian(torch: Any, *, vectorize: bool) -> None:
    x, y = numbers(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64)

    found = torch.autograd.functional.hessian(
        lambda a, b: (a * a).sum() * b, (x, y), vectorize=vectorize
    )

    assert lists(found) == (([[6.0, 0.0], [0.0, 6.0]], [2.0, 4.0]), ([2.0, 4.0], 0.0))


@pytest.mark.parametrize("name", ALL)
def test_results_have_no_history_unless_asked_for(torch: Any, name: str) -> None:
    x = leaf(torch, 1.0)
    function = getattr(torch.autograd.functional, name)
    v = (numbers(torch, 1.0),) if name in PRODUCTS[1:] else ()

    plain = function(cubes, x, *v)
    kept = function(cubes, x, *v, create_graph=True)

    def histories(result: Any) -> list[bool]:
        parts = result if isinstance(result, tuple) else (result,)
        return [part.requires_grad for part in parts]

    assert (set(histories(plain)), set(histories(kept))) == ({False}, {True})
    again = torch.autograd.grad(kept[-1].sum() if name in PRODUCTS else kept.sum(), x)
    assert again[0].tolist() == [6.0]
    assert x.grad is None


def test_a_function_is_differentiated_by_its_arguments_only(torch: Any) -> None:
    """A tensor it captured is a constant, even if it is the very tensor that was given."""
    x = leaf(torch, 2.0, 3.0)

    _, found = torch.autograd.functional.vjp(lambda a: (a * x).sum(), x)

    assert found.tolist() == [2.0, 3.0]


def test_functional_works_under_no_grad(torch: Any) -> None:
    x = numbers(torch, 1.0, 2.0)

    with torch.no_grad():
        found = torch.autograd.functional.hessian(cubes, x)
        assert not torch.is_grad_enabled()

    assert found.tolist() == [[6.0, 0.0], [0.0, 12.0]]


def constant(x: Any) -> Any:
    return x.new_ones(())


def linear(x: Any) -> Any:
    return (2 * x).sum()


OUTPUT_0 = (
    "Output 0 of the user-provided function does not require gradients. The outputs must be "
    "computed in a differentiable manner from the input when running in strict mode."
)


@pytest.mark.parametrize("name", ALL)
def test_zeros_stand_for_what_does_not_depend_unless_strict(torch: Any, name: str) -> None:
    x = numbers(torch, 1.0, 2.0)
    function = getattr(torch.autograd.functional, name)
    v = (x,) if name in PRODUCTS[1:] else ()

    found = function(constant, x, *v)

    assert (found[1] if name in PRODUCTS else found).abs().sum().item() == 0.0
    assert raises(RuntimeError, lambda: function(constant, x, *v, strict=True)) == OUTPUT_0


INDEPENDENT_INPUT = {
    "vjp": "The output of the user-provided function is independent of input 1. This is not "
    "allowed in strict mode.",
    "jvp": "The output of the user-provided function is independent of input 1. This is not "
    "allowed in strict mode.",
    "vhp": "The output of the user-provided function is independent of input 1. This is not "
    "allowed in strict mode.",
    "hvp": "The output of the user-provided function is independent of input 1. This is not "
    "allowed in strict mode.",
    "jacobian": "Output 0 of the user-provided function is independent of input 1. This is not "
    "allowed in strict mode.",
    "hessian": "While computing the hessian, found that the jacobian of the user-provided function "
    "with respect to input 1 is independent of the input. This is not allowed in strict mode. You "
    "should ensure that your function is twice differentiable and that the jacobian depends on the "
    "inputs (this would be violated by a linear function for example).",
}


@pytest.mark.parametrize("name", ALL)
def test_strict_names_the_input_that_does_not_matter(torch: Any, name: str) -> None:
    x, y = numbers(torch, 1.0, 2.0), numbers(torch, 3.0)
    function = getattr(torch.autograd.functional, name)
    v = ((x, y),) if name in PRODUCTS[1:] else ()

    said = raises(
        RuntimeError, lambda: function(lambda a, _: (a**3).sum(), (x, y), *v, strict=True)
    )

    assert said == INDEPENDENT_INPUT[name]


NO_SECOND = {
    "vjp": "The jacobian of the user-provided function is independent of input 0. This is not "
    "allowed in strict mode when create_graph=True.",
    "jvp": "The jacobian of the user-provided function is independent of input 0. This is not "
    "allowed in strict mode when create_graph=True.",
    "jacobian": "The jacobian of the user-provided function is independent of input 0. This is not "
    "allowed in strict mode when create_graph=True.",
}


@pytest.mark.parametrize("name", sorted(NO_SECOND))
def test_strict_with_create_graph_wants_a_second_derivative(torch: Any, name: str) -> None:
    x = leaf(torch, 1.0, 2.0)
    function = getattr(torch.autograd.functional, name)
    v = (numbers(torch, 1.0, 1.0),) if name == "jvp" else ()

    assert function(linear, x, *v, strict=True) is not None
    assert (
        raises(RuntimeError, lambda: function(linear, x, *v, strict=True, create_graph=True))
        == NO_SECOND[name]
    )


@pytest.mark.parametrize("name", ["vhp", "hvp"])
def test_strict_hessian_products_want_a_third_derivative_with_create_graph(
    torch: Any, name: str
) -> None:
    x = leaf(torch, 1.0, 2.0)
    function = getattr(torch.autograd.functional, name)
    v = numbers(torch, 1.0, 1.0)

    said = raises(
        RuntimeError,
        lambda: function(lambda a: (a * a).sum(), x, v, strict=True, create_graph=True),
    )

    assert said == (
        "The hessian of the user-provided function is independent of input 0. This is not allowed "
        "in strict mode when create_graph=True."
    )


@pytest.mark.parametrize("name", ALL)
def test_inputs_and_outputs_must_be_tensors(torch: Any, name: str) -> None:
    x = numbers(torch, 1.0)
    function = getattr(torch.autograd.functional, name)
    v = (x,) if name in PRODUCTS[1:] else ()

    assert raises(TypeError, lambda: function(cubes, 3, *v)) == (
        f"The inputs given to {name} must be either a Tensor or a tuple of Tensors but the given "
        "inputs has type <class 'int'>."
    )
    assert raises(TypeError, lambda: function(cubes, (x, [x]), *v)) == (
        f"The inputs given to {name} must be either a Tensor or a tuple of Tensors but the value "
        "at index 1 has type <class 'list'>."
    )
    assert raises(TypeError, lambda: function(lambda _: None, x, *v)) == (
        f"The outputs of the user-provided function given to {name} must be either a Tensor or a "
        "tuple of Tensors but the given outputs of the user-provided function has type "
        "<class 'NoneType'>."
    )


@pytest.mark.parametrize("name", ["vhp", "hvp", "hessian"])
def test_a_function_with_a_hessian_returns_one_number(torch: Any, name: str) -> None:
    x = numbers(torch, 1.0, 2.0)
    function = getattr(torch.autograd.functional, name)
    v = (x,) if name in PRODUCTS else ()

    assert raises(RuntimeError, lambda: function(lambda a: (a.sum(),), x, *v)) == (
        f"The function given to {name} should return a single Tensor"
    )
    assert raises(RuntimeError, lambda: function(lambda a: a * a, x, *v)) == (
        f"The Tensor returned by the function given to {name} should contain a single element"
    )


VECTORS: list[tuple[Callable[[Any, Any], Any], type[BaseException], str]] = [
    (
        lambda x, _: None,
        RuntimeError,
        (
            "The vector v can only be None if the input to the "
            "user-provided function is a single Tensor with a single element."
        ),
    ),
    (lambda x, y: (x, y), RuntimeError, "The given v should contain a single Tensor."),
    (
        lambda _, y: y,
        RuntimeError,
        "v has invalid size: should be torch.Size([2]) but got torch.Size([3]).",
    ),
    (
        lambda x, y: 3,
        TypeError,
        (
            "The v given to {name} must be either a Tensor or a tuple of "
            "Tensors but the given v has type <class 'int'>."
        ),
    ),
]


@pytest.mark.parametrize("name", PRODUCTS[1:])
@pytest.mark.parametrize("case", range(len(VECTORS)))
def test_the_vector_must_fit(torch: Any, name: str, case: int) -> None:
    x, y = numbers(torch, 1.0, 2.0), numbers(torch, 1.0, 2.0, 3.0)
    vector, kind, text = VECTORS[case]
    function = getattr(torch.autograd.functional, name)

    assert raises(kind, lambda: function(cubes, x, vector(x, y))) == text.format(name=name)


def test_each_vector_of_several_must_fit(torch: Any) -> None:
    x, y = numbers(torch, 1.0, 2.0), numbers(torch, 1.0, 2.0, 3.0)
    vjp, vhp = torch.autograd.functional.vjp, torch.autograd.functional.vhp

    def two(a: Any, b: Any) -> Any:
        return a * a, b * b

    assert raises(RuntimeError, lambda: vjp(two, (x, y))) == (
        "The vector v can only be None if the user-provided function returns a single Tensor with "
        "a single element."
    )
    assert raises(RuntimeError, lambda: vjp(two, (x, y), x)) == (
        "v is a tuple of invalid length: should be 2 but got 1."
    )
    assert raises(RuntimeError, lambda: vhp(lambda a, b: a.sum() * b.sum(), (x, y), (x, x))) == (
        "Entry 1 in v has invalid size: should be torch.Size([3]) but got torch.Size([2])."
    )


def test_strict_and_vectorize_exclude_each_other(torch: Any) -> None:
    x = numbers(torch, 1.0)
    for function in (torch.autograd.functional.jacobian, torch.autograd.functional.hessian):
        assert raises(
            RuntimeError, lambda f=function: f(cubes, x, strict=True, vectorize=True)
        ) == (
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )


STRATEGIES: list[tuple[dict[str, Any], type[BaseException], str]] = [
    (
        {"strategy": "sideways"},
        AssertionError,
        (
            'Expected strategy to be either "forward-mode" or '
            '"reverse-mode". Hint: If your function has more outputs than inputs, "forward-mode" '
            'tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        ),
    ),
    (
        {"strategy": "forward-mode", "create_graph": True},
        NotImplementedError,
        (
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` '
            "are not supported together (yet). Please either set `create_graph=False` or "
            '`strategy="reverse-mode"`.'
        ),
    ),
    (
        {"strategy": "forward-mode", "strict": True},
        RuntimeError,
        (
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` '
            "are not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        ),
    ),
    (
        {"strategy": "forward-mode"},
        NotImplementedError,
        (
            "Computing Jacobian using forward-AD or "
            "forward-over-reverse Hessian isonly implemented for `vectorize=True`."
        ),
    ),
]


@pytest.mark.parametrize("case", range(len(STRATEGIES)))
def test_strategies_and_what_they_exclude(torch: Any, case: int) -> None:
    how, kind, text = STRATEGIES[case]

    assert (
        raises(kind, lambda: torch.autograd.functional.jacobian(cubes, numbers(torch, 1.0), **how))
        == text
    )


def test_the_hessian_knows_its_outer_strategies(torch: Any) -> None:
    hessian = torch.autograd.functional.hessian

    assert (
        raises(
            AssertionError,
            lambda: hessian(cubes, numbers(torch, 1.0), outer_jacobian_strategy="sideways"),
        )
        == 'Expected strategy to be either "forward-mode" or "reverse-mode".'
    )


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_jacobian_with_a_graph_can_be_differentiated(torch: Any, *, vectorize: bool) -> None:
    x = leaf(torch, 1.0, 2.0)

    found = torch.autograd.functional.jacobian(
        lambda a: a**3, x, create_graph=True, vectorize=vectorize
    )
    found.sum().backward()

    assert x.grad.tolist() == [6.0, 12.0]


def test_an_error_in_the_function_leaves_grad_mode_as_it_was(torch: Any) -> None:
    def burst(_: Any) -> Any:
        raise KeyError("burst")

    with torch.no_grad():
        with pytest.raises(KeyError):
            torch.autograd.functional.hessian(burst, numbers(torch, 1.0))
        assert not torch.is_grad_enabled()


# PyTorch's forward mode loads its decompositions with a function that it has deprecated.
FORWARD = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


@FORWARD
def test_a_jacobian_in_forward_mode_is_the_same(torch: Any) -> None:
    x, y = numbers(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian

    def two(a: Any, b: Any) -> Any:
        return (a * b).sin(), a.sum() * 2, torch.ones(2, dtype=torch.float64)

    forward = jacobian(two, (x, y), vectorize=True, strategy="forward-mode")
    reverse = jacobian(two, (x, y))

    assert [[m.tolist() for m in row] for row in forward] == [
        [m.tolist() for m in row] for row in reverse
    ]
    single = jacobian(lambda a: a**3, x, vectorize=True, strategy="forward-mode")
    assert single.tolist() == [[3.0, 0.0], [0.0, 12.0]]


@FORWARD
def test_a_hessian_forward_over_reverse_is_the_same(torch: Any) -> None:
    x, y = numbers(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64)
    hessian = torch.autograd.functional.hessian

    def number(a: Any, b: Any) -> Any:
        return (a**3).sum() * b

    found = hessian(number, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode")

    assert [[m.tolist() for m in row] for row in found] == [
        [m.tolist() for m in row] for row in hessian(number, (x, y))
    ]


@FORWARD
def test_an_error_in_forward_mode_closes_the_dual_level(torch: Any) -> None:
    def burst(_: Any) -> Any:
        raise KeyError("burst")

    x = numbers(torch, 1.0)
    jacobian = torch.autograd.functional.jacobian
    with pytest.raises(KeyError):
        jacobian(burst, x, vectorize=True, strategy="forward-mode")

    found = jacobian(lambda a: a * 2, x, vectorize=True, strategy="forward-mode")
    assert found.tolist() == [[2.0]]


@FORWARD
def test_forward_mode_wants_tensors_from_the_function(torch: Any) -> None:
    said = raises(
        TypeError,
        lambda: torch.autograd.functional.jacobian(
            lambda _: 3, numbers(torch, 1.0), vectorize=True, strategy="forward-mode"
        ),
    )
    assert said == (
        "The outputs given to None must be either a Tensor or a tuple of Tensors but the given "
        "outputs has type <class 'int'>."
    )
