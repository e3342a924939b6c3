"""Translates functions of the small language to LLVM IR. See Note [A compiler of our own] there."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from gradscope.machine_code.language import (
    Address,
    External,
    Function,
    increase,
    invoke,
    load,
    store,
)

WORD, HALF, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
RETURNED = {"word": WORD, "half": HALF, "nothing": ir.VoidType()}


class MachineModule:
    """Functions with all functions that they call."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.module = ir.Module("gradscope")
        self._made: dict[Any, Any] = {}
        for function in functions:
            self.function(function)

    def text(self) -> str:
        return str(self.module)

    def place(self, address: Address) -> Any:
        """The value of an address, as a word."""
        made = self._made.get(address.named)
        if made is None:
            made = self._made[address.named] = ir.GlobalVariable(self.module, WORD, address.named)
        return made.ptrtoint(WORD).add(WORD(address.behind))

    def function(self, called: Any) -> ir.Function:
        """A function of the module, or a C function."""
        made = self._made.get(called)
        if made is None:
            if isinstance(called, External):
                kind = ir.FunctionType(RETURNED[called.returns], [WORD] * called.arguments)
                made = self._made[called] = ir.Function(self.module, kind, called.name)
            else:
                count = called.__code__.co_argcount
                kind = ir.FunctionType(WORD, [WORD] * count)
                made = self._made[called] = ir.Function(self.module, kind, called.__name__)
                _Body(self, called, made)
        return made


class _Body:
    """Writes the code of one function. All variables are in memory; LLVM assigns registers."""

    def __init__(self, compiled: MachineModule, source: Function, made: ir.Function) -> None:
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
                value = self.scope[name]
                return self.compiled.place(value) if type(value) is Address else WORD(value)
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
            return self.code.atomic_rmw("add", place, given[1], "acq_rel")
        if called is invoke:
            kind = ir.FunctionType(ir.VoidType(), [WORD] * (len(given) - 1))
            self.code.call(self.code.inttoptr(given[0], kind.as_pointer()), given[1:])
            return WORD(0)
        last = isinstance(called, External) and called.last
        made = self.code.call(
            self.compiled.function(called), given, tail="musttail" if last else False
        )
        if made.type == WORD:
            return made
        return self.code.sext(made, WORD) if made.type == HALF else WORD(0)
