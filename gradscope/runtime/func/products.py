"""grad, vjp and jvp: the gradient, and the Jacobian times a vector from the left or right."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gradscope.runtime.autograd.grad_mode import enable_grad
from gradscope.runtime.factories import ones_like, zeros_like
from gradscope.runtime.func import level, trees
from gradscope.runtime.tensor import Tensor

JVP = "jvp(f, primals, tangents)"


def picked(argnums: Any, args: tuple[Any, ...]) -> Any:
    """The arguments a derivative is taken by."""
    if isinstance(argnums, bool) or not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -len(args) <= number < len(args):
            raise RuntimeError(f"Got argnum={number}, but only {len(args)} positional inputs")
    if len({number % len(args) for number in numbers}) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    if isinstance(argnums, tuple):
        return tuple(args[number] for number in argnums)
    return args[argnums]


def replaced(argnums: Any, args: tuple[Any, ...], values: Any) -> tuple[Any, ...]:
    """All arguments, with others in the place of those."""
    made = list(args)
    if isinstance(argnums, tuple):
        for number, value in zip(argnums, values, strict=True):
            made[number] = value
    else:
        made[argnums] = values
    return tuple(made)


def with_aux(made: Any, name: str, *, has_aux: bool) -> tuple[Any, Any]:
    """What a function gives, and what it gives beside."""
    if not has_aux:
        return made, None
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return made


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func` and its value."""
    name = "grad_and_value(f)(*args)"

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given = level.fresh(picked(argnums, args), name)
            made = func(*replaced(argnums, args, given), **kwargs)
            output, aux = with_aux(made, name, has_aux=has_aux)
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a Tensor, got {type(output)}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            inputs = trees.leaves(given)
            found = level.gradients([output], inputs, [ones_like(output)])
        slope = level.kept(trees.refilled(given, iter(found)), inputs)
        output, aux = level.kept(output, inputs), level.kept(aux, inputs)
        return slope, ((output, aux) if has_aux else output)

    return wrapper


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, which returns one number."""
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        slope, value = both(*args, **kwargs)
        return (slope, value[1]) if has_aux else slope

    return wrapper


def _checked(output: Any, name: str, primals: str) -> list[Any]:
    """The tensors a function returned; it may return nothing else."""
    found = trees.leaves(output)
    if not found:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = {output})"
        )
    for one in found:
        if not isinstance(one, Tensor):
            raise RuntimeError(
                f"{name}: expected f({primals}) to return only tensors, got unsupported type "
                f"{type(one)}"
            )
    return found


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)`, and a function that multiplies a vector with its Jacobian there."""
    with enable_grad():
        given = level.fresh(primals, "vjp")
        made, aux = with_aux(func(*given), "vjp(f, *primals)", has_aux=has_aux)
    outputs = _checked(made, "vjp(f, *primals)", "*primals")
    for one in outputs:
        if not (one.is_floating_point() or one.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {one.dtype}"
            )
    inputs = trees.leaves(given)

    def multiplied(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        if not trees.same_shape(made, cotangents):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function."
            )
        with enable_grad():
            found = level.gradients(outputs, inputs, trees.leaves(cotangents))
        return level.kept(trees.refilled(given, iter(found)), inputs)

    value = level.kept(made, inputs)
    return (value, multiplied, level.kept(aux, inputs)) if has_aux else (value, multiplied)


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`func(*primals)`, and its Jacobian there times `tangents`.

    The product from the left is linear in its vector: two backwards give the one from the right.
    """
    _check_jvp(primals, tangents)
    with enable_grad():
        given = level.fresh(primals, JVP)
        made, aux = with_aux(func(*given), JVP, has_aux=has_aux)
        outputs = _checked(made, JVP, "*args")
        inputs = trees.leaves(given)
        vectors = [zeros_like(one).requires_grad_(True) for one in outputs]
        products = level.gradients(outputs, inputs, vectors)
        found = level.gradients(products, vectors, trees.leaves(tangents))
    if strict and not all(out.requires_grad for out in outputs):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    own = [*inputs, *vectors]
    result = level.kept(trees.refilled(made, iter(found)), own)
    value = level.kept(made, own)
    return (value, result, level.kept(aux, own)) if has_aux else (value, result)


def _check_jvp(primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if not trees.same_shape(primals, tangents):
        raise RuntimeError(
            f"{JVP}: Expected primals and tangents to have the same python structure. For example, "
            "if primals is a tuple of 3 tensors, tangents also must be."
        )
    for name, value in (("primals", primals), ("tangents", tangents)):
        found = trees.leaves(value)
        if not found:
            raise RuntimeError(f"{JVP}: Expected {name} to contain at least one Tensor.")
        for one in found:
            if not isinstance(one, Tensor):
                raise RuntimeError(
                    f"{JVP}: Expected {name} to only contain Tensors, got {type(one)}"
                )
