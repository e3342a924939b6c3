"""Schemas of operators: `foo(Tensor x, float a=2., *, bool b=False) -> Tensor`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TYPES = frozenset({
    "Tensor", "Scalar", "int", "SymInt", "float", "SymFloat", "bool", "SymBool", "str", "complex",
    "ScalarType", "Device", "Layout", "MemoryFormat", "Generator", "Dimname", "Any", "t",
})  # fmt: skip

TOKEN = re.compile(r"\s*(->|::|\"[^\"]*\"|'[^']*'|-?\d[\w.+-]*|-inf|[A-Za-z_]\w*|[()\[\]?!*,=.|])")

BANG, OPEN, CLOSE = "!", "[", "]"


@dataclass(frozen=True)
class AliasInfo:
    """The alias set of an argument or result: those of one set share memory."""

    before_set: frozenset[str]
    is_write: bool


@dataclass(frozen=True)
class Argument:
    """One argument, or one result."""

    name: str
    base: str  # "Tensor", "int"
    suffix: str = ""  # "?", "[]", "[2]?"
    alias_info: AliasInfo | None = None
    alias_text: str = ""
    default_text: str | None = None
    default_value: Any = None
    kwarg_only: bool = False

    @property
    def type(self) -> str:
        return f"{self.base}{self.suffix}"

    @property
    def has_default(self) -> bool:
        return self.default_text is not None

    def has_default_value(self) -> bool:
        return self.has_default

    @property
    def is_tensor(self) -> bool:
        return self.base == "Tensor"

    @property
    def is_list(self) -> bool:
        return "[" in self.suffix

    @property
    def is_optional(self) -> bool:
        return self.suffix.endswith("?")

    def __str__(self) -> str:
        alias = f"({self.alias_text})" if self.alias_text else ""
        text = f"{self.base}{alias}{self.suffix}"
        text += f" {self.name}" if self.name else ""
        return text if self.default_text is None else f"{text}={self.default_text}"


@dataclass(frozen=True)
class FunctionSchema:
    """An operator's name, arguments and results."""

    name: str  # with the namespace, if any: "mine::foo"
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @property
    def is_mutable(self) -> bool:
        return any(a.alias_info is not None and a.alias_info.is_write for a in self.arguments)

    @property
    def positional(self) -> list[Argument]:
        return [a for a in self.arguments if not a.kwarg_only]

    def _is_view_op(self) -> bool:
        infos = [a.alias_info for a in self.arguments if a.alias_info is not None]
        return bool(infos) and not any(info.is_write for info in infos)

    def __str__(self) -> str:
        full = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        several = len(self.returns) != 1 or self.returns[0].name
        return f"{full}({', '.join(parts)}) -> {f'({results})' if several else results}"

    __repr__ = __str__


def parse_schema(text: str, namespace: str = "") -> FunctionSchema:
    """Parse the text of a schema."""
    return _Parser(text, namespace).schema()


class _Parser:
    def __init__(self, text: str, namespace: str) -> None:
        self.text = text
        self.namespace = namespace
        self.at = 0

    def schema(self) -> FunctionSchema:
        name = self._word()
        if self._take("::"):
            name = f"{name}::{self._word()}"
        elif self.namespace:
            name = f"{self.namespace}::{name}"
        overload = self._word() if self._take(".") else ""
        if not self._take("("):
            raise self._error("eof")
        arguments = self._arguments()
        self._need("->")
        returns = self._results()
        if self.text[self.at :].strip():
            raise self._error("eof")
        return FunctionSchema(name, overload, tuple(arguments), tuple(returns))

    def _arguments(self) -> list[Argument]:
        made: list[Argument] = []
        only = False
        while not self._take(")"):
            if made or only:
                self._need(",")
            if self._take("*"):
                only = True
                continue
            made.append(self._argument(only))
        return made

    def _results(self) -> list[Argument]:
        if not self._take("("):
            return [self._argument(False, named=False)]
        made: list[Argument] = []
        while not self._take(")"):
            if made:
                self._need(",")
            made.append(self._argument(False, named=None))
        return made

    def _argument(self, only: bool, named: bool | None = True) -> Argument:
        start = self.at
        base = self._word()
        if base not in TYPES:
            raise RuntimeError(
                "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, "
                "float, bool, Scalar; for a full list, please see "
                "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
                f":\n{self._pointed(start, base)}"
            )
        alias_text, alias = self._alias()
        suffix = self._suffix()
        name = ""
        if named or (named is None and self._peek() not in (",", ")")):
            name = self._word()
        text, value = self._default(base, suffix) if self._take("=") else (None, None)
        return Argument(name, base, suffix, alias, alias_text, text, value, only)

    def _alias(self) -> tuple[str, AliasInfo | None]:
        if self._peek() != "(":
            return "", None
        start = self.at
        self._need("(")
        names, write = set(), False
        while not self._take(")"):
            token = self._next()
            write = write or token == BANG
            if token not in ("!", "|", "->", "*"):
                names.add(token)
        text = self.text[start : self.at].strip().removeprefix("(").removesuffix(")")
        return text, AliasInfo(frozenset(names), write)

    def _suffix(self) -> str:
        made = ""
        while self._peek() in ("[", "?"):
            if self._next() == "?":
                made += "?"
                continue
            token = self._next()
            if token == CLOSE:
                made += "[]"
            else:
                self._need("]")
                made += f"[{token}]"
        return made

    def _default(self, base: str, suffix: str) -> tuple[str, Any]:
        token = self._next()
        if token == OPEN:
            values: list[Any] = []
            while not self._take("]"):
                if values:
                    self._need(",")
                values.append(_value(self._next(), base))
            return str(values), values
        value = _value(token, base)
        if isinstance(value, float) and "[" not in suffix:
            token = _float_text(value)
        elif isinstance(value, str) and token[0] in "\"'":
            token = f'"{value}"'
        return token, value

    # -- tokens ------------------------------------------------------------------------------

    def _peek(self) -> str:
        found = TOKEN.match(self.text, self.at)
        return found.group(1) if found else ""

    def _next(self) -> str:
        found = TOKEN.match(self.text, self.at)
        if found is None:
            raise self._error("a type or a name")
        self.at = found.end()
        return found.group(1)

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._next()
        return True

    def _need(self, token: str) -> None:
        if not self._take(token):
            raise self._error(token)

    def _word(self) -> str:
        token = self._peek()
        if not (token and (token[0].isalpha() or token[0] == "_")):
            raise self._error("ident")
        return self._next()

    def _error(self, wanted: str) -> RuntimeError:
        found = self._peek()
        what = "ident" if found[:1].isalpha() or found[:1] == "_" else found or "eof"
        return RuntimeError(
            f"expected {wanted} but found '{what}' here:\n{self._pointed(self.at, found)}"
        )

    def _pointed(self, at: int, token: str) -> str:
        start = at + (len(self.text[at:]) - len(self.text[at:].lstrip()))
        return f"{self.text}\n{' ' * start}{'~' * max(len(token), 1)} <--- HERE\n"


def _value(token: str, base: str) -> Any:
    constants = {"None": None, "True": True, "False": False}
    if token in constants:
        return constants[token]
    if token[0] in "\"'":
        return token[1:-1]
    if base in ("float", "SymFloat", "complex"):
        return float(token)
    for convert in (int, float):
        try:
            return convert(token)
        except ValueError:
            continue
    return token  # contiguous_format, Mean


def _float_text(value: float) -> str:
    return f"{int(value)}." if value == int(value) and abs(value) < 1e15 else repr(value)


# -- binding -----------------------------------------------------------------------------------


def bind(schema: FunctionSchema, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments as kernels receive them, by position without trailing defaults."""
    name = schema.name
    positional = schema.positional
    if len(args) > len(positional):
        raise RuntimeError(
            f"{name}() takes {len(positional)} positional argument(s) but {len(args)} was/were "
            f"given.  Declaration: {schema}"
        )
    left = dict(kwargs)
    values: list[Any] = []
    kept = 0
    named: dict[str, Any] = {}
    for place, argument in enumerate(schema.arguments):
        if not argument.kwarg_only and place < len(args):
            value, given = args[place], True
        elif argument.name in left:
            value, given = left.pop(argument.name), True
        elif argument.has_default:
            value, given = argument.default_value, False
        else:
            raise RuntimeError(
                f"{name}() is missing value for argument '{argument.name}'. Declaration: {schema}"
            )
        if given:
            value = checked(schema, place, argument, value)
        if argument.kwarg_only:
            if given:
                named[argument.name] = value
            continue
        values.append(value)
        kept = len(values) if given else kept
    for unknown in left:
        raise RuntimeError(
            f"Unknown keyword argument '{unknown}' for operator '{name}'. Schema: {schema}"
        )
    return tuple(values[:kept]), named


def fill_defaults(schema: FunctionSchema, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """All arguments, missing ones with their defaults."""
    positional = schema.positional
    full = (*args, *(a.default_value for a in positional[len(args) :]))
    only = {a.name: a.default_value for a in schema.arguments if a.kwarg_only}
    return full, {**only, **kwargs}


def checked(schema: FunctionSchema, place: int, argument: Argument, value: Any) -> Any:
    """The value converted to its type, or an error."""
    if value is None and argument.is_optional:
        return None
    if argument.is_list:
        if isinstance(value, list | tuple) and (
            all(_fits(argument.base, item) for item in value if item is not None)
        ):
            return list(value)
        if argument.suffix not in ("[]", "[]?") and _fits(argument.base, value):
            return [value] * int(re.sub(r"\D", "", argument.suffix) or 1)
    elif _fits(argument.base, value):
        return float(value) if argument.base == "float" else value
    detail = f"Unable to cast {value!r} to Tensor" if argument.is_tensor else (
        f"Unable to cast Python instance of type {type(value)} to C++ type '?'"
    )  # fmt: skip
    raise RuntimeError(
        f"{schema.name}() Expected a value of type '{argument.type}' for argument "
        f"'{argument.name}' but instead found type '{type(value).__name__}'.\n"
        f"Position: {place}\nValue: {value!r}\nDeclaration: {schema}\n"
        f"Cast error details: {detail}"
    )


def _fits(base: str, value: Any) -> bool:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

    number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds: dict[str, bool] = {
        "Tensor": isinstance(value, Tensor),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "SymInt": isinstance(value, int) and not isinstance(value, bool),
        "float": number,
        "SymFloat": number,
        "bool": isinstance(value, bool),
        "SymBool": isinstance(value, bool),
        "str": isinstance(value, str),
        "complex": isinstance(value, int | float | complex),
        "Scalar": isinstance(value, bool | int | float | complex),
    }
    return kinds.get(base, True)
