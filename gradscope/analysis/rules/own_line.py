"""Rewriting of the program's own lines, for fixes."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable

from gradscope.analysis.findings import Rewrite
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.source.functions import is_named, last_name, parsed

OTHER_DIM = "check which dim is meant: the loss and the training will change"
OTHER_ALIASES = "other names of the same tensor will not see the write"
"""Why a rewritten line needs a person."""

MODE_STAYS = "the mode of all modules inside stays: check where it is set back"
CALLED = {
    "zero_grad": "", "backward": "", "train": "", "detach_": "", "requires_grad_": "",
    "eval": MODE_STAYS,
}  # fmt: skip
"""Methods that need no arguments, and why a call of them needs a person."""

ASSIGNMENT = re.compile(r"^(?P<to>[\w.]+)\s*(?::[^=]+)?=\s*(?P<value>.+)$")
BRACKETS = {"[": "]", "(": ")", "{": "}"}

LONGEST_LINE = 500
FILLED_ELSEWHERE = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.Constant)
Change = Callable[[ast.Call, str], str | None]


def without_call(line: str, *names: str) -> str:
    """`return F.softmax(out, dim=1)` as `return out`; "" if that is not possible."""

    def changed(call: ast.Call, text: str) -> str | None:
        function = call.func
        if not isinstance(function, ast.Attribute | ast.Name):
            return None
        first = call.args[0] if call.args else None
        if isinstance(function, ast.Attribute):
            if function.attr not in names:
                return None
            owner = ast.get_source_segment(text, function.value) or ""
            is_function = owner in {"torch", "F", "nn.functional", "torch.nn.functional"}
            return ast.get_source_segment(text, first) if is_function and first else owner or None
        if function.id in names and first is not None:
            return ast.get_source_segment(text, first)
        return None

    return _rewritten(line, changed)


def renamed_call(line: str, old: str, new: str) -> str:
    """`F.softmax(x, dim=1)` as `F.log_softmax(x, dim=1)`; "" if that is not possible."""

    def changed(call: ast.Call, text: str) -> str | None:
        function, whole = call.func, ast.get_source_segment(text, call)
        called = ast.get_source_segment(text, function)
        if not whole or not called or called.rpartition(".")[2] != old:
            return None
        return called[: len(called) - len(old)] + new + whole[len(called) :]

    return _rewritten(line, changed)


DIM = re.compile(r"(\bdim\s*=\s*)-?\d+")
ITS_DIM = re.compile(r"((?:softmax|mean|sum|amax|max)\((?:[^()]*,\s*)?)-?\d+(?=\s*[,)])")


def with_dim(line: str, dim: int) -> str:
    """`x.softmax(dim=0)`, or `x.softmax(0)`, with another dim; "" unless a line has just one."""
    if len(line) > LONGEST_LINE:
        return ""
    for said in (DIM, ITS_DIM):
        found = said.findall(line)
        if found:
            return said.sub(rf"\g<1>{dim}", line.strip()) if len(found) == 1 else ""
    return ""


def _rewritten(line: str, change: Change) -> str:
    """A line with one changed call; "" if that is not possible."""
    text = line.strip()
    if len(text) > LONGEST_LINE or not text.isascii():
        return ""
    tree = parsed(text)
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)) if tree else ():
        new, old = change(call, text), ast.get_source_segment(text, call)
        if new and old and text.count(old) == 1:
            made = text.replace(old, new)
            return made if parsed(made) else ""
    return ""


def code_of(line: str) -> str:
    """The line without the comment at its end."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(line.strip()).readline)]
    except (tokenize.TokenError, SyntaxError):
        return line.strip().partition("  #")[0].rstrip()
    comments = [each.start[1] for each in tokens if each.type == tokenize.COMMENT]
    return line.strip()[: comments[0]].rstrip() if comments else line.strip()


def instead(new: str, old: str) -> str:
    """The advice to write one line instead of another, both without comments."""
    return f"write `{code_of(new)}` instead of `{code_of(old)}`"


def rewritten(site: Site, new: str, unsafe: str = "") -> Rewrite | None:
    """A line written anew, for `--fix`; None if `new` is empty or the same.

    `unsafe`: why a person must decide. Leave it empty only if the new line keeps everything but the
    fault: values, random numbers, names and types.
    """
    code = code_of(new)
    return (
        Rewrite(site, code, unsafe) if site.file and code not in ("", code_of(site.text)) else None
    )


def as_call(site: Site) -> Rewrite | None:
    """`model.eval()` for the line `model.eval`, which only names the method."""
    code = code_of(site.text)
    match one_statement(code):
        case ast.Expr(value=ast.Attribute(attr=method)):
            return rewritten(site, f"{code}()", CALLED.get(method, "it may need arguments"))
    return None


def guarded(line: str, names: Iterable[str], guard: str) -> str:
    """`torch.log(x.clamp_min(1e-12))` for `torch.log(x)`; "" if that is not possible."""

    def changed(call: ast.Call, text: str) -> str | None:
        function = call.func
        if last_name(function) not in names or call.keywords or len(call.args) > 1:
            return None
        owner = function.value if isinstance(function, ast.Attribute) else None
        given = call.args[0] if call.args else owner
        part, whole = given and ast.get_source_segment(text, given), segment(text, call)
        if given is None or not part or not whole:
            return None
        simple = isinstance(given, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        better = guard.format(part if simple else f"({part})")
        if call.args:
            return whole[: whole.rindex(f"({part}")] + f"({better})"
        # not for `(x.sum(1)).sqrt()`: the parentheses are no part of `x.sum(1)`
        return better + whole[len(part) :] if simple and whole.startswith(part) else None

    return _rewritten(code_of(line), changed)


def segment(text: str, node: ast.AST) -> str:
    """The part of a text that a node was parsed from."""
    return ast.get_source_segment(text, node) or ""


def out_of_place(line: str) -> str:
    """`h = h + 1` for the line `h += 1`, `y = y.add(1)` for `y.add_(1)`; "" for others."""
    statement = one_statement(line)
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return f"{name} = {ast.unparse(ast.BinOp(ast.Name(name), op, value))}"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=called))):
            if called.endswith("_") and not called.endswith("__"):
                return f"{name} = {line.strip().replace(f'.{called}(', f'.{called[:-1]}(', 1)}"
    return ""


def partly_detached(line: str) -> bool:
    """Whether a line returns or assigns several, of which some are detached: `h.detach(), c`."""
    statement = one_statement(line.replace("return ", "_ = ", 1))
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Tuple | ast.List):
        return False
    parts = [each for each in value.elts if not isinstance(each, ast.Constant)]
    cut = [
        any(isinstance(one, ast.Attribute) and one.attr == "detach" for one in ast.walk(each))
        for each in parts
    ]
    return any(cut) and not all(cut)


def carried_detached(line: str) -> str:
    """`h = f(h.detach(), x)` for the line `h = f(h, x)`, which carries `h` on; "" for others."""
    statement = one_statement(line)
    match statement:
        case ast.Assign(targets=[ast.Name(id=carried)], value=value):
            uses = [each for each in ast.walk(value) if is_named(each, carried)]
            if len(uses) == 1:
                text, end = line.strip(), uses[0].end_col_offset
                if text.isascii() and end is not None:
                    return f"{text[:end]}.detach(){text[end:]}"
    return ""


def carried_name(line: str) -> str:
    """`h` for the line `y, h = model(x, h)`, which uses its own earlier result; "" for others."""
    match one_statement(code_of(line)):
        case ast.Assign(targets=[ast.Tuple(elts=made)], value=ast.Call(args=given, keywords=more)):
            taken = {each.id for each in given if isinstance(each, ast.Name)}
            taken |= {each.value.id for each in more if isinstance(each.value, ast.Name)}
            names = [each.id for each in made if isinstance(each, ast.Name) and each.id in taken]
            return names[0] if len(names) == 1 else ""
    return ""


def kept_detached(line: str) -> str:
    """`self.target = gram(x).detach()` for a line that assigns the result of a call to a name.

    And `queue.append(x.detach())` for one that appends to a list.
    """
    statement = one_statement(code_of(line))
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Attribute()], value=ast.Call(func=called)):
            detached = isinstance(called, ast.Attribute) and called.attr == "detach"
            return "" if detached else f"{code_of(line)}.detach()"
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="append" | "appendleft"), args=[ast.Name() as of]
            )
        ):
            return code_of(line).replace(f"({of.id})", f"({of.id}.detach())")
    return ""


def detached(line: str) -> str:
    """`losses.append(loss.detach())` for the line `losses.append(loss)`; "" where it is not clear.

    Also `total += loss.detach()` for `total += loss`.
    """
    text = code_of(line)
    match one_statement(text):
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend" | "extendleft" | "update"))):
            return ""  # it takes several tensors
        case ast.AugAssign(value=value) | ast.Assign(value=value) if _is_a_list(value):
            return ""
        case ast.Expr(value=ast.Call(args=[ast.Name() | ast.Attribute() | ast.Call() as value])):
            pass
        case ast.AugAssign(value=value) | ast.Assign(value=value) if not isinstance(
            value, FILLED_ELSEWHERE
        ):
            pass
        case _:
            return ""
    raw, end = text.encode(), value.end_col_offset
    before, part, after = raw[: value.col_offset], raw[value.col_offset : end], raw[end:]
    simple = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    part = part if simple else b"(%s)" % part
    return (before + part + b".detach()" + after).decode()


def _is_a_list(value: ast.expr) -> bool:
    """Whether this is a sum with a list or tuple in it, so its result is one."""
    return isinstance(value, ast.BinOp) and any(
        isinstance(side, ast.List | ast.Tuple) or _is_a_list(side)
        for side in (value.left, value.right)
    )


def one_statement(line: str) -> ast.stmt | None:
    """The one statement on a line; None if the line is not a whole statement."""
    if len(line) > LONGEST_LINE:
        return None
    tree = parsed(line.strip())
    return tree.body[0] if tree is not None and len(tree.body) == 1 else None


def in_holder(text: str, holder: str) -> tuple[str, str]:
    """`self.layers = nn.ModuleList([…])` for the line `self.layers = […]`; "" for others.

    A ModuleDict takes only strings as keys. The second result says how its use must change for
    that, or is "".
    """
    found = ASSIGNMENT.match(text.strip().partition("  #")[0].rstrip())
    if found is None or not is_whole(found["value"]):
        return "", ""
    nn = "torch.nn." if "torch.nn." in text or "nn." not in text else "nn."
    value, then = found["value"], ""
    if holder.endswith("Dict"):
        holder, value, then = _with_keys(value, holder)
    return f"{found['to']} = {nn}{holder}({value})", then


def parameter_around(line: str) -> str:
    """`self.w = nn.Parameter(x * 2)` for the line `self.w = nn.Parameter(x) * 2`; "" for others."""
    statement = one_statement(code_of(line))
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    calls = [each for each in ast.walk(statement.value) if isinstance(each, ast.Call)]
    made = [
        each
        for each in calls
        if ast.unparse(each.func).endswith("Parameter") and len(each.args) == 1
    ]
    if len(made) != 1 or made[0] is statement.value or made[0].keywords:
        return ""
    text, value = code_of(line), segment(code_of(line), statement.value)
    inner, call = segment(text, made[0].args[0]), segment(text, made[0])
    simple = isinstance(made[0].args[0], ast.Name | ast.Attribute | ast.Call)
    whole = value.replace(call, inner if simple else f"({inner})")
    return text.replace(value, f"{ast.unparse(made[0].func)}({whole})")


def _with_keys(value: str, holder: str) -> tuple[str, str, str]:
    """The holder, its contents, and how to use it, so that its keys are strings."""
    listed = f"{holder.removesuffix('Dict')}List"
    match _expression(value):
        case ast.DictComp(key=ast.Name(id=key), value=each, generators=[only]) if (
            isinstance(only.target, ast.Name) and only.target.id == key and not only.ifs
        ):
            part, over = segment(value, each), segment(value, only.iter)
            if over.startswith("range(") and "," not in over:
                then = "index it by number, and loop over `range(len(…))` instead of its keys"
                return listed, f"[{part} for {key} in {over}]", then
            then = f"index it by `str({key})` if {key} is not a string already"
            return holder, f"{{str({key}): {part} for {key} in {over}}}", then
        case ast.Dict(keys=keys, values=values) if any(_is_number(key) for key in keys):
            pairs = zip(keys, values, strict=True)
            shown = [
                f"{repr(segment(value, key)) if _is_number(key) else segment(value, key)}: "
                f"{segment(value, of)}"
                for key, of in pairs
                if key is not None
            ]
            return holder, f"{{{', '.join(shown)}}}", "index it by `str(…)`"
    return holder, value, ""


def _is_number(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, int)


def _expression(text: str) -> ast.expr | None:
    statement = one_statement(text)
    return statement.value if isinstance(statement, ast.Expr) and text.isascii() else None


def is_whole(text: str) -> bool:
    """Whether all brackets that open on this line are closed on it."""
    return all(text.count(opens) == text.count(closes) for opens, closes in BRACKETS.items())
