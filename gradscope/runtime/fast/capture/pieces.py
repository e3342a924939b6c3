"""Cuts a step into pieces: replayable ones, and between them statements that are not.

# Note [Where a step is cut]
A step is cut at a statement of its own body, even if the recording stopped deeper. The statement
that led there runs uncaptured. What is ahead of it and after it are separate steps, which are
captured and, if necessary, cut again. Local variables pass from piece to piece as arguments and
results. So a piece is not replayed if its tensors have a graph that no backward has run through. A
function that returns in its middle is not cut, nor is one without source, nor one whose inner
function uses a variable that is set again after the cut: it would see the new value.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

DEFINITION = "__gradscope_definition__"
NOT_CUT = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Delete, ast.AsyncFunctionDef, ast.ClassDef,
)  # fmt: skip
INNER = (ast.FunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some statements of a step, as a function of the local variables they read."""

    function: Callable[..., Any]
    given: tuple[str, ...]
    left: tuple[str, ...]  # the variables it sets that are read later
    returns: bool
    lines: tuple[int, int]
    cut: bool  # whether it cannot be replayed


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a step, in order."""

    parts: tuple[StepPart, ...]
    signature: inspect.Signature
    instance: Any = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the pieces. Returns what the step returns."""
        if self.instance is not None:
            args = (self.instance, *args)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        known: dict[str, Any] = bound.arguments
        for part in self.parts:
            made = part.function(*[known[name] for name in part.given])
            if part.returns:
                return made
            known.update(zip(part.left, made, strict=True))
        return None

    def told(self) -> Iterator[str]:
        """Lines of text on which pieces are replayed."""
        for part in self.parts:
            first, last = part.lines
            lines = f"line {first}" if first == last else f"lines {first} to {last}"
            report = getattr(part.function, "report", None)
            if report is not None:
                yield f"{lines}:"
                yield from (f"  {line}" for line in report().splitlines()[1:])
            elif part.cut:
                yield f"{lines}: not replayed"


def cut(
    step: Any, line: int, capture: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Pieces | None:
    """The step, cut at the statement of one of its own lines; None if it cannot be cut."""
    instance = step.__self__ if isinstance(step, MethodType) else None
    function = step.__func__ if isinstance(step, MethodType) else step
    if not isinstance(function, FunctionType) or "__class__" in function.__code__.co_freevars:
        return None
    definition = _definition(function)
    if definition is None:
        return None
    declared = [
        node for node in ast.walk(definition) if isinstance(node, ast.Global | ast.Nonlocal)
    ]
    own = [node for each in definition.body for node in _own(each)]
    if any(node not in own for node in declared):  # an inner function sets a variable of the step
        return None
    body = [node for node in definition.body if not isinstance(node, ast.Global | ast.Nonlocal)]
    if body and _is_docstring(body[0]):
        body = body[1:]
    place = next((n for n, at in enumerate(body) if at.lineno <= line <= _end(at)), None)
    if place is None or len(body) < 2 or not _can_be_cut(body):
        return None
    groups = [(body[:place], False), (body[place : place + 1], True), (body[place + 1 :], False)]
    groups = [group for group in groups if group[0]]
    signature = inspect.signature(function)
    known = set(signature.parameters)
    parts = []
    for nr, (statements, is_cut) in enumerate(groups):
        later = [node for group, _ in groups[nr + 1 :] for node in group]
        if _in_inner_functions(statements) & _names(later, ast.Store):
            return None
        part = _part(function, statements, declared, known, later, is_cut=is_cut)
        if part is None:
            return None
        known |= _names(statements, ast.Store)
        if not (is_cut or _hands_over(statements)):
            part = StepPart(
                capture(part.function), part.given, part.left, part.returns, part.lines, cut=False
            )
        parts.append(part)
    return Pieces(tuple(parts), signature, instance)


def line_about(step: Any, name: str) -> int:
    """The line of the step's last statement that mentions a variable; 0 if there is none.

    It is unknown which statement changed it. A piece that changes it, too, is cut again.
    """
    function = getattr(step, "__func__", step)
    definition = _definition(function) if isinstance(function, FunctionType) and name else None
    if definition is None:
        return 0
    lines = [each.lineno for each in definition.body if name in _names([each], ast.Load)]
    return lines[-1] if lines else 0


def _definition(function: FunctionType) -> ast.FunctionDef | None:
    """The function's source with its line numbers. A piece has no other."""
    if DEFINITION in function.__dict__:
        piece: ast.FunctionDef = function.__dict__[DEFINITION]
        return piece
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return None
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    first = function.__code__.co_firstlineno
    ast.increment_lineno(tree, first - 1)
    return definition


def _hands_over(statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements only return variables, as pieces do, or do nothing."""
    only = statements[0]
    if len(statements) > 1 or not isinstance(only, ast.Return):
        return False
    returned = only.value.elts if isinstance(only.value, ast.Tuple) else [only.value]
    return all(each is None or isinstance(each, ast.Name | ast.Constant) for each in returned)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _can_be_cut(body: Sequence[ast.stmt]) -> bool:
    inner = [node for statement in body for node in _own(statement)]
    if any(isinstance(node, NOT_CUT) for node in inner):
        return False
    returns = [node for node in inner if isinstance(node, ast.Return)]
    return not returns or (len(returns) == 1 and returns[0] is body[-1])


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement; of inner functions only what belongs to the outer scope."""
    yield node
    if isinstance(node, INNER):
        yield from (ast.Name(name, ast.Load()) for name in sorted(_read_by(node)))
        around: list[ast.AST] = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        around += getattr(node, "decorator_list", [])
    else:
        around = list(ast.iter_child_nodes(node))
    for each in around:
        yield from _own(each)


def _read_by(function: Any) -> set[str]:
    """The names that an inner function reads and does not set itself."""
    body = function.body if isinstance(function.body, list) else [function.body]
    args = function.args
    listed = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return _names(body, ast.Load) - _names(body, ast.Store) - {a.arg for a in listed if a}


def _in_inner_functions(statements: Sequence[ast.stmt]) -> set[str]:
    inner = [n for statement in statements for n in _own(statement) if isinstance(n, INNER)]
    return {name for function in inner for name in _read_by(function)}


def _names(statements: Sequence[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    found = set()
    for node in (node for statement in statements for node in _own(statement)):
        if context is ast.Store and isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found.add(node.id)
        elif context is ast.Store and isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif context is ast.Load and isinstance(node, ast.AugAssign):
            found |= {node.target.id} if isinstance(node.target, ast.Name) else set()
    return found


def _surely_set(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that certainly have a value after these statements."""
    found: set[str] = set()
    for node in statements:
        if isinstance(
            node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Import | ast.ImportFrom
        ):
            found |= _names([node], ast.Store)
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.With):
            targets: list[Any] = [item.optional_vars for item in node.items if item.optional_vars]
            found |= _names(targets, ast.Store) | _surely_set(node.body)
    return found


def _set_before_read(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that are set by the first statement that mentions them."""
    found: set[str] = set()
    mentioned: set[str] = set()
    for node in statements:
        read = _names([node], ast.Load)
        found |= _surely_set([node]) - read - mentioned
        mentioned |= read | _names([node], ast.Store)
    return found


def _part(
    function: FunctionType,
    statements: Sequence[ast.stmt],
    declared: Sequence[Any],
    known: set[str],
    later: Sequence[ast.stmt],
    *,
    is_cut: bool,
) -> StepPart | None:
    shared = {name for node in declared for name in node.names}
    given = sorted((_names(statements, ast.Load) & known) - _set_before_read(statements) - shared)
    left = sorted((_names(statements, ast.Store) & _names(later, ast.Load)) - shared)
    if not set(left) <= _surely_set(statements) | set(given):
        return None
    returns = isinstance(statements[-1], ast.Return)
    lines = statements[0].lineno, _end(statements[-1])
    made = _compiled(function, statements, declared, given, left, returns=returns)
    return StepPart(made, tuple(given), tuple(left), returns, lines, is_cut)


def _compiled(
    function: FunctionType,
    statements: Sequence[ast.stmt],
    declared: Sequence[Any],
    given: Sequence[str],
    left: Sequence[str],
    *,
    returns: bool,
) -> FunctionType:
    """A function of these statements, with the step's globals, closure and lines."""
    code = function.__code__
    name = f"{function.__name__}_lines_{statements[0].lineno}_to_{_end(statements[-1])}"
    body: list[ast.stmt] = [*declared, *statements]
    if not returns:
        values: list[ast.expr] = [ast.Name(each, ast.Load()) for each in left]
        body.append(ast.Return(ast.Tuple(values, ast.Load())))
    inner = _function(name, given, body)
    outer = _function("outer", code.co_freevars, [inner])
    module = ast.Module([outer], [])
    ast.copy_location(inner, statements[0])
    for node in ast.walk(module):
        if "lineno" in getattr(node, "_attributes", ()) and not hasattr(node, "lineno"):
            ast.copy_location(node, statements[-1])
    compiled = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    found = next(each for each in _codes(compiled) if each.co_name == name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple([cells[each] for each in found.co_freevars])
    made = FunctionType(found, function.__globals__, name, None, closure)
    made.__module__, made.__qualname__ = function.__module__, name
    made.__dict__[DEFINITION] = inner
    return made


def _function(name: str, given: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(each) for each in given], kwonlyargs=[], kw_defaults=[],
        defaults=[],
    )  # fmt: skip
    made = ast.parse(f"def {name}(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = arguments, body
    return made


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
