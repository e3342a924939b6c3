"""Rules about values that end up in other dims than intended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.reorders import reorders
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

VIEWS = ("view", "reshape", "_reshape_alias", "_unsafe_view")
MOST_COLOURS = 4
ATTENDS = "bmm", "matmul", "_scaled_dot_product", "scaled_dot_product"
"""Prefixes of names of calls by which tokens attend to tokens."""
Shape = tuple[int, ...]


@rule("GS706", "mixed-up-elements", reads=(*READS, "act"))
def mixed_up_elements(trace: Trace) -> Iterator[Found]:
    """View or reshape was used instead of transpose or permute.

    Both give the desired shape, but view keeps values in their order in memory: from (batch, words,
    heads · width) it makes heads that consist of parts of several words.

    Bad:
        x = torch.arange(80.0, requires_grad=True).reshape(2, 5, 8) * 1
        x.view(2, 2, 5, 4).sum().backward()

    Good:
        x = torch.arange(80.0, requires_grad=True).reshape(2, 5, 8) * 1
        x.view(2, 5, 2, 4).transpose(1, 2).sum().backward()
    """
    calls = trace.once(Calls)
    found = [*_views(calls)]
    yield from found
    told = {each.site.place for each in found}
    found += (each for each in _as_written(trace) if each.site.place not in told)
    yield from found[len(told) :]
    if not found:
        yield from _images_in_memory(calls)


def _views(calls: Calls) -> Iterator[Found]:
    for few, times in calls.few_of_each_line(calls.called(*VIEWS)):
        for at in few:
            inputs, outputs = calls.inputs(at), calls.outputs(at)
            if not inputs or not outputs:
                continue
            before, after = calls.shape(inputs[0]), calls.shape(outputs[0])
            moved = _moved(before, after) or _channels_as_columns(before, after)
            images = moved == 0 and _is_image(calls, at, before, after)
            if moved or images or _heads(calls, at, before, after):
                yield _found(calls, at, before, after, times)
                break


def _as_written(trace: Trace) -> Iterator[Found]:
    """Views that name the dims of a shape in another order than the tensor has them."""
    for each in trace.once(SourceFiles).each(reorders):
        site, name, dims = each.site, each.found.name, ", ".join(each.found.dims)
        yield Found(
            message=f"view or reshape at {site} takes the dims of `{name}`, which are ({dims}), in "
            "another order, which mixes up elements: use transpose or permute instead",
            site=site,
            evidence=(each.evidence,),
            why=f"`{code_of(site.text)}` names them in that order, and view and reshape keep "
            "values in their order in memory: a dim that changes its position is filled with parts "
            "of others",
            fix=f"write `{name}.permute(…)` first, or `{name}.flatten(2).transpose(1, 2)` for "
            "channels that come last",
            certainty=Certainty.INFERRED,
        )


def _images_in_memory(calls: Calls) -> Iterator[Found]:
    """Convolutions of a view of (N, H, W, C), where the call that made the view was not seen."""
    for few, times in calls.few_of_each_line(calls.called("convolution")):
        for at in few:
            listed, weight = calls.given(at).get("input_is_a_view_of"), _weight(calls, at)
            base = [each for each in listed if type(each) is int] if type(listed) is list else []
            if len(base) != 4 or len(weight) != 4:
                continue
            _, height, width, channels = base
            if channels == weight[1] <= MOST_COLOURS < min(height, width) and channels > 1:
                yield _seen_by_a_convolution(calls, at, tuple(base), times)
                break


def _weight(calls: Calls, at: int) -> Shape:
    """The shape of a convolution's weight, which has as many channels as its input."""
    out = calls.shape(calls.outputs(at)[0])[1:2]
    shapes = [calls.shape(each) for each in calls.inputs(at) if calls.needs_grad(each)]
    return next((shape for shape in shapes if len(shape) == 4 and shape[:1] == out), ())


def _seen_by_a_convolution(calls: Calls, at: int, base: Shape, times: int) -> Found:
    site = calls.site(at)
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"The convolution{calls.where(at)} at {site} gets a view of images {base}, "
        f"which mixes up elements: use permute instead{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"its input has {base[3]} channels, is contiguous in memory and is a view of "
        f"{base}, whose colours are adjacent: view and reshape keep values in their order in "
        "memory, so each channel consists of all colours of a part of the image",
        fix="write `.permute(0, 3, 1, 2)` instead of view or reshape, before the convolution",
        certainty=Certainty.INFERRED,
    )


def _moved(before: Shape, after: Shape) -> int:
    """The size of a dim that comes after another one which it preceded before; 0: none.

    Only where values of several dims are mixed: where splitting and merging adjacent dims does not
    explain the shape.
    """
    if -1 in before or 0 in before or prod(before) != prod(after):
        return 0
    before, after = tuple(n for n in before if n > 1), tuple(n for n in after if n > 1)
    cuts = sorted({*accumulate(before, mul), *accumulate(after, mul)})
    if all(large % small == 0 for small, large in pairwise(cuts)):
        return 0
    begins = {size: prod(before[i + 1 :]) for i, size in enumerate(before)}
    for i, size in enumerate(after):
        inside = prod(after[i + 1 :])
        if begins.get(size, inside) > inside and before.count(size) == after.count(size) == 1:
            return size
    return 0


def _channels_as_columns(before: Shape, after: Shape) -> int:
    """The channels of (N, C, H, W) that became columns, (N · H · W, C), without a permute."""
    if len(before) not in (3, 4) or len(after) != 2 or min(before[1:], default=0) < 2:
        return 0
    channels, inside = before[1], prod(before[2:])
    rows = after == (before[0] * inside, channels)
    return channels if rows and channels not in before[2:] and inside % channels == 0 else 0


def _is_image(calls: Calls, at: int, before: Shape, after: Shape) -> bool:
    """Whether (N, H, W, C) became (N, C, H, W), and goes into a convolution."""
    if len(before) != 4 or after != (before[0], before[3], before[1], before[2]):
        return False
    if before[3] in before[1:3] or before[3] > MOST_COLOURS:
        return False
    return any(calls.name(each) == "convolution" for each in calls.following(at, SAME_NUMBERS))


def _heads(calls: Calls, at: int, before: Shape, after: Shape) -> bool:
    """Whether (B, T, h · d) became heads (B, h, T, d), or the reverse, in an attention.

    Such shapes may also result from splitting and merging adjacent dims, so they prove nothing
    alone.
    """
    if len(before) == 3 and len(after) == 4:
        (batch, words, width), heads = before, after
        users = calls.following(at, SAME_NUMBERS)
        attends = any(calls.name(each).startswith(ATTENDS) for each in users)
    elif len(before) == 4 and len(after) == 3:
        (batch, words, width), heads = after, before
        maker = calls.origin(calls.inputs(at)[0])
        attends = maker != NONE and calls.name(maker).startswith(ATTENDS)
    else:
        return False
    many, size = heads[1], heads[3]
    turned = heads == (batch, many, words, size) and width == many * size and min(heads[1:]) > 1
    return turned and words not in (many, size) and attends


def _found(calls: Calls, at: int, before: Shape, after: Shape, times: int) -> Found:
    site = calls.site(at)
    again = f", {times:,} times" if times > 1 else ""
    if len(before) == 4 == len(after):
        fix = "write `.permute(0, 3, 1, 2)` instead of view"
    elif len(before) == 4 and len(after) == 3:
        fix = "move dims first: `x.transpose(1, 2).reshape(batch, words, heads * width)`"
    else:
        fix = "split the last dim first and move dims afterwards: "
        fix += "`x.view(batch, words, heads, width).transpose(1, 2)`"
    return Found(
        message=f"{calls.name(at).strip('_')} at {site} makes {after} from {before}, which mixes "
        f"up elements{again}: use transpose or permute instead",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why="view and reshape keep values in their order in memory, so a dim that changes its "
        "position is filled with parts of others",
        fix=fix,
        certainty=Certainty.SUSPECTED,
    )
