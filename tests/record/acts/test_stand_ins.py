"""Functions of ours go again, together or one by one, and all is as it was."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    SimpleNamespace,
)
from typing import Any

import pytest

import gradscope
from gradscope.record.acts.notes import NOBODY
from gradscope.record.acts.stand_ins import StandIns
from gradscope.record.script.posted import NAME as POSTS
from gradscope.watch.in_place.standing_in import Replaced


class Home:
    def first(self) -> str:
        return "first"


class Heir(Home):
    def second(self) -> str:
        return "second"


def test_one_goes_before_the_others_and_what_was_inherited_is_inherited_again() -> None:
    acts: Any = SimpleNamespace(look=NOBODY)
    before = dict(vars(Heir))
    stand_ins = StandIns(acts, bool)
    for name in ("first", "second"):
        stand_ins.replace(Heir, name, lambda _: "ours")

    stand_ins.leave(Heir, "first")
    left = Heir().first(), Heir().second()
    stand_ins.take_back()

    assert left == ("first", "ours")
    assert dict(vars(Heir)) == before


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "class": lambda thing: thing.__class__,
    "module": lambda thing: getattr(thing, "__module__", None),
    "name": lambda thing: getattr(thing, "__name__", None),
    "qualname": lambda thing: getattr(thing, "__qualname__", None),
    "doc": lambda thing: thing.__doc__,
    "objclass": lambda thing: getattr(thing, "__objclass__", None),
    "text signature": lambda thing: getattr(thing, "__text_signature__", None),
    "annotations": lambda thing: getattr(thing, "__annotations__", None),
    "signature": lambda thing: str(inspect.signature(thing)),
    "arguments": lambda thing: str(inspect.getfullargspec(thing)),
    "innermost": lambda thing: inspect.unwrap(getattr(thing, "__wrapped__", thing)).__name__,
    "copied": lambda thing: copy.copy(thing).__class__,
    "copied deeply": lambda thing: copy.deepcopy(thing).__class__,
    "pickled": pickle.dumps,
    "predicates": lambda thing: [
        name for name, is_one in vars(inspect).items() if name.startswith("is") and is_one(thing)
    ],
    "kinds": lambda thing: [
        kind
        for kind in (property, FunctionType, BuiltinFunctionType, MethodType, MethodDescriptorType)
        if isinstance(thing, kind)
    ],
    "bound": lambda thing: hasattr(thing, "__get__"),
}
"""What programs ask a function or an attribute."""


KNOWN = {
    ("pickled", "_register_hook"), ("predicates", "seed"),
    ("signature", POSTS), ("arguments", POSTS),
}  # fmt: skip
"""A method that is found by another name than it says; a function of Cython's, which binds; one of
C's, of which Python knows no signature."""


def answers(thing: Any) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for question, ask in QUESTIONS.items():
        try:
            said[question] = ask(thing)
        except Exception as error:  # the same one is an answer, too
            said[question] = type(error)
    return said


def put_during(program: Callable[[], object]) -> list[tuple[Any, str, Any]]:
    """Whatever a recording replaces: where it is, under which name, and what stands there then."""
    put, found = Replaced.put_as_it_is, []

    def noted(self: Replaced, home: Any, name: str, ours: Any) -> None:
        put(self, home, name, ours)
        found.append((home, name))

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Replaced, "put_as_it_is", noted)
        with gradscope.record(level="values", on="torch"):
            program()
            return [(home, name, getattr(home, name)) for home, name in found]


@pytest.mark.torch
def test_every_stand_in_answers_as_what_it_stands_for() -> None:
    import torch

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: Any) -> Any:
            return given * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    def program() -> None:
        Doubled.apply(torch.ones(2, requires_grad=True)).sum().backward()

    there = put_during(program)
    homes = {(id(home), name) for home, name, _ in there}
    originals = {(id(home), name): getattr(home, name) for home, name, _ in there}
    during: dict[tuple[int, str], dict[str, Any]] = {}

    def asks() -> None:
        during.update({(id(h), n): answers(getattr(h, n)) for h, n, _ in there if h is not Doubled})

    put_during(asks)
    wrong = {
        f"{getattr(home, '__name__', home)}.{name}, {question}": (said, told)
        for home, name, _ in there
        if (id(home), name) in during
        for question, said in answers(originals[id(home), name]).items()
        if (told := during[id(home), name][question]) != said
        and (question, name) not in KNOWN
        and (question != "arguments" or not hasattr(originals[id(home), name], "__wrapped__"))
    }

    assert len(homes) > 60
    assert not wrong, wrong


@pytest.mark.torch
def test_a_class_keeps_descriptors_of_the_same_kind() -> None:
    import torch

    with gradscope.record(level="values", on="torch"):
        held = vars(torch.Tensor)
        grad, item = held["grad"], held["item"]
        kinds = isinstance(grad, property), grad.__objclass__, inspect.ismethoddescriptor(item)
        asked = torch.Tensor.grad, torch.Tensor.item
        assert item == torch.Tensor.item

    assert kinds == (False, torch._C.TensorBase, True)
    assert asked == (torch.Tensor.grad, torch.Tensor.item)


@pytest.mark.torch
def test_a_builtin_that_is_kept_in_a_class_is_not_bound_to_its_objects() -> None:
    import torch

    with gradscope.record(on="torch"):
        holder = type("Holder", (), {"choose": torch.argmax})
        found = holder().choose(torch.tensor([1.0, 3.0]))

    assert int(found) == 1


@pytest.mark.torch
def test_who_overrides_functions_is_given_the_ones_that_programs_name() -> None:
    import torch

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            met.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    met: list[Any] = []
    with gradscope.record(on="torch"):
        given = torch.ones(2).as_subclass(Named)
        torch.argmax(given)
        given.detach()
        _ = given.grad
        named = [torch.argmax, torch.Tensor.detach, torch.Tensor.grad.__get__]

    assert [func in met for func in named] == [True, True, True]
    assert met[0] is named[0]
