"""Changes of modules and of leaves: types, sizes, dtypes, and which have gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gradscope.analysis.identity.leaves import NamedLeaf, leaf_of
from gradscope.analysis.likeness.aspects import Both
from gradscope.analysis.likeness.changes.change import Change, ChangeKind, counted, some
from gradscope.analysis.likeness.who import Who
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import NONE, Module, Node, Tensor
from gradscope.trace.trace import Trace


class ModulesOfBoth:
    """The modules of two traces by path, with their types."""

    def __init__(self, one: Trace, other: Trace) -> None:
        self._types = _types(one), _types(other)
        models = [sum(not row.path for row in trace.rows(Module)) for trace in (one, other)]
        self._alike_named = (models[0] < 2) == (models[1] < 2)
        """Whether paths begin alike: with several models each begins with the model's name."""
        self._used: set[str] = set()
        self.leaves: Counter[str] = Counter()
        """Number of leaves in modules that only one trace has."""

    def only(self, place: int, path: str) -> str:
        """The outermost module around a path that only this trace has; "" if there is none."""
        mine, theirs = self._types[place], self._types[1 - place]
        if not mine or not theirs or not self._alike_named:
            return ""
        parts = path.split(".") if path else []
        for length in range(1, len(parts) + 1):
            root = ".".join(parts[:length])
            if root in mine and root not in theirs:
                self._used.add(root)
                return root
        return ""

    def is_only(self, path: str) -> bool:
        """Whether `only` returned this path."""
        return path in self._used

    def replaced(self, gone: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
        """As in "ReLU → Tanh" and the path, if these nodes are of one module with two types."""
        paths = {*gone, *new}
        if len(paths) != 1:
            return "", ""
        (path,) = paths
        one, other = (types.get(path, "") for types in self._types)
        return (f"{one} → {other}", path) if path and one != other else ("", "")


def _types(trace: Trace) -> dict[str, str]:
    names = module_names(trace)
    return {names[row.id]: row.type for row in trace.rows(Module)}


class LeavesOfBoth:
    """The leaves of two traces, matched by name and else by the edges that lead to them."""

    def __init__(self, both: Both) -> None:
        self._both = both
        self._leaves = _leaves(both.one.who), _leaves(both.other.who)
        names = [_unique(each) for each in self._leaves]
        pairs = {names[0][name]: at for name, at in names[1].items() if name in names[0]}
        taken = set(pairs.values())
        for other, one in enumerate(both.match.leaves.tolist()):
            if one == NONE or one in pairs or other in taken:
                continue
            was, leaf = self._leaves[0][one], self._leaves[1][other]
            renamed = was.shape == leaf.shape  # names that only one of the traces has
            if was.name == leaf.name or not (was.name and leaf.name) or renamed:
                pairs[one] = other
                taken.add(other)
        self._pairs = pairs
        self._taken = taken

    def changes(self, modules: ModulesOfBoth) -> Iterator[Change]:
        """Sizes, dtypes, and leaves that have a gradient in only one of the traces."""
        sizes, dtypes = [], dict[tuple[str, str], list[int]]()
        for one, other in sorted(self._pairs.items(), key=lambda pair: pair[1]):
            was, leaf = self._leaves[0][one], self._leaves[1][other]
            if NONE in (was.tensor, leaf.tensor):
                continue
            if was.shape != leaf.shape:
                sizes.append((was, leaf, other))
            elif was.dtype != leaf.dtype:
                dtypes.setdefault((was.dtype, leaf.dtype), []).append(other)
        if sizes:
            was, leaf, _ = sizes[0]
            words = f"`{leaf.title}` {list(was.shape)} → {list(leaf.shape)}"
            if len(sizes) > 1:
                words += f", and {counted(len(sizes) - 1, 'more leaf', 'more leaves')} with it"
            yield Change(ChangeKind.LEAF, words, nodes=self._ids(1, [at for *_, at in sizes]))
        for (before, now), found in dtypes.items():
            named = some([self._leaves[1][at].title for at in found])
            words = f"{before} → {now} of {counted(len(found), 'leaf', 'leaves')} ({named})"
            yield Change(ChangeKind.LEAF, words, nodes=self._ids(1, found))
        yield from self._alone(modules)

    def _alone(self, modules: ModulesOfBoth) -> Iterator[Change]:
        """Leaves that only one of the traces has."""
        left = [at for at in range(len(self._leaves[0])) if at not in self._pairs]
        came = [at for at in range(len(self._leaves[1])) if at not in self._taken]
        for place, found in ((0, left), (1, came)):
            trace = (self._both.one, self._both.other)[1 - place].who.trace
            by_reason: dict[str, list[int]] = {}
            for at in found:
                leaf = self._leaves[place][at]
                root = modules.only(place, leaf.name.rpartition(".")[0])
                if root:  # reported with its module
                    modules.leaves[root] += 1
                    continue
                by_reason.setdefault(_why(trace, leaf, place), []).append(at)
            for reason, of in by_reason.items():
                named = some([self._leaves[place][at].title for at in of])
                words = (
                    reason.replace("{have}", "has")
                    if len(of) == 1
                    else (reason.replace("{have}", "have").replace("reached it", "reached them"))
                )
                words = words.replace("{}", named)
                sides: list[tuple[int, ...]] = [(), ()]
                sides[place] = self._ids(place, of)
                yield Change(ChangeKind.GRADIENT, words, gone=sides[0], nodes=sides[1])

    def _ids(self, place: int, numbers: Sequence[int]) -> tuple[int, ...]:
        who = (self._both.one, self._both.other)[place].who
        ids = who.trace.table(Node)["id"]
        return tuple(int(ids[who.leaves[at]]) for at in numbers)


def _leaves(who: Who) -> list[NamedLeaf]:
    table = who.trace.table(Node)
    found = (leaf_of(who.trace, table.at(int(at))) for at in who.leaves)
    return [each for each in found if each is not None]


def _unique(leaves: Sequence[NamedLeaf]) -> dict[str, int]:
    """Places of leaves by name, for names that one leaf has."""
    found: dict[str, int] = {}
    twice = set()
    for at, leaf in enumerate(leaves):
        if leaf.name in found:
            twice.add(leaf.name)
        found[leaf.name] = at
    return {name: at for name, at in found.items() if name and name not in twice}


def _why(trace: Trace, leaf: NamedLeaf, place: int) -> str:
    """Why the other trace has no such leaf; "{}" is the name. `place`: of the trace that has it."""
    known = trace.once(_NeedGradient).by_name.get(leaf.name)
    if known is None:
        new = "{} {have} a gradient, and had none before"
        return new if place else "{} {have} no gradient any more"
    why = "no backward reached it" if known else "requires_grad is False"
    if place:
        return f"{{}} {{have}} a gradient; before, {why.replace(' is', ' was')}"
    return f"{{}} {{have}} no gradient any more: {why}"


class _NeedGradient:
    """Whether any tensor of a name requires a gradient, by name."""

    def __init__(self, trace: Trace) -> None:
        tensors = trace.table(Tensor)
        self.by_name: dict[str, bool] = {}
        rows = zip(tensors["name"].tolist(), tensors["requires_grad"].tolist(), strict=True)
        for text, needs in set(rows):
            name = trace.text(text)
            if name:
                self.by_name[name] = self.by_name.get(name, False) or bool(needs)
