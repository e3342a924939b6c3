"""Rules about masks of the scores that a softmax normalizes."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.wrong_dims import READS_ARGUMENTS, are_scores
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

MASKS = frozenset({"masked_fill", "masked_fill_", "add", "where"})
SCALES = frozenset({"mul", "div"})
FAR = 8
"""How many calls before a softmax are checked."""

HIDES = -1e3
"""A mask fills with this value or a lower one."""


@rule("GS708", "mask-over-the-wrong-dim", reads=READS_ARGUMENTS)
def mask_over_the_wrong_dim(trace: Trace) -> Iterator[Found]:
    """A mask of attention scores is the same for all keys of a query: it hides none of them.

    With scores (batch, queries, keys) and a softmax over the keys, a mask of keys must vary along
    the last dim: `mask[:, None, :]`. A mask `mask[:, :, None]` fills all scores of a query with the
    same number: its weights become equal (with -inf: NaN), and all keys stay visible to others. On
    PyTorch, masks that are added are not recorded.

    Bad:
        x = torch.linspace(-1, 1, 24, requires_grad=True).reshape(2, 3, 4)
        hidden = torch.tensor([[False, False, True], [False, True, True]])
        scores = x.sin() @ x.cos().transpose(1, 2)
        weights = scores.masked_fill(hidden[:, :, None], -1e9).softmax(dim=-1)
        (weights @ x.exp()).sum().backward()

    Good:
        x = torch.linspace(-1, 1, 24, requires_grad=True).reshape(2, 3, 4)
        hidden = torch.tensor([[False, False, True], [False, True, True]])
        scores = x.sin() @ x.cos().transpose(1, 2)
        weights = scores.masked_fill(hidden[:, None, :], -1e9).softmax(dim=-1)
        (weights @ x.exp()).sum().backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors("_softmax", "softmax")):
        for at in few:
            over = calls.dims(at)
            if over is None or len(over) != 1 or not are_scores(calls, calls.inputs(at)[0]):
                continue
            found = _same_for_all(calls, at, over[0])
            if found is not None:
                yield _found(calls, at, over[0], found, times)
                break


def _same_for_all(calls: Calls, softmax: int, over: int) -> tuple[int, int] | None:
    """The call that applies a mask, and that mask, if none of the masks varies along a dim."""
    tensor, found = calls.inputs(softmax)[0], None
    shape = calls.shape(tensor)
    for _ in range(FAR):
        at = calls.maker(tensor)
        if at == NONE or calls.name(at) not in MASKS | SCALES:
            break
        same = [each for each in calls.inputs(at) if calls.shape(each) == shape]
        scores = [each for each in same if calls.needs_grad(each)]
        if len(scores) != 1:
            return None
        if calls.name(at) in MASKS:
            mask = _mask(calls, at, scores[0])
            if mask is None or _varies(calls, mask, shape, over):
                return None  # a mask that may hide keys, or an unknown one
            if _hides(calls, at):
                found = at, mask
        tensor = scores[0]
    return found


def _mask(calls: Calls, at: int, scores: int) -> int | None:
    """The mask that a call applies to scores, if it is known."""
    others = [each for each in calls.inputs(at) if each != scores]
    if calls.name(at) == "add":
        return others[0] if len(others) == 1 and not calls.needs_grad(others[0]) else None
    truths = [each for each in others if calls.dtype(each).endswith("bool")]
    return truths[0] if len(truths) == 1 else None


def _varies(calls: Calls, mask: int, shape: tuple[int, ...], over: int) -> bool:
    """Whether a mask may differ along a dim of the scores, or has only one value."""
    own = calls.shape(mask)
    dim = over - (len(shape) - len(own))
    if dim < 0 or len(own) > len(shape) or max(own, default=1) == 1 or shape[over] == 1:
        return True
    tensors = calls.tensors
    strides = tensors.ragged("strides")[tensors.index(mask)].tolist()
    is_expanded = len(strides) == len(own) and strides[dim] == 0
    return own[dim] != 1 and not is_expanded


def _hides(calls: Calls, at: int) -> bool:
    """Whether it fills with a low value, as far as that is known."""
    value = calls.given(at).get("value")
    return not isinstance(value, int | float) or value <= HIDES


def _found(calls: Calls, softmax: int, over: int, masked: tuple[int, int], times: int) -> Found:
    (at, mask), shape = masked, calls.shape(calls.inputs(softmax)[0])
    site, again = calls.site(at), f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"Wrong dim: the mask{calls.where(at)} at {site} is the same for all {shape[over]} "
        f"values of each softmax(dim={over}) at {calls.site(softmax)}: it hides none of them from "
        f"the others{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(softmax))),
        why=f"scores have shape {shape}, the mask has shape {calls.shape(mask)} and does not vary "
        f"along dim {over}; a softmax over that dim gives values that are lowered together the "
        "same weights as values that are not, or equal ones",
        fix=f"let the mask vary along dim {over}: for a mask (batch, keys), "
        f"`mask{_index(len(shape))}`",
        certainty=Certainty.INFERRED,
    )


def _index(dims: int) -> str:
    """How a mask (batch, keys) is indexed to fit scores: `[:, None, :]` for three dims."""
    return f"[:, {'None, ' * (dims - 2)}:]" if dims > 2 else ""
