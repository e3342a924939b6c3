"""Every hook: where it was registered, on what, how often it was called, what it changed."""

from __future__ import annotations

import re

from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.registered_hooks import hooks
from tests.scene.answers.a_training import BOTH, a_training

PROGRAM = """\
net = torch.nn.Linear(4, 1)
def note(module, given, out):
    pass
def back(module, grads, sent):
    return tuple(None if each is None else each * 2 for each in grads)
net.register_forward_hook(note)
net.register_full_backward_hook(back)
net.weight.register_post_accumulate_grad_hook(lambda leaf: None)
net.bias.register_hook(lambda grad: grad.clamp(-1, 1))
spare = torch.ones(2, requires_grad=True)
spare.register_hook(print)
def watched(grad):
    pass
for _ in range(3):
    x = torch.ones(5, 4, requires_grad=True)
    out = net(x)
    out.register_hook(watched)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        loss = out.pow(2).mean()
    loss.backward()
"""


def told(answer: Answer) -> dict[str, list[str]]:
    """Lines by the title of their section, without folders and numbers of what was seen."""
    return {
        section.title: [
            re.sub(r"[^\s(]*/(?=train\.py)|(?<=norm afterwards) .*", "", line)
            for line in section.lines
        ]
        for section in answer.sections
    }


@BOTH
def test_hooks_are_told_by_what_they_did_with_the_line_that_registered_them(engine: str) -> None:
    answer = hooks(a_training(engine, "values", PROGRAM))
    sections = told(answer)

    assert answer.title == "8 hooks; 2 returned a replacement; 1 was never called."
    back, clamped = sections["returned a replacement"]
    assert back == (
        "back (written at train.py:4): register_full_backward_hook on Linear, registered at "
        "train.py:7: called 3 times, replaced the gradient each time"
    )
    assert clamped == (
        "<lambda>: register_hook on bias, registered at train.py:9: called 3 times, replaced the "
        "gradient each time; norm afterwards"
    )
    (uncalled,) = sections["registered, but not called during the recording"]
    assert re.fullmatch(
        r"print: register_hook on (spare|a leaf \(2\)), registered at train\.py:11", uncalled
    )
    rest = sections["called, changed nothing"]
    assert (
        "watched (written at train.py:12): register_hook on a tensor with grad_fn "
        "BackwardHookFunctionBackward from train.py:16, registered at train.py:17 (3 times): "
        "called 3 times"
    ) in rest
    assert len(rest) == 5


@BOTH
def test_where_hooks_were_registered_is_not_known_at_level_graph(engine: str) -> None:
    answer = hooks(a_training(engine, "graph", PROGRAM))

    assert any(note.endswith("use --level engine") for note in answer.notes)
    assert answer.title.startswith("No hook" if engine == "gradscope" else "7 hooks; 2 returned")


OTHERS = """\
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
def before(optimizer, given, more):
    pass
def after(optimizer, given, more):
    pass
def pack(tensor):
    return tensor
def unpack(packed):
    return packed
def of_node(sent, taken):
    pass
def ahead(taken):
    pass
optimizer.register_step_pre_hook(before)
optimizer.register_step_post_hook(after)
for _ in range(2):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = (w * w).sum()
    loss.grad_fn.register_hook(of_node)
    loss.grad_fn.register_prehook(ahead)
    loss.backward()
    optimizer.step()
"""


@BOTH
def test_hooks_of_optimizers_nodes_and_saved_tensors_have_the_line_that_registered_them(
    engine: str,
) -> None:
    answer = hooks(a_training(engine, "values", OTHERS))

    (rest,) = told(answer).values()
    lines = {line.partition(" ")[0]: line.partition("registered at ")[2] for line in rest}
    assert lines == {
        "before": "train.py:15: called 2 times",
        "after": "train.py:16: called 2 times",
        "pack": "train.py:18 (2 times): called 4 times",
        "unpack": "train.py:18 (2 times): called 4 times",
        "of_node": "train.py:20 (2 times): called 2 times",
        "ahead": "train.py:21 (2 times): called 2 times",
    }
    assert "not recorded" not in dict(answer.facts)
