"""Each class of nodes is evaluated by a copy of one function. See Note [A copy for each class]."""

from __future__ import annotations

import gradscope.runtime as torch
from gradscope.runtime.core.autograd.engine.evaluate import evaluate_function, evaluators


def test_classes_that_have_run_have_copies_of_the_same_code() -> None:
    x = torch.ones(3, requires_grad=True)
    made = x.tanh().exp()
    exp, tanh = type(made.grad_fn), type(made.grad_fn.next_functions[0][0])
    made.sum().backward()
    copies = [evaluators[kind] for kind in (exp, tanh)]

    assert copies[0].__code__ is not copies[1].__code__
    assert {copy.__code__ for copy in copies} == {evaluate_function.__code__}
    assert all(copy.__globals__ is evaluate_function.__globals__ for copy in copies)
    assert x.grad is not None
