"""A very small compiler: functions over 64-bit integers, written in Python, to machine code.

# Note [A compiler of our own]
Numba could compile such functions, too; but importing it takes half a second of the program that is
recorded and leaves 45,000 objects for its garbage collector to walk through, again and again.
llvmlite, which Numba stands on, takes a tenth of that. What is left to do is little, since there is
one type: a function is a list of assignments, `if`, `while` and `return`; expressions are
arithmetic, comparisons, calls of each other and of C functions.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir

WORD, HALF, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
Function = Callable[..., int]


class External:
    """A C function over words. `half`: it returns a C int; `nothing`: it returns nothing."""

    def __init__(
        self, library: Any, name: str, arguments: int, *, half: bool = False, nothing: bool = False
    ) -> None:
        self.name = name
        returned = HALF if half else ir.VoidType() if nothing else WORD
        self.kind = ir.FunctionType(returned, [WORD] * arguments)
        self.address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value

    def __call__(self, *words: int) -> int:
        raise NotImplementedError("only compiled code can call this")


def load(address: int) -> int:
    """The word at an address."""
    raise NotImplementedError("only compiled code can do this")


def store(address: int, value: int) -> int:
    """Put a word at an address."""
    raise NotImplementedError("only compiled code can do this")


def increase(address: int, by: int) -> int:
    """Add to the word at an address, whoever else does; what was there before."""
    raise NotImplementedError("only compiled code can do this")


class Compiled:
    """Functions as machine code, with all they call."""

    def __init__(self, functions: Sequence[Function]) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.module = ir.Module("gradscope")
        self._made: dict[Any, ir.Function] = {}
        for function in functions:
            self.function(function)
        target = binding.Target.from_default_triple().create_target_machine(opt=3)
        parsed = binding.parse_assembly(str(self.module))
        builder = binding.create_pass_builder(target, binding.create_pipeline_tuning_options(3))
        builder.getModulePassManager().run(parsed, builder)
        self._engine = binding.create_mcjit_compiler(parsed, target)  # owns the code
        self._engine.finalize_object()

    def address(self, function: Function) -> int:
        """Where the code of a function is."""
        return int(self._engine.get_function_address(function.__name__))

    def function(self, called: Any) -> ir.Function:
        """A function in the module, or one of C's."""
        made = self._made.get(called)
        if made is None:
            if isinstance(called, External):
                binding.add_symbol(called.name, called.address)
                made = ir.Function(self.module, called.kind, called.name)
                self._made[called] = made
            else:
                count = called.__code__.co_argcount
                kind = ir.FunctionType(WORD, [WORD] * count)
                made = self._made[called] = ir.Function(self.module, kind, called.__name__)
                _Body(self, called, made)
        return made


class _Body:
    """Writes the code of one function. All variables live in memory; LLVM finds registers."""

    def __init__(self, compiled: Compiled, source: Function, made: ir.Function) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(source))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.compiled, self.made = compiled, made
        self.scope = source.__globals__
        self.entry = ir.IRBuilder(made.append_basic_block("entry"))
        self.code = ir.IRBuilder(made.append_basic_block("body"))
        self.places: dict[str, Any] = {}
        for argument, value in zip(tree.args.args, made.args, strict=True):
            self.code.store(value, self.place(argument.arg))
        self.block(tree.body)
        if not self.code.block.is_terminated:
            self.code.unreachable()
        self.entry.branch(made.blocks[1])

    def place(self, name: str) -> Any:
        if name not in self.places:
            self.places[name] = self.entry.alloca(WORD, name=name)
        return self.places[name]

    # -- statements -----------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, f"do_{type(statement).__name__.lower()}")(statement)

    def do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def do_assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            assert isinstance(node.value, ast.Tuple)
            values = [self.value(each) for each in node.value.elts]
            names = [each for each in target.elts if isinstance(each, ast.Name)]
        else:
            assert isinstance(target, ast.Name)
            values, names = [self.value(node.value)], [target]
        for name, value in zip(names, values, strict=True):
            self.code.store(value, self.place(name.id))

    def do_augassign(self, node: ast.AugAssign) -> None:
        assert isinstance(node.target, ast.Name)
        place = self.place(node.target.id)
        made = self.arithmetic(node.op, self.code.load(place), self.value(node.value))
        self.code.store(made, place)

    def do_return(self, node: ast.Return) -> None:
        assert node.value is not None
        self.code.ret(self.value(node.value))

    def do_if(self, node: ast.If) -> None:
        yes, no, after = (self.made.append_basic_block() for _ in range(3))
        self.code.cbranch(self.truth(node.test), yes, no)
        for start, statements in ((yes, node.body), (no, node.orelse)):
            self.code.position_at_end(start)
            self.block(statements)
            if not self.code.block.is_terminated:
                self.code.branch(after)
        self.code.position_at_end(after)

    def do_while(self, node: ast.While) -> None:
        test, body, after = (self.made.append_basic_block() for _ in range(3))
        self.code.branch(test)
        self.code.position_at_end(test)
        self.code.cbranch(self.truth(node.test), body, after)
        self.code.position_at_end(body)
        self.block(node.body)
        if not self.code.block.is_terminated:
            self.code.branch(test)
        self.code.position_at_end(after)

    # -- expressions ----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int(number)):
                return WORD(number)
            case ast.Name(id=name) if name in self.places:
                return self.code.load(self.places[name])
            case ast.Name(id=name):
                return WORD(self.scope[name])
            case ast.BinOp(left=left, op=operator, right=right):
                return self.arithmetic(operator, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.code.neg(self.value(operand))
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.chosen(self.truth(test), body, other)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(self.scope[name], [self.value(each) for each in arguments])
        return self.code.zext(self.truth(node), WORD)

    def arithmetic(self, operator: ast.operator, left: Any, right: Any) -> Any:
        code = self.code
        made = {
            ast.Add: code.add, ast.Sub: code.sub, ast.Mult: code.mul, ast.BitAnd: code.and_,
            ast.BitXor: code.xor, ast.RShift: code.ashr, ast.FloorDiv: code.sdiv,
        }  # fmt: skip
        return made[type(operator)](left, right)

    def chosen(self, test: Any, body: ast.expr, other: ast.expr) -> Any:
        place = self.entry.alloca(WORD)
        with self.code.if_else(test) as (yes, no):
            with yes:
                self.code.store(self.value(body), place)
            with no:
                self.code.store(self.value(other), place)
        return self.code.load(place)

    def truth(self, node: ast.expr) -> Any:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                symbols = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
                           ast.GtE: ">="}  # fmt: skip
                symbol = symbols[type(operator)]
                return self.code.icmp_signed(symbol, self.value(left), self.value(right))
            case ast.BoolOp(op=operator, values=[first, *others]):
                place = self.entry.alloca(BIT)
                self.code.store(self.truth(first), place)
                for other in others:
                    known = self.code.load(place)
                    wanted = known if isinstance(operator, ast.And) else self.code.not_(known)
                    with self.code.if_then(wanted):
                        self.code.store(self.truth(other), place)
                return self.code.load(place)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.code.not_(self.truth(operand))
        return self.code.icmp_signed("!=", self.value(node), WORD(0))

    def call(self, called: Any, given: list[Any]) -> Any:
        if called is load or called is store:
            address = self.code.inttoptr(given[0], WORD.as_pointer())
            if called is load:
                return self.code.load(address)
            self.code.store(given[1], address)
            return WORD(0)
        if called is increase:
            place = self.code.inttoptr(given[0], WORD.as_pointer())
            return self.code.atomic_rmw("add", place, given[1], "monotonic")
        made = self.code.call(self.compiled.function(called), given)
        if made.type == WORD:
            return made
        return self.code.sext(made, WORD) if made.type == HALF else WORD(0)
