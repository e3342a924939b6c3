"""Programs that the fuzzer has found (tests/watched/fuzz): watched they do what they do alone."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import Node, Version
from tests.record.running import House

pytestmark = pytest.mark.torch


def trace(house: House, text: str, level: str = "engine") -> str:
    """What a script prints, under a recording without faults."""
    house.write(text)
    ran = house.gradscope(
        "trace", "--on", "torch", "--level", level, "-o", f"{level}.json", "script.py"
    )
    assert "fault" not in ran.err, ran.err
    return ran.out


def test_a_forked_child_may_record_after_its_parent_has(house: House) -> None:
    """The engine is made anew in a child: what stood in its place there was gone."""
    house.write("""
import os, torch, gradscope
def recorded(name):
    with gradscope.record(name):
        (torch.ones(3, requires_grad=True) * 2).sum().backward()
recorded("parent.json")
child = os.fork()
if child == 0:
    recorded("child.json")
    os._exit(0)
print(os.waitpid(child, 0)[1])
""")
    assert house.python("script.py").out == "0\n"

    nodes = [
        [(node.name, node.thread) for node in house.recorded(f"{name}.json").rows(Node)]
        for name in ("parent", "child")
    ]
    assert nodes[0] == nodes[1]
    assert {thread for _, thread in nodes[0]} == {0}


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_a_function_mode_sees_what_an_optimizer_reads_and_no_more(house: House, level: str) -> None:
    text = """
import torch
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    seen = 0
    def __torch_function__(self, func, types, args=(), kwargs=None):
        Mode.seen += 1
        return func(*args, **(kwargs or {}))
layer = torch.nn.Linear(4, 2)
layer(torch.ones(3, 4)).sum().backward()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
with Mode():
    optimizer.step()
print(Mode.seen)
"""
    house.write(text)

    assert trace(house, text, level) == house.python("script.py").out != "0\n"


def test_hooks_are_asked_for_nothing(house: House) -> None:
    text = """
import torch
class Hook:
    def __call__(self, *given): pass
    def __getattr__(self, name): print("asked for", name)
    @property
    def __class__(self):
        import sys
        print("asked what it is", sys._getframe(1).f_code.co_filename)
x = torch.ones(3, requires_grad=True)
out = x * 2
out.register_hook(Hook())
out.grad_fn.register_hook(Hook())
out.sum().backward()
layer = torch.nn.Linear(3, 1)
layer.register_forward_hook(Hook())
layer(x)
"""
    watched = trace(house, text)

    assert watched == house.python("script.py").out


def test_what_a_hook_raises_when_it_is_asked_for_something_passes_no_other_frame(
    house: House,
) -> None:
    """Python 3.13 and later show it where PyTorch asks for a name."""
    text = """
import torch, traceback
class Hook:
    def __call__(self, grad): pass
    def __getattr__(self, name): raise ValueError(name)
out = torch.ones(3, requires_grad=True) * 2
out.register_hook(Hook())
(hook,) = out._backward_hooks.values()
try:
    hook.anything
except ValueError as error:
    print(error, [frame.name for frame in traceback.extract_tb(error.__traceback__)])
"""

    assert (
        trace(house, text)
        == house.python("script.py").out
        == ("anything ['<module>', '__getattr__']\n")
    )


def test_an_exception_without_words_ends_a_program(house: House) -> None:
    text = """
import torch
torch.ones(3, requires_grad=True).sum().backward()
class Hostile(Exception):
    def __str__(self):
        raise ValueError("str")
    def __getattr__(self, name):
        raise ValueError(name)
raise Hostile
"""
    trace(house, text)

    assert house.recorded("engine.json").meta["exit_code"] == 1


def test_an_error_in_a_backward_in_a_backward_warns_of_nothing(house: House) -> None:
    """In anomaly mode, which a recording uses, PyTorch tells what induced what."""
    house.write("""
import torch
def hook(grad):
    x = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        y = x.sigmoid()
    with torch.no_grad():
        y.add_(1)
    with torch.enable_grad():
        y.sum().backward()
out = torch.ones(2, requires_grad=True) * 2
out.register_hook(hook)
try:
    out.sum().backward()
except RuntimeError as error:
    print(str(error)[:30])
""")
    alone = house.python("script.py")
    watched = house.gradscope("trace", "-q", "--on", "torch", "script.py")

    assert (watched.out, watched.err) == (alone.out, alone.err)
    assert alone.out == "one of the variables needed fo\n"


def test_two_calls_of_one_name_that_write_to_one_tensor_have_two_numbers(house: House) -> None:
    trace(
        house,
        """
import torch
from torch.func import functional_call, grad, vmap
layer = torch.nn.Linear(4, 2)
def loss(state, x):
    return functional_call(layer, state, (x,)).sum()
state = dict(layer.named_parameters())
for each in vmap(grad(loss), in_dims=(None, 0))(state, torch.ones(3, 4)).values():
    print(each)
""",
        "full",
    )

    assert house.violations("full.json") == []


def test_exceptions_are_shown_by_pythons_own_hook(house: House) -> None:
    """The library of the command line put one of its own there."""
    text = "import sys\nprint(sys.excepthook is sys.__excepthook__)\n"

    assert trace(house, text) == "True\n"


@pytest.mark.parametrize("level", ["engine", "values", "full"])
def test_a_sudden_end_leaves_no_write_without_its_call(house: House, level: str) -> None:
    text = """
import os, torch
x = torch.zeros(12).requires_grad_()
with torch.no_grad():
    x.mul_(2)
    x.add_(1)
x.sum().backward()
os._exit(3)
"""
    trace(house, text, level)

    assert house.violations(f"{level}.json") == []
    assert [each.new for each in house.recorded(f"{level}.json").rows(Version)] == [1, 2]


def test_what_a_hook_returns_may_be_anything(house: House) -> None:
    text = """
import torch
x = torch.ones(2, requires_grad=True)
x.register_hook(lambda grad: 3)
try:
    (x * 2).sum().backward()
except TypeError as error:
    print(error)
"""
    watched = trace(house, text, "values")

    assert watched == house.python("script.py").out != ""


def test_a_sudden_end_leaves_no_act_without_the_one_it_follows(house: House) -> None:
    """What was done to a module waits until it is called; here it never is."""
    text = """
import os, torch
layer = torch.nn.Linear(4, 2)
layer.load_state_dict(torch.nn.Linear(4, 2).state_dict(), assign=True)
layer(torch.ones(3, 4)).sum().backward()
os._exit(3)
"""
    trace(house, text)

    assert house.violations("engine.json") == []


def test_a_nested_tensor_has_no_strides_in_numbers(house: House) -> None:
    text = """
import torch
parts = [torch.randn(2, 4), torch.randn(3, 4)]
x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
y = x.tanh()
y.add_(1)
try:
    y.sum().backward()
except RuntimeError as error:
    print("was written over")
"""
    trace(house, text, "full")

    assert house.violations("full.json") == []


def test_a_sudden_end_beside_backwards_of_a_thread_names_no_row_that_is_not_there(
    house: House,
) -> None:
    """While notes are written for the end, the thread begins other backwards."""
    text = """
import os, threading, torch
def work():
    while True:
        torch.ones(2, requires_grad=True).sum().backward()
threading.Thread(target=work, daemon=True).start()
x = torch.ones(3, requires_grad=True) * 2
x.register_hook(lambda _: os._exit(9))
x.sum().backward()
"""
    trace(house, text, "full")

    assert house.violations("full.json") == []


RECURSION = """
import sys
import torch
from torch import nn

def deeper(n=1):
    try:
        return deeper(n + 1)
    except RecursionError:
        return n

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape)
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        calls.append(func)
        return func(*args)

calls = []
try:
    torch.cat([Wrapper(torch.ones(3))])
except RecursionError:
    print("dispatched", len(calls))
print(deeper(), sys.getrecursionlimit())
sys.setrecursionlimit(500)
print(deeper(), sys.getrecursionlimit())
for wrong in (0, "x", 1):
    try:
        sys.setrecursionlimit(wrong)
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_script_may_call_as_deep_as_alone(house: House) -> None:
    watched = trace(house, RECURSION)

    assert watched == house.python("script.py").out
    assert watched.splitlines()[1:3] == ["999 1000", "499 500"]


def test_a_nested_result_that_a_node_keeps_is_looked_at_at_the_end(house: House) -> None:
    text = """
import torch
parts = [torch.randn(2, 4), torch.randn(3, 4)]
kept = torch.nested.nested_tensor(parts, requires_grad=True).tanh()
"""
    trace(house, text)


def test_a_saved_module_with_hooks_can_be_loaded_without_gradscope(house: House) -> None:
    house.write("def hook(module, given, result):\n    return None\n", "hooks.py")
    text = """
import hooks, io, torch
layer = torch.nn.Linear(2, 2)
layer.register_forward_hook(hooks.hook)
layer.weight.register_hook(print)
file = io.BytesIO()
torch.save(layer, file)
print(b"gradscope" in file.getvalue())
loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
print([hook is hooks.hook for hook in loaded._forward_hooks.values()])
"""

    assert trace(house, text) == "False\n[True]\n"
