"""Rules about dims: normalizing or averaging over another dim than intended."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.dims import ELEMENTWISE, NLL, PRODUCTS, VIEWS, Fate, Went, went
from gradscope.analysis.rules.own_line import OTHER_DIM, instead, rewritten, with_dim
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS, SOFTMAX
from gradscope.analysis.rules.structure.pooling import pooled_over_another
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

READS_ARGUMENTS = (*READS, "node.arguments")
ROWS = frozenset({"addmm", "mm", "linear"})
POOLS = ("mean", "sum", "max", "amax")
LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
                    "binary_cross_entropy"})  # fmt: skip
FEATURES_LAST = frozenset({
    "embedding", "native_layer_norm", "mkldnn_rnn_layer", "lstm", "gru", "rnn_tanh", "rnn_relu",
})  # fmt: skip
FAR = 64
"""How many calls after or before a call are checked."""


@rule("GS711", "softmax-over-the-batch", reads=READS_ARGUMENTS)
def softmax_over_the_batch(trace: Trace) -> Iterator[Found]:
    """A softmax of logits goes over the rows of the batch, or positions, instead of the classes.

    Each class is then distributed over the samples: the prediction for one depends on the others in
    its batch, and no row adds up to 1.

    Bad:
        logits = torch.nn.Linear(3, 4)(torch.arange(24.0).reshape(8, 3))
        log_probs = torch.log_softmax(logits, dim=0)
        torch.nn.functional.nll_loss(log_probs, torch.tensor([0, 1, 2, 3] * 2)).backward()

    Good:
        logits = torch.nn.Linear(3, 4)(torch.arange(24.0).reshape(8, 3))
        log_probs = torch.log_softmax(logits, dim=1)
        torch.nn.functional.nll_loss(log_probs, torch.tensor([0, 1, 2, 3] * 2)).backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors(*SOFTMAX)):
        for at in few:
            over, shape = calls.dims(at), calls.shape(calls.outputs(at)[0])
            classes = _features(calls, calls.inputs(at)[0]) if over and len(over) == 1 else NONE
            if over is None or classes in (NONE, over[0]) or 1 in (shape[over[0]], shape[classes]):
                continue
            if _is_of_classes(calls, at, over[0], classes):
                yield _over_the_batch(calls, at, over[0], classes, times)
                break


def _features(calls: Calls, tensor: int) -> int:
    """The dim that holds what a layer returned for each sample; NONE if unknown."""
    shape = calls.shape(tensor)
    for _ in range(FAR):
        at = calls.maker(tensor)
        if at == NONE:
            return NONE
        name, inputs = calls.name(at), calls.inputs(at)
        if name == "convolution":
            return 1 if len(calls.shape(tensor)) == len(shape) else NONE
        if name in ROWS:
            kept = calls.shape(tensor)[-1] == shape[-1] and _has_a_weight(calls, at)
            return len(shape) - 1 if kept else NONE
        own = calls.shape(tensor)
        same = [each for each in inputs if calls.shape(each)[-1:] == own[-1:] != (1,)]
        if name in {"view", "_unsafe_view", "reshape", "_reshape_alias"} and not same:
            return NONE
        if name not in (*ELEMENTWISE, "view", "_unsafe_view", "reshape", "_reshape_alias"):
            return NONE
        made = [each for each in same if calls.maker(each) != NONE]
        if not made or len(own) < len(shape) == 2:
            return NONE
        tensor = made[0]
    return NONE


def _has_a_weight(calls: Calls, at: int) -> bool:
    """Whether exactly one of two multiplied matrices is a parameter."""
    matrices = [each for each in calls.inputs(at) if len(calls.shape(each)) > 1]
    return sum(_is_a_parameter(calls, each) for each in matrices) == 1


def _is_a_parameter(calls: Calls, tensor: int) -> bool:
    leaf = calls.origin_leaf(tensor)
    return calls.maker(leaf) == NONE and calls.needs_grad(leaf)


MERGED = -1
"""In place of a dim that has become part of another one, the rows."""


def _is_of_classes(calls: Calls, softmax: int, over: int, classes: int) -> bool:
    """Whether later calls treat one dim as classes, and none weighs by the other."""
    batch = over == 0
    pending, sure = [(calls.outputs(softmax)[0], over, classes)], False
    for _ in range(FAR):
        if not pending:
            return sure
        tensor, over, classes = pending.pop()
        for user in calls.trained_users(tensor):
            if _takes_classes(calls, user, tensor, classes):
                sure = True
                continue
            name = calls.name(user)
            if batch and (name in LOSSES or _is_the_mean(calls, softmax, user)):
                sure = True
                continue
            first, second = went(calls, user, tensor, over), went(calls, user, tensor, classes)
            if over == MERGED or (first.fate is Fate.UNKNOWN and name in VIEWS):
                first = Went(Fate.STAYS, MERGED)
            if second.fate is Fate.REDUCED and first.fate is Fate.STAYS:
                sure = True
            elif first.fate is second.fate is Fate.STAYS:
                pending.append((calls.outputs(user)[0], first.dim, second.dim))
            else:
                return False
    return False


def _takes_classes(calls: Calls, at: int, tensor: int, classes: int) -> bool:
    """Whether a call picks one of the values along this dim for each row."""
    name, shape = calls.name(at), calls.shape(tensor)
    if name in NLL:
        return classes == min(1, len(shape) - 1)
    if name == "index":
        return len(shape) == 2 and calls.shape(calls.outputs(at)[0]) == (shape[1 - classes],)
    return name == "gather" and calls.dims(at) == (classes,)


def _is_the_mean(calls: Calls, softmax: int, at: int) -> bool:
    """Whether it is the mean of all values, or the sum of logarithms."""
    everything = not calls.shape(calls.outputs(at)[0])
    names = {"mean", "sum"} if "log" in calls.name(softmax) else {"mean"}
    return everything and calls.name(at) in names


def _over_the_batch(calls: Calls, at: int, over: int, classes: int, times: int) -> Found:
    site, shape = calls.site(at), calls.shape(calls.outputs(at)[0])
    word = calls.name(at).strip("_")
    rows = f"the {shape[over]} rows of the batch" if over == 0 else f"{shape[over]} positions"
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"{word}(dim={over}){calls.where(at)} at {site} normalizes over {rows}, not over "
        f"the {shape[classes]} classes: wrong dim{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"its input is logits of shape {shape}: a layer returned the "
        f"{shape[classes]} in dim {classes} for each sample; later calls treat dim {classes} as "
        f"classes, but values add up to 1 along dim {over}",
        fix=_with_dim(calls, at, classes if classes == 1 else -1),
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, with_dim(site.text, classes if classes == 1 else -1), OTHER_DIM),
    )


def _with_dim(calls: Calls, at: int, dim: int) -> str:
    site = calls.site(at)
    line = with_dim(site.text, dim)
    return instead(line, site.text) if line else f"set dim={dim}"


@rule("GS712", "attention-over-the-wrong-dim", reads=READS_ARGUMENTS)
def attention_over_the_wrong_dim(trace: Trace) -> Iterator[Found]:
    """Attention weights are normalized over another dim than the one values are summed over.

    With scores (batch, queries, keys), weights @ values sums over the keys. Each result is a mean
    of values only if the softmax also goes over the keys. The rule also reports a softmax over the
    samples where each position of a sample has one score.

    Bad:
        x = torch.linspace(-1, 1, 48, requires_grad=True).reshape(2, 3, 8)
        weights = (x.sin() @ x.exp().transpose(1, 2)).softmax(dim=0)
        (weights @ x.cos()).sum().backward()

    Good:
        x = torch.linspace(-1, 1, 48, requires_grad=True).reshape(2, 3, 8)
        weights = (x.sin() @ x.exp().transpose(1, 2)).softmax(dim=-1)
        (weights @ x.cos()).sum().backward()
    """
    calls = trace.once(Calls)
    yield from pooled_over_another(calls, ("_softmax", "softmax"))
    for few, times in calls.few_of_each_line(calls.with_tensors("_softmax", "softmax")):
        for at in few:
            over, shape = calls.dims(at), calls.shape(calls.outputs(at)[0])
            if over is None or len(over) != 1 or over[0] == len(shape) - 1 or len(shape) < 2:
                continue
            if are_scores(calls, calls.inputs(at)[0]):
                product = _weighs_by_the_last(calls, at)
                if product != NONE:
                    yield _other_attention(calls, at, product, over[0], times)
                    break


def are_scores(calls: Calls, tensor: int) -> bool:
    """Whether they are products of queries and keys, and not with a parameter."""
    for _ in range(FAR):
        at = calls.maker(tensor)
        if at == NONE:
            return False
        if calls.name(at) in PRODUCTS:
            return len(calls.inputs(at)) == 2 and not any(
                _is_a_parameter(calls, each) for each in calls.inputs(at)
            )
        if calls.name(at) in SAME_NUMBERS and calls.inputs(at):
            tensor = calls.inputs(at)[0]
            continue
        if calls.name(at) not in ELEMENTWISE:
            return False
        if _is_of_each_with_each(calls, at):
            return True
        many = calls.shape(tensor)[-2:]
        tensors = [each for each in calls.inputs(at) if calls.shape(each)[-2:] == many]
        made_here = [each for each in tensors if calls.maker(each) != NONE]
        if not made_here:
            return False
        tensor = made_here[0]
    return False


def _is_of_each_with_each(calls: Calls, at: int) -> bool:
    """Whether scores of queries, a column, and of keys, a row, were added, as in GAT."""
    many = calls.shape(calls.outputs(at)[0])[-2:]
    if calls.name(at) != "add" or len(calls.inputs(at)) != 2 or 1 in many:
        return False
    sizes = {calls.shape(each)[-2:] for each in calls.inputs(at)}
    return sizes == {(many[0], 1), (1, many[1])} and all(
        calls.needs_grad(each) for each in calls.inputs(at)
    )


PASSED_ON = SAME_NUMBERS | {"native_dropout", "mul"}


def _weighs_by_the_last(calls: Calls, at: int) -> int:
    """The product that sums over the last dim of a softmax, if that is its only use."""
    shape = calls.shape(calls.outputs(at)[0])
    pending, product = [(calls.outputs(at)[0], len(shape) - 1)], NONE
    for _ in range(FAR):
        if not pending:
            return product
        tensor, last = pending.pop()
        for user in calls.trained_users(tensor):
            if calls.name(user) in PRODUCTS:
                inputs = calls.inputs(user)
                if inputs[0] != tensor or went(calls, user, tensor, last).fate is not (
                    Fate.CONTRACTED
                ):
                    return NONE
                product = user
                continue
            moved = went(calls, user, tensor, last)
            if calls.name(user) not in PASSED_ON or moved.fate is not Fate.STAYS:
                return NONE
            if calls.name(user) == "mul" and not _is_a_mask(calls, user, tensor):
                return NONE
            pending.append((calls.outputs(user)[0], moved.dim))
    return NONE


def _is_a_mask(calls: Calls, at: int, tensor: int) -> bool:
    """Whether a tensor is multiplied by a number or a mask, as dropout does."""
    return not any(calls.needs_grad(each) for each in calls.inputs(at) if each != tensor)


def _other_attention(calls: Calls, at: int, product: int, over: int, times: int) -> Found:
    site, shape = calls.site(at), calls.shape(calls.outputs(at)[0])
    if over == len(shape) - 2:
        what = f"the {shape[over]} queries"
    else:
        what = f"{shape[over]} samples of the batch" if over == 0 else f"dim {over}"
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"softmax(dim={over}){calls.where(at)} at {site} normalizes attention weights "
        f"over {what}, not over the {shape[-1]} keys: wrong dim{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("op", calls.id(product))),
        why=f"weights of shape {shape} are multiplied by values at {calls.site(product)}, which "
        f"sums over the last dim, but they add up to 1 along dim {over}: results are not means",
        fix=_with_dim(calls, at, -1),
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, with_dim(site.text, -1), OTHER_DIM),
    )


@rule("GS713", "mean-over-the-features", reads=READS_ARGUMENTS)
def mean_over_the_features(trace: Trace) -> Iterator[Found]:
    """The features of each position are averaged instead of the positions, and a layer follows.

    This raises no error only if the number of positions equals the number of features.

    Bad:
        words = torch.nn.Embedding(9, 5)(torch.arange(5).repeat(2, 1))
        torch.nn.Linear(5, 1)(words.mean(dim=2)).sum().backward()

    Good:
        words = torch.nn.Embedding(9, 5)(torch.arange(5).repeat(2, 1))
        torch.nn.Linear(5, 1)(words.mean(dim=1)).sum().backward()
    """
    calls = trace.once(Calls)
    for few, times in calls.few_of_each_line(calls.with_tensors(*POOLS)):
        for at in few:
            over, made = calls.dims(at), calls.outputs(at)[0]
            shape = calls.shape(calls.inputs(at)[0])
            if over is None or len(over) != 1 or len(shape) != 3 or len(calls.shape(made)) != 2:
                continue
            features = _counted_features(calls, calls.inputs(at)[0])
            left = 3 - over[0]  # of dims 1 and 2
            if features != over[0] or features not in (1, 2) or shape[1] != shape[2]:
                continue
            if _goes_into_a_layer(calls, made) and _is_used_once(calls, calls.inputs(at)[0]):
                yield _pooled(calls, at, over[0], left, times)
                break


def _counted_features(calls: Calls, tensor: int) -> int:
    """The dim of features: the last after an embedding or a layer, 1 after convolutions."""
    at = calls.maker(tensor)
    if at != NONE and calls.name(at) == "transpose" and len(calls.inputs(at)) == 1:
        inner = _counted_features(calls, calls.inputs(at)[0])
        return NONE if inner == NONE else went(calls, at, calls.inputs(at)[0], inner).dim
    behind = {"native_dropout", "relu", "gelu", "tanh", "clone", "contiguous", "mul"}
    for _ in range(FAR):
        if at == NONE or calls.name(at) not in behind or not calls.inputs(at):
            break
        tensor = calls.inputs(at)[0]
        at = calls.maker(tensor)
    if at != NONE and calls.name(at) in FEATURES_LAST:
        return len(calls.shape(tensor)) - 1
    return _features(calls, tensor)


SCALED = frozenset({"div", "mul", "native_dropout", "relu", "tanh", "gelu"})


def _goes_into_a_layer(calls: Calls, tensor: int) -> bool:
    """Whether only layers use it, row by row."""
    users = calls.trained_users(tensor)
    while len(users) == 1 and calls.name(users[0]) in SCALED:
        users = calls.trained_users(calls.outputs(users[0])[0])
    return bool(users) and all(
        calls.name(user) in ROWS and _has_a_weight(calls, user) for user in users
    )


def _is_used_once(calls: Calls, tensor: int) -> bool:
    return len(calls.trained_users(tensor)) == 1


def _pooled(calls: Calls, at: int, over: int, left: int, times: int) -> Found:
    site, shape = calls.site(at), calls.shape(calls.inputs(at)[0])
    name = calls.name(at)
    again = f"; the line ran {times:,} times" if times > 1 else ""
    return Found(
        message=f"{name}(dim={over}){calls.where(at)} at {site} reduces the {shape[over]} "
        f"features of each position, not the {shape[left]} positions: wrong dim{again}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"dim {over} of {shape} holds what a layer returned for each position; the result, one "
        f"value for each of {shape[left]} positions, goes into a layer as if these were "
        "features. Both sizes are equal, so nothing fails",
        fix=_with_dim(calls, at, left),
        certainty=Certainty.SUSPECTED,
        rewrite=rewritten(site, with_dim(site.text, left), OTHER_DIM),
    )
