"""Loops that LLVM compiles without numba, in a tenth of the time.

Numba spends most of its time on finding out what a program may mean. The loops that are handed over
here say it plainly: they compute with whole numbers of 64 bits, floating point and truth values,
make arrays, read and write single numbers of them, and call functions that do so, too. Each is read
as it is written, gets the kinds of its variables from what is assigned to them, and is written down
in LLVM's language, one line an operation. What they give is what numba would: whole numbers run
over, sums are added up in the order in which they are written, negative indices count from the end.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import hashlib
import math
import os
import re
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np


class UntranslatableError(Exception):
    """A loop, or a computer, that this module was not written for; numba may know it."""


class Array(NamedTuple):
    """An array whose rows lie one after the other, or its columns where it is turned."""

    dtype: str
    axes: int
    turned: bool = False


class Record(NamedTuple):
    """A tuple with names, handed on as the place where its items lie."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]


class Several(NamedTuple):
    """Values that a function returns together, or the shape of an array."""

    kinds: tuple[Kind, ...]


WHOLE, UNSIGNED, FLOAT, TRUTH = "i64", "u64", "double", "i1"
_BACK = 24
"""Most numbers that are returned to Python; an array is told by where it lies and its sizes."""
_HEADER = 160
"""Bytes before compiled code that say what it returns."""
_SHORT, _LONG = 80, 300
"""Lines below which a function is put in the place of calls, and where there is only one."""
Kind = str | Array | Record | Several
"""One of the four kinds of numbers, or of what is made of them."""

_STORED = {
    "int64": ("i64", WHOLE),
    "int32": ("i32", WHOLE),
    "int16": ("i16", WHOLE),
    "int8": ("i8", WHOLE),
    "uint32": ("i32", WHOLE),
    "uint16": ("i16", WHOLE),
    "uint8": ("i8", WHOLE),
    "uint64": ("i64", UNSIGNED),
    "float64": ("double", FLOAT),
    "bool": ("i8", TRUTH),
}
"""How LLVM holds a number of an array, and what is computed with."""


_KINDS = {(np.dtype(name), axes): Array(name, axes) for name in _STORED for axes in (1, 2, 3)}


class _Value(NamedTuple):
    """What an expression gives: its kind, and the names or numbers LLVM knows its parts by."""

    kind: Kind
    parts: tuple[str, ...]

    @property
    def one(self) -> str:
        """The only part."""
        return self.parts[0]

    @property
    def literal(self) -> bool:
        """Whether it is a whole number that is written down."""
        return self.kind == WHOLE and self.one.lstrip("-").isdigit()


class _Place(NamedTuple):
    """A number of an array."""

    dtype: str
    pointer: str


def _parts(kind: Kind) -> list[str]:
    """LLVM's types of what a value is handed on as."""
    match kind:
        case str():
            return ["i64" if kind == UNSIGNED else kind]
        case Array():
            return ["ptr"] + ["i64"] * kind.axes
        case Record():
            return ["ptr"]
    return [part for one in kind.kinds for part in _parts(one)]


def _size(kind: Kind) -> int:
    """Numbers of 64 bits that hold a value between Python and LLVM."""
    return sum(map(_size, kind.kinds)) if isinstance(kind, Record) else len(_parts(kind))


def _both(one: Kind | None, other: Kind | None) -> Kind | None:
    """The kind that holds values of two kinds."""
    if one is None or other is None or one == other:
        return one or other
    if isinstance(one, Several) and isinstance(other, Several):
        pairs = zip(one.kinds, other.kinds, strict=True)
        return Several(tuple(_known(_both(*pair)) for pair in pairs))
    kinds = {one, other}
    if FLOAT in kinds and kinds <= {WHOLE, UNSIGNED, TRUTH, FLOAT}:
        return FLOAT
    if kinds == {WHOLE, TRUTH}:
        return WHOLE
    raise UntranslatableError(f"{one} or {other}")


def _known(kind: Kind | None) -> Kind:
    if kind is None:
        raise UntranslatableError("nothing is given")
    return kind


@cache
def _functions(file: str) -> dict[str, ast.FunctionDef]:
    """The functions of a file as they are written."""
    found = ast.parse(Path(file).read_bytes()).body
    return {one.name: one for one in found if isinstance(one, ast.FunctionDef)}


_SIMPLE = {
    ast.Add: ("add", "fadd"),
    ast.Sub: ("sub", "fsub"),
    ast.Mult: ("mul", "fmul"),
    ast.BitAnd: ("and", ""),
    ast.BitOr: ("or", ""),
    ast.BitXor: ("xor", ""),
    ast.LShift: ("shl", ""),
}
_COMPARED = {
    ast.Eq: ("eq", "eq", "oeq"),
    ast.NotEq: ("ne", "ne", "une"),
    ast.Lt: ("slt", "ult", "olt"),
    ast.LtE: ("sle", "ule", "ole"),
    ast.Gt: ("sgt", "ugt", "ogt"),
    ast.GtE: ("sge", "uge", "oge"),
}
_CONVERTED = {
    (WHOLE, FLOAT): "sitofp i64 {} to double",
    (UNSIGNED, FLOAT): "uitofp i64 {} to double",
    (TRUTH, FLOAT): "uitofp i1 {} to double",
    (TRUTH, WHOLE): "zext i1 {} to i64",
    (WHOLE, TRUTH): "icmp ne i64 {}, 0",
    (UNSIGNED, TRUTH): "icmp ne i64 {}, 0",
    (FLOAT, TRUTH): "fcmp une double {}, 0.0",
}
_OF_FLOATS = {math.log: "log", math.log2: "log2", math.sqrt: "llvm.sqrt.f64", abs: "llvm.fabs.f64"}
_DECLARED = """
declare double @log(double)
declare double @log2(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
declare noalias ptr @PyMem_RawCalloc(i64, i64)
declare void @PyMem_RawFree(ptr)
define internal fastcc ptr @allocate(ptr %heap, i64 %many, i64 %size) nounwind {
  %bytes = mul i64 %many, %size
  %whole = add i64 %bytes, 16
  %block = call ptr @PyMem_RawCalloc(i64 1, i64 %whole)
  %before = load ptr, ptr %heap
  store ptr %before, ptr %block
  store ptr %block, ptr %heap
  %own = getelementptr inbounds i8, ptr %block, i64 16
  ret ptr %own
}
define internal fastcc void @release(ptr %heap, ptr %mark) nounwind {
  br label %next
next:
  %block = load ptr, ptr %heap
  %done = icmp eq ptr %block, %mark
  br i1 %done, label %end, label %more
more:
  %before = load ptr, ptr %block
  store ptr %before, ptr %heap
  call void @PyMem_RawFree(ptr %block)
  br label %next
end:
  ret void
}
!0 = !{}
!1 = !{!"numbers"}
"""
_WAY_OUT = """
define void @leave(ptr %made) {
  %heap = alloca ptr
  store ptr %made, ptr %heap
  call fastcc void @release(ptr %heap, ptr null)
  ret void
}
"""
# arrays of different types never share memory, and what a record says of its items never changes
_ALIASES = {name: 2 + 2 * at for at, name in enumerate(_STORED)}


class _Module:
    """Functions for arguments of some kinds, and all that these call."""

    def __init__(self) -> None:
        self._lines = [_DECLARED]
        for name, at in _ALIASES.items():
            self._lines.append(f"!{at} = !{{!{at + 1}, !{at + 1}, i64 0}}")
            self._lines.append(f'!{at + 1} = !{{!"{name}", !1, i64 0}}')
        self._made: dict[Any, tuple[str, Kind | None] | None] = {}
        self._sizes: dict[str, int] = {}

    def function(self, function: Any, kinds: tuple[Kind, ...]) -> tuple[str, Kind | None]:
        """The name of a function for such arguments, and the kind of what it returns."""
        if (function, kinds) not in self._made:
            self._made[function, kinds] = None
            name = f"{function.__name__}.{len(self._made)}"
            one = _Function(self, function, kinds)
            written = one.written(name)
            self._lines += written
            self._sizes[name] = len(written)
            self._made[function, kinds] = name, one.returned
        found = self._made[function, kinds]
        if found is None:
            raise UntranslatableError(f"{function.__name__} calls itself")
        return found

    def whole(self, function: Any, kinds: tuple[Kind, ...]) -> tuple[str, str]:
        """All of it, with a way in from Python, and what it returns: see `_Code`."""
        name, returned = self.function(function, kinds)
        lines = ["%heap = alloca ptr", "store ptr null, ptr %heap"]
        passed, at = ["ptr %heap"], 0
        for kind in kinds:
            for offset, part in enumerate(_parts(kind), at):
                place = f"%p{len(lines)}"
                lines.append(f"{place} = getelementptr inbounds i64, ptr %given, i64 {offset}")
                if isinstance(kind, Record):
                    passed.append(f"ptr {place}")
                else:
                    lines.append(f"%q{offset} = load {part}, ptr {place}")
                    passed.append(f"{part} %q{offset}")
            at += _size(kind)
        back = "void" if returned is None else _together(returned)
        call = f"call fastcc {back} @{name}({', '.join(passed)})"
        lines += [call] if returned is None else [f"%r = {call}", f"store {back} %r, ptr %back"]
        single = returned.kinds if isinstance(returned, Several) else (returned,)
        if returned is not None and (
            TRUTH in single[1:]
            or len(_parts(returned)) >= _BACK
            or not all(isinstance(one, str | Array) for one in single)
            or any(isinstance(one, Array) and one.turned for one in single)
        ):
            raise UntranslatableError("what is returned to Python")
        told = [_told(one) for one in single if one is not None]
        if _has_arrays(returned):  # they are given back when they have been copied
            kept = f"getelementptr inbounds i64, ptr %back, i64 {_BACK - 1}"
            lines += ["%made = load ptr, ptr %heap", f"%kept = {kept}"]
            lines.append("store ptr %made, ptr %kept")
        else:
            lines.append("call fastcc void @release(ptr %heap, ptr null)")
        way_in = ["define void @enter(ptr %given, ptr %back) {", *lines, "ret void", "}"]
        return "\n".join([*self._lines, *way_in, _WAY_OUT, *self._attributes()]), " ".join(told)

    def _attributes(self) -> Iterator[str]:
        """What LLVM is told of each function: to put it in the place of calls, or not."""
        named = Counter(re.findall(r"@([\w.]+)\(", "\n".join(self._lines)))
        for name, lines in self._sizes.items():
            within = lines < _SHORT or (lines < _LONG and named[name] == 2)  # its head, and a call
            how = "alwaysinline nounwind" if within else "nounwind"
            yield f"attributes #{name.rpartition('.')[2]} = {{ {how} }}"


class _Function:
    """A function for arguments of some kinds.

    It is written down again until the kinds of all variables are known: a variable that is a whole
    number at first may turn out to be floating point further down.
    """

    returned: Kind | None = None
    allocates = False
    """Whether it makes arrays, or gets some that another made."""

    def __init__(self, module: _Module, function: Any, kinds: tuple[Kind, ...]) -> None:
        self._module = module
        self._scope = function.__globals__
        self._local = frozenset(function.__code__.co_varnames)
        self._node = _functions(function.__code__.co_filename)[function.__name__]
        names = [one.arg for one in self._node.args.args]
        self._given = dict(zip(names, kinds, strict=True))
        self._kinds: dict[str, Kind] = dict(self._given)
        self._once = self._assigned_once()

    def _assigned_once(self) -> set[str]:
        """Variables that get their value before all that may be repeated or passed over."""
        stored = Counter(
            one.id
            for one in ast.walk(self._node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        )
        first = {
            one.id
            for line in self._node.body
            if isinstance(line, ast.Assign)
            for target in line.targets
            for one in ast.walk(target)
            if isinstance(one, ast.Name) and stored[one.id] == 1
        }
        given = self._given.keys()
        return (first - given) | {name for name in given if not stored[name]}

    def written(self, name: str) -> list[str]:
        """Its lines."""
        self._again = True
        while self._again:
            self._again, allocated = False, self.allocates
            self._lines: list[str] = []
            self._room: list[str] = []
            self._slots: dict[str, list[str]] = {}
            self._values: dict[str, _Value] = {}
            self._loops: list[tuple[str, str]] = []
            self._numbers = 0
            for argument, kind in self._given.items():
                own = tuple(f"%a.{argument}.{at}" for at in range(len(_parts(kind))))
                self._assign(argument, _Value(kind, own))
            self._block(self._node.body)
            self._return(None)
            self._again |= self.allocates != allocated
        given = "".join(
            f", {part} %a.{argument}.{at}"
            for argument, kind in self._given.items()
            for at, part in enumerate(_parts(kind))
        )
        number = name.rpartition(".")[2]  # that of what LLVM is told of it
        head = f"define internal fastcc {self._back()} @{name}(ptr %heap{given}) #{number} {{"
        mark = ["%mark = load ptr, ptr %heap"] if self._gives_back else []
        return [head, *mark, *self._room, *self._lines, "}"]

    @property
    def _gives_back(self) -> bool:
        """Whether its arrays go when it ends; those that it returns go with whoever called it."""
        return self.allocates and not _has_arrays(self.returned)

    def _back(self) -> str:
        """LLVM's type of what it returns."""
        return "void" if self.returned is None else _together(self.returned)

    def _new(self, operation: str) -> str:
        """A line that computes something; the name of what it gives."""
        self._numbers += 1
        self._lines.append(f"%v{self._numbers} = {operation}")
        return f"%v{self._numbers}"

    def _label(self) -> str:
        self._numbers += 1
        return f"b{self._numbers}"

    def _go_to(self, label: str) -> None:
        self._lines.append(f"br label %{label}")

    def _here(self, label: str) -> None:
        self._lines.append(f"{label}:")

    def _slot(self, name: str) -> list[str]:
        """Where the parts of a variable lie; LLVM makes names of them again."""
        if name not in self._slots:
            at = len(self._slots)
            parts = _parts(self._kinds[name])
            self._slots[name] = [f"%s{at}.{part}" for part in range(len(parts))]
            self._room += [
                f"{slot} = alloca {part}"
                for slot, part in zip(self._slots[name], parts, strict=True)
            ]
        return self._slots[name]

    def _assign(self, name: str, value: _Value) -> None:
        before = self._kinds.get(name)
        self._kinds[name] = kind = _known(_both(before, value.kind))
        self._again |= before not in (None, kind)
        value = self._as(value, kind)
        if name in self._once:
            self._values[name] = value
            return
        for part, slot, own in zip(_parts(kind), self._slot(name), value.parts, strict=False):
            self._lines.append(f"store {part} {own}, ptr {slot}")

    def _variable(self, name: str) -> _Value:
        if name in self._values:
            return self._values[name]
        if name not in self._kinds:
            raise UntranslatableError(f"{name} is not known yet")
        kind = self._kinds[name]
        slots = zip(_parts(kind), self._slot(name), strict=False)
        return _Value(kind, tuple(self._new(f"load {part}, ptr {slot}") for part, slot in slots))

    def _as(self, value: _Value, kind: Kind) -> _Value:
        """The same as another kind."""
        if value.kind == kind:
            return value
        if isinstance(kind, Several) and isinstance(value.kind, Several):
            pairs = zip(_each(value), kind.kinds, strict=True)
            return _several([self._as(*pair) for pair in pairs])
        if value.literal and kind == UNSIGNED:
            return _Value(kind, value.parts)
        how = _CONVERTED.get((value.kind, kind))  # type: ignore[arg-type]
        if how is None:
            raise UntranslatableError(f"{value.kind} as {kind}")
        return _Value(kind, (self._new(how.format(value.one)),))

    def _return(self, value: _Value | None) -> None:
        if self._gives_back:
            self._lines.append("call fastcc void @release(ptr %heap, ptr %mark)")
        if value is None:
            self._lines.append("ret void" if self.returned is None else "unreachable")
            return
        before, self.returned = self.returned, _known(_both(self.returned, value.kind))
        self._again |= before not in (None, self.returned)
        value, back = self._as(value, self.returned), self._back()
        made = value.one
        if len(value.parts) > 1:
            made = "undef"
            for at, part in enumerate(_parts(self.returned)):
                made = self._new(f"insertvalue {back} {made}, {part} {value.parts[at]}, {at}")
        self._lines.append(f"ret {back} {made}")

    # what is done

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for one in statements:
            self._statement(one)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Call() as call):
                self._call(call)
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case ast.Return(given):
                self._return(None if given is None else self._value(given))
                self._here(self._label())
            case ast.Break():
                self._go_to(self._loops[-1][1])
                self._here(self._label())
            case ast.Continue():
                self._go_to(self._loops[-1][0])
                self._here(self._label())
            case ast.Assign(targets, assigned):
                value = self._value(assigned)
                for target in targets:
                    self._store(target, value)
            case ast.AugAssign(ast.Name(name), op, more):
                self._assign(name, self._binary(op, self._variable(name), self._value(more)))
            case ast.AugAssign(ast.Subscript() as item, op, more):
                place = self._place(item)
                self._put(place, self._binary(op, self._get(place), self._value(more)))
            case ast.If(test, body, other):
                yes, no, end = self._label(), self._label(), self._label()
                self._branch(test, yes, no)
                for label, block in ((yes, body), (no, other)):
                    self._here(label)
                    self._block(block)
                    self._go_to(end)
                self._here(end)
            case ast.While(test, body, []):
                top, inside, end = self._label(), self._label(), self._label()
                self._go_to(top)
                self._here(top)
                self._branch(test, inside, end)
                self._here(inside)
                self._loop(body, top, end)
                self._go_to(top)
                self._here(end)
            case ast.For(orelse=[]):
                self._for(node)
            case _:
                raise UntranslatableError(ast.unparse(node))

    def _loop(self, body: Sequence[ast.stmt], following: str, end: str) -> None:
        self._loops.append((following, end))
        self._block(body)
        self._loops.pop()

    def _for(self, node: ast.For) -> None:
        start, step, array = _whole(0), _whole(1), None
        match node.iter:
            case ast.Call(ast.Name("range"), given):
                values = [self._as(self._value(one), WHOLE) for one in given]
                stop = values[0] if len(values) == 1 else values[1]
                start = start if len(values) == 1 else values[0]
                step = values[2] if len(values) == 3 else step
            case _:
                array = self._value(node.iter)
                stop = _Value(WHOLE, array.parts[1:2])
        with self._counted(start, stop, step) as (at, following, end):
            self._store(node.target, at if array is None else self._got(self._at(array, [at])))
            self._loop(node.body, following, end)

    def _fill(self, array: _Value, value: _Value) -> None:
        """Write the same number everywhere in an array of one axis."""
        with self._counted(_whole(0), _Value(WHOLE, array.parts[1:2]), _whole(1)) as (at, *_):
            place = self._at(array, [at])
            if not isinstance(place, _Place):
                raise UntranslatableError("part of an array")
            self._put(place, value)

    @contextmanager
    def _counted(
        self, start: _Value, stop: _Value, step: _Value
    ) -> Iterator[tuple[_Value, str, str]]:
        """Do something again and again: its number, where the next time begins, and the end."""
        top, inside, following, end = (self._label() for _ in range(4))
        own = f"of {top}"
        self._assign(own, start)
        self._go_to(top)
        self._here(top)
        at = self._variable(own)
        more = self._new(f"icmp slt i64 {at.one}, {stop.one}")
        if not step.literal or step.one.startswith("-"):
            above = self._new(f"icmp sgt i64 {at.one}, {stop.one}")
            up = self._new(f"icmp sgt i64 {step.one}, 0")
            more = self._new(f"select i1 {up}, i1 {more}, i1 {above}")
        self._lines.append(f"br i1 {more}, label %{inside}, label %{end}")
        self._here(inside)
        yield at, following, end
        self._go_to(following)
        self._here(following)
        at = self._variable(own)
        self._assign(own, _Value(WHOLE, (self._new(f"add nsw i64 {at.one}, {step.one}"),)))
        self._go_to(top)
        self._here(end)

    def _store(self, target: ast.expr, value: _Value) -> None:
        match target:
            case ast.Name(name):
                self._assign(name, value)
            case ast.Tuple(targets):
                for one, own in zip(targets, _each(value), strict=True):
                    self._store(one, own)
            case ast.Subscript(array, ast.Slice(low, high, None)):
                self._fill(self._slice(self._value(array), low, high), value)
            case ast.Subscript():
                self._put(self._place(target), value)
            case _:
                raise UntranslatableError(ast.unparse(target))

    # numbers of arrays

    def _at(self, array: _Value, index: Sequence[_Value]) -> _Place | _Value:
        """A number of an array; or a row, where some axes are left."""
        kind = array.kind
        if not isinstance(kind, Array) or len(index) > kind.axes:
            raise UntranslatableError("what is no array has no numbers")
        data, *sizes = array.parts
        if kind.turned:
            if len(index) < kind.axes:
                raise UntranslatableError("a row whose numbers lie apart")
            index, sizes = index[::-1], sizes[::-1]
        where = "0"
        for axis, size in enumerate(sizes):
            if axis:
                where = self._new(f"mul nsw i64 {where}, {size}")
            if axis < len(index):
                own = self._from_the_start(index[axis], size)
                where = self._new(f"add nsw i64 {where}, {own}")
        pointer = self._new(
            f"getelementptr inbounds {_STORED[kind.dtype][0]}, ptr {data}, i64 {where}"
        )
        if left := kind.axes - len(index):
            return _Value(Array(kind.dtype, left), (pointer, *sizes[-left:]))
        return _Place(kind.dtype, pointer)

    def _from_the_start(self, index: _Value, size: str) -> str:
        """An index, where negative ones count from the end of an axis."""
        if index.kind == UNSIGNED or (index.literal and not index.one.startswith("-")):
            return index.one
        own = self._as(index, WHOLE).one
        negative = self._new(f"icmp slt i64 {own}, 0")
        other = self._new(f"add i64 {own}, {size}")
        return self._new(f"select i1 {negative}, i64 {other}, i64 {own}")

    def _place(self, node: ast.Subscript) -> _Place:
        found = self._item(node)
        if isinstance(found, _Place):
            return found
        raise UntranslatableError(ast.unparse(node))

    def _item(self, node: ast.Subscript) -> _Place | _Value:
        array = self._value(node.value)
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self._at(array, [self._value(one) for one in index])

    def _got(self, item: _Place | _Value) -> _Value:
        return self._get(item) if isinstance(item, _Place) else item

    def _get(self, place: _Place) -> _Value:
        stored, kind = _STORED[place.dtype]
        own = self._new(f"load {stored}, ptr {place.pointer}, !tbaa !{_ALIASES[place.dtype]}")
        if kind == TRUTH:
            own = self._new(f"icmp ne i8 {own}, 0")
        elif stored != _parts(kind)[0]:
            widened = "zext" if place.dtype.startswith("u") else "sext"
            own = self._new(f"{widened} {stored} {own} to i64")
        return _Value(kind, (own,))

    def _put(self, place: _Place, value: _Value) -> None:
        stored, kind = _STORED[place.dtype]
        whole = (WHOLE, UNSIGNED)
        own = value.one if value.kind in whole and kind in whole else self._as(value, kind).one
        if kind == TRUTH:
            own = self._new(f"zext i1 {own} to i8")
        elif stored != _parts(kind)[0]:
            own = self._new(f"trunc i64 {own} to {stored}")
        alias = _ALIASES[place.dtype]
        self._lines.append(f"store {stored} {own}, ptr {place.pointer}, !tbaa !{alias}")

    # what is computed

    def _branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Go to one of two places."""
        match node:
            case ast.BoolOp(op, values):
                for one in values[:-1]:
                    middle = self._label()
                    both = isinstance(op, ast.And)
                    self._branch(one, middle if both else yes, no if both else middle)
                    self._here(middle)
                self._branch(values[-1], yes, no)
            case ast.UnaryOp(ast.Not(), operand):
                self._branch(operand, no, yes)
            case _:
                test = self._as(self._value(node), TRUTH)
                self._lines.append(f"br i1 {test.one}, label %{yes}, label %{no}")

    def _value(self, node: ast.expr) -> _Value:
        found = self._meant(node)
        if isinstance(found, int | float | np.number | np.bool_):
            return _written_down(found)
        match node:
            case ast.Name(name):
                return self._variable(name)
            case ast.Tuple(items):
                return _several([self._value(one) for one in items])
            case ast.Attribute(of, name):
                return self._attribute(self._value(of), name)
            case ast.Subscript(array, ast.Slice(low, high, None)):
                return self._slice(self._value(array), low, high)
            case ast.Subscript(array, ast.Tuple([*index, ast.Slice(low, high, None)])):
                row = self._at(self._value(array), [self._value(one) for one in index])
                if not isinstance(row, _Value):
                    raise UntranslatableError(ast.unparse(node))
                return self._slice(row, low, high)
            case ast.Subscript(ast.Attribute(_, "shape") as shape, ast.Constant(int(axis))):
                return _Value(WHOLE, (self._value(shape).parts[axis],))
            case ast.Subscript():
                return self._got(self._item(node))
            case ast.BoolOp() | ast.UnaryOp(ast.Not()):
                truths = ast.Constant(True), ast.Constant(False)
                return self._either(node, node, *truths)
            case ast.IfExp(test, yes, no):
                return self._either(node, test, yes, no)
            case ast.UnaryOp(ast.Invert(), operand):
                value = self._value(operand)
                return _Value(value.kind, (self._new(f"xor i64 {value.one}, -1"),))
            case ast.UnaryOp(ast.USub(), operand):
                value = self._value(operand)
                negated = "fneg double" if value.kind == FLOAT else "sub i64 0,"
                return _Value(value.kind, (self._new(f"{negated} {value.one}"),))
            case ast.BinOp(left, op, right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.Compare(first, [ast.In()], [ast.Tuple(items)]):
                given, whole = self._value(first), "false"
                for one in items:
                    equal = self._compared(ast.Eq(), given, self._value(one))
                    whole = self._new(f"or i1 {whole}, {equal}")
                return _Value(TRUTH, (whole,))
            case ast.Compare(first, ops, others):
                values = [self._value(one) for one in (first, *others)]
                found = [self._compared(*one) for one in zip(ops, values, values[1:], strict=False)]
                whole = found[0]
                for one in found[1:]:
                    whole = self._new(f"and i1 {whole}, {one}")
                return _Value(TRUTH, (whole,))
            case ast.Call():
                called = self._call(node)
                if called is not None:
                    return called
        raise UntranslatableError(ast.unparse(node))

    def _meant(self, node: ast.expr) -> Any:
        """What an expression means that names no variable; None where it does."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name) if name not in self._local:
                return self._scope.get(name, getattr(builtins, name, None))
            case ast.Attribute(of, name):
                return getattr(self._meant(of), name, None)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return -value
            case ast.BinOp(ast.Constant(int() | float() as base), ast.Pow(), power):
                exponent = self._meant(power)
                return None if exponent is None else base**exponent
        return None

    def _attribute(self, value: _Value, name: str) -> _Value:
        kind = value.kind
        if isinstance(kind, Array) and name == "shape":
            return _Value(Several((WHOLE,) * kind.axes), value.parts[1:])
        if isinstance(kind, Array) and name == "T":
            turned = kind._replace(turned=not kind.turned)
            return _Value(turned, (value.parts[0], *value.parts[:0:-1]))
        if not isinstance(kind, Record) or name not in kind.names:
            raise UntranslatableError(name)
        at = kind.names.index(name)
        own, first = kind.kinds[at], sum(map(_size, kind.kinds[:at]))
        parts = []
        for place, part in enumerate(_parts(own), first):
            parts.append(self._new(f"getelementptr inbounds i64, ptr {value.one}, i64 {place}"))
            if not isinstance(own, Record):
                parts[-1] = self._new(f"load {part}, ptr {parts[-1]}, !invariant.load !0")
        return _Value(own, tuple(parts))

    def _slice(self, array: _Value, low: ast.expr | None, high: ast.expr | None) -> _Value:
        """From one place of an array's first axis to before another; both are in it.

        Or some items of a record.
        """
        if isinstance(array.kind, Record):
            bounds = (None if one is None else self._meant(one) for one in (low, high))
            return _several([self._attribute(array, x) for x in array.kind.names[slice(*bounds)]])
        if not isinstance(array.kind, Array) or array.kind.turned:
            raise UntranslatableError("part of what is no array, or of rows that lie apart")
        first = _whole(0) if low is None else self._as(self._value(low), WHOLE)
        end = array.parts[1] if high is None else self._as(self._value(high), WHOLE).one
        place = self._at(array, [first])
        pointer = place.pointer if isinstance(place, _Place) else place.parts[0]
        many = self._new(f"sub i64 {end}, {first.one}")
        return _Value(array.kind, (pointer, many, *array.parts[2:]))

    def _either(self, node: ast.expr, test: ast.expr, *values: ast.expr) -> _Value:
        """One of two values."""
        yes, no, end = self._label(), self._label(), self._label()
        self._branch(test, yes, no)
        own = _hidden(node)
        for label, value in zip((yes, no), values, strict=True):
            self._here(label)
            self._assign(own, self._value(value))
            self._go_to(end)
        self._here(end)
        return self._variable(own)

    def _alike(self, one: _Value, other: _Value) -> tuple[Kind, str, str]:
        """Two values as one kind."""
        if UNSIGNED in (one.kind, other.kind) and (one.literal or other.literal):
            kind: Kind = UNSIGNED
        else:
            kind = _known(_both(one.kind, other.kind))
        return kind, self._as(one, kind).one, self._as(other, kind).one

    def _compared(self, op: ast.cmpop, one: _Value, other: _Value) -> str:
        kind, left, right = self._alike(one, other)
        how = _COMPARED.get(type(op))
        if how is None:
            raise UntranslatableError(type(op).__name__)
        if kind == FLOAT:
            return self._new(f"fcmp {how[2]} double {left}, {right}")
        return self._new(f"icmp {how[kind == UNSIGNED]} {_parts(kind)[0]} {left}, {right}")

    def _binary(self, op: ast.operator, one: _Value, other: _Value) -> _Value:
        if isinstance(op, ast.Div):
            one, other = self._as(one, FLOAT), self._as(other, FLOAT)
            return _Value(FLOAT, (self._new(f"fdiv double {one.one}, {other.one}"),))
        if one.kind == other.kind == TRUTH:
            one = self._as(one, WHOLE)
        kind, left, right = self._alike(one, other)
        simple = _SIMPLE.get(type(op), ("", ""))[kind == FLOAT]
        if isinstance(op, ast.RShift) and kind != FLOAT:
            simple = "lshr" if kind == UNSIGNED else "ashr"
        if simple:
            return _Value(kind, (self._new(f"{simple} {_parts(kind)[0]} {left}, {right}"),))
        if kind != WHOLE or not isinstance(op, ast.FloorDiv | ast.Mod):
            raise UntranslatableError(type(op).__name__)
        rest = self._new(f"srem i64 {left}, {right}")
        apart = self._new(f"icmp slt i64 {self._new(f'xor i64 {rest}, {right}')}, 0")
        some = self._new(f"icmp ne i64 {rest}, 0")
        below = self._new(f"and i1 {some}, {apart}")  # rounded up, and not down
        if isinstance(op, ast.Mod):
            more = self._new(f"select i1 {below}, i64 {right}, i64 0")
            return _Value(kind, (self._new(f"add i64 {rest}, {more}"),))
        times, less = self._new(f"sdiv i64 {left}, {right}"), self._new(f"zext i1 {below} to i64")
        return _Value(kind, (self._new(f"sub i64 {times}, {less}"),))

    def _call(self, node: ast.Call) -> _Value | None:
        called = self._meant(node.func)
        if called in (np.zeros, np.empty, np.full):
            return self._array(node, int(called is np.full))
        given = [self._value(one) for one in node.args]
        if hasattr(called, "py_func"):
            return self._call_loop(called.py_func, given)
        if called in (min, max):
            best = given[0]
            for one in given[1:]:
                best = self._better(ast.Lt() if called is min else ast.Gt(), best, one)
            return best
        if called is len and isinstance(given[0].kind, Array):
            return _Value(WHOLE, given[0].parts[1:2])
        if called in _OF_FLOATS:
            own = self._as(given[0], FLOAT).one
            return _Value(FLOAT, (self._new(f"call double @{_OF_FLOATS[called]}(double {own})"),))
        if called in (int, np.int64) and given[0].kind == FLOAT:
            return _Value(WHOLE, (self._new(f"fptosi double {given[0].one} to i64"),))
        if called in (int, np.int64, np.uint64) and given[0].kind in (WHOLE, UNSIGNED):
            return _Value(UNSIGNED if called is np.uint64 else WHOLE, given[0].parts)
        wanted = {int: WHOLE, np.int64: WHOLE, float: FLOAT, np.float64: FLOAT, bool: TRUTH}
        if called in wanted:
            return self._as(given[0], wanted[called])
        raise UntranslatableError(ast.unparse(node))

    def _better(self, op: ast.cmpop, one: _Value, other: _Value) -> _Value:
        """The first of two values, unless the other is smaller, or larger."""
        kind, left, right = self._alike(one, other)
        better = self._compared(op, _Value(kind, (right,)), _Value(kind, (left,)))
        part = _parts(kind)[0]
        return _Value(kind, (self._new(f"select i1 {better}, {part} {right}, {part} {left}"),))

    def _call_loop(self, function: Any, given: Sequence[_Value]) -> _Value | None:
        name, kind = self._module.function(function, tuple(one.kind for one in given))
        self.allocates |= _has_arrays(kind)
        passed = "ptr %heap" + "".join(
            f", {part} {own}"
            for one in given
            for part, own in zip(_parts(one.kind), one.parts, strict=True)
        )
        if kind is None:
            self._lines.append(f"call fastcc void @{name}({passed})")
            return None
        back, many = _together(kind), len(_parts(kind))
        whole = self._new(f"call fastcc {back} @{name}({passed})")
        if many == 1:
            return _Value(kind, (whole,))
        parts = (self._new(f"extractvalue {back} {whole}, {at}") for at in range(many))
        return _Value(kind, tuple(parts))

    def _array(self, node: ast.Call, filled: int) -> _Value:
        """An array of the function's own, of zeros or filled; it is given back at the end."""
        shape = node.args[0].elts if isinstance(node.args[0], ast.Tuple) else node.args[:1]
        sizes = [self._as(self._value(one), WHOLE).one for one in shape]
        more = node.args[1 + filled :]
        dtype = self._dtype(more[0]) if more else np.dtype(np.float64)
        many = sizes[0]
        for size in sizes[1:]:
            many = self._new(f"mul i64 {many}, {size}")
        self.allocates = True
        wanted = f"ptr %heap, i64 {many}, i64 {dtype.itemsize}"
        data = self._new(f"call fastcc ptr @allocate({wanted})")
        if filled:
            self._fill(_Value(Array(dtype.name, 1), (data, many)), self._value(node.args[1]))
        return _Value(Array(dtype.name, len(sizes)), (data, *sizes))

    def _dtype(self, node: ast.expr) -> np.dtype[Any]:
        """A type of numbers that is named, or that of another array."""
        if isinstance(node, ast.Attribute) and self._meant(node.value) is None:
            kind = self._value(node.value).kind
            if isinstance(kind, Array) and node.attr == "dtype":
                return np.dtype(kind.dtype)
        if (meant := self._meant(node)) is None:
            raise UntranslatableError(ast.unparse(node))
        named: np.dtype[Any] = np.dtype(meant)
        return named


def _has_arrays(kind: Kind | None) -> bool:
    """Whether an array is among what a function returns."""
    if isinstance(kind, Several):
        return any(map(_has_arrays, kind.kinds))
    return isinstance(kind, Array)


def _told(kind: Kind) -> str:
    """What Python is to make of a value: a number, or an array of some axes."""
    return f"{kind.dtype}.{kind.axes}" if isinstance(kind, Array) else str(kind)


def _together(kind: Kind) -> str:
    """LLVM's type of all parts."""
    parts = _parts(kind)
    return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"


def _each(value: _Value) -> Iterator[_Value]:
    """The values that one is made of."""
    if not isinstance(value.kind, Several):
        raise UntranslatableError("one value, where several are wanted")
    at = 0
    for kind in value.kind.kinds:
        many = len(_parts(kind))
        yield _Value(kind, value.parts[at : at + many])
        at += many


def _several(values: Sequence[_Value]) -> _Value:
    parts = tuple(part for one in values for part in one.parts)
    return _Value(Several(tuple(one.kind for one in values)), parts)


def _hidden(node: ast.stmt | ast.expr) -> str:
    """A variable that nobody else has."""
    return f"{node.lineno}.{node.col_offset}"


def _whole(number: int) -> _Value:
    return _Value(WHOLE, (str(number),))


def _written_down(value: Any) -> _Value:
    if isinstance(value, bool | np.bool_):
        return _Value(TRUTH, (str(bool(value)).lower(),))
    if isinstance(value, float | np.floating):
        return _Value(FLOAT, (f"0x{struct.pack('>d', value).hex()}",))
    return _Value(UNSIGNED if isinstance(value, np.uint64) else WHOLE, (str(int(value)),))


def _apart(value: Any, numbers: list[int]) -> Kind:
    """The kind of an argument; `numbers` collects what LLVM is handed of it.

    Those are where arrays lie and how large they are, and numbers themselves.
    """
    if isinstance(value, np.ndarray):
        kind = _KINDS.get((value.dtype, value.ndim))
        if kind is None or not value.flags.c_contiguous:
            raise UntranslatableError("an array that lies another way")
        numbers.append(value.__array_interface__["data"][0])
        numbers.extend(value.shape)
        return kind
    if isinstance(value, tuple):
        kinds = tuple([_apart(one, numbers) for one in value])
        return Record(getattr(value, "_fields", ()), kinds)
    if isinstance(value, float):
        numbers.extend(struct.unpack("q", struct.pack("d", value)))
        return FLOAT
    if isinstance(value, int | np.integer | np.bool_) and not isinstance(value, np.uint64):
        numbers.append(int(value))
        return TRUTH if isinstance(value, bool | np.bool_) else WHOLE
    raise UntranslatableError(type(value).__name__)


class Translated:
    """A loop that is translated when it is first called with arguments of some kinds.

    Parameters
    ----------
    function
        The loop as Python. Arrays that it is handed do not share memory.
    folder
        Where compiled code is kept; it may say None.
    compiled
        `compiled_code`, or what asks another for it.
    """

    def __init__(
        self,
        function: Any,
        folder: Callable[[], Path | None],
        compiled: Callable[[Any, tuple[Kind, ...]], bytes],
    ) -> None:
        self._function = function
        self._folder = folder
        self._compiled = compiled
        self._lock = threading.Lock()
        self._made: dict[tuple[Kind, ...], _Code] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run it; `UntranslatableError` before anything has happened."""
        numbers: list[int] = []
        kinds = tuple([_apart(one, numbers) for one in arguments])
        if kinds not in self._made:
            with self._lock:
                if kinds not in self._made:
                    self._made[kinds] = _Code(self._object(kinds))
        return self._made[kinds](numbers)

    def is_kept(self, arguments: tuple[Any, ...]) -> bool:
        """Whether it was compiled before for such arguments."""
        if not self._some_kept:
            return False  # and nothing of LLVM is loaded
        with suppress(UntranslatableError):
            place = self._place(tuple([_apart(one, []) for one in arguments]))
            return place is not None and place.exists()
        return False

    @cached_property
    def _some_kept(self) -> bool:
        """Whether it was compiled before for any, when first asked: to look takes a while."""
        folder = self._folder()
        return folder is not None and any(folder.glob(f"{self._name}-*.code"))

    @property
    def _name(self) -> str:
        file = Path(self._function.__code__.co_filename)
        return f"{file.stem}.{self._function.__name__}"

    def _place(self, kinds: tuple[Kind, ...]) -> Path | None:
        """Where the code is kept, or would be."""
        folder = self._folder()
        made_of = repr((kinds, *_made_of(self._function)))
        digest = hashlib.sha256(made_of.encode()).hexdigest()[:32]
        return None if folder is None else folder / f"{self._name}-{digest}.code"

    def _object(self, kinds: tuple[Kind, ...]) -> bytes:
        """The code, from where it is kept or compiled now."""
        place = self._place(kinds)
        if place is not None:
            with suppress(OSError):
                kept = place.read_bytes()
                if hashlib.sha256(kept[32:]).digest() == kept[:32]:
                    return kept[32:]
        code = self._compiled(self._function, kinds)
        if place is not None:
            own = place.with_suffix(f".{os.getpid()}")
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                own.write_bytes(hashlib.sha256(code).digest() + code)
                own.replace(place)
        return code


def _made_of(function: Any) -> list[Any]:
    """What the code of a loop depends on, beside the kinds of its arguments."""
    from llvmlite import binding

    found: list[Any] = [sys.platform, binding.llvm_version_info, *_processor()]
    files, constants, waiting = {__file__}, {}, [function]
    for one in waiting:  # it grows
        files.add(one.__code__.co_filename)
        for name in one.__code__.co_names:
            value = one.__globals__.get(name)
            called = getattr(value, "py_func", None)
            if called is not None and called not in waiting:
                waiting.append(called)
            elif isinstance(value, int | float | np.number):
                constants[one.__module__, name] = value
    found += [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in sorted(files)]
    return [*found, sorted(constants.items())]


@cache
def _processor() -> tuple[str, str]:
    """Name and features of this computer's processor."""
    from llvmlite import binding

    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # not known of this one
        features = ""
    return binding.get_host_cpu_name(), features


@cache
def _target() -> Any:
    """What LLVM compiles for, ready to do so."""
    from llvmlite import binding

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UntranslatableError("places are no numbers of 64 bits")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
    named = [(ctypes.pythonapi, "PyMem_RawCalloc"), (ctypes.pythonapi, "PyMem_RawFree")]
    for place, name in (*named, (library, "log"), (library, "log2")):
        address = ctypes.cast(getattr(place, name), ctypes.c_void_p).value
        binding.add_symbol(name, address)
    return binding.Target.from_default_triple()


def _machine() -> Any:
    """This computer; whoever runs code has one of its own."""
    name, features = _processor()
    return _target().create_target_machine(
        cpu=name, features=features, opt=2, codemodel="jitdefault", jit=True
    )


def compiled_code(function: Any, kinds: tuple[Kind, ...]) -> bytes:
    """Machine code for arguments of some kinds, after words for what it returns."""
    from llvmlite import binding

    text, returned = _Module().whole(function, kinds)
    try:
        machine = _machine()
        module = binding.parse_assembly(text)
        # all that LLVM does of itself takes up to three times as long, and gains nothing
        none, some = (
            binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(level))
            for level in (0, 1)
        )
        none.getModulePassManager().run(module, none)  # what is said of calls, and no more
        simplifying = some.getFunctionPassManager()
        for function in module.functions:
            if not function.is_declaration:
                simplifying.run(function, some)
        return returned.ljust(_HEADER).encode() + bytes(machine.emit_object(module))
    except (AttributeError, OSError, RuntimeError) as error:
        raise UntranslatableError("another LLVM than this was tried with") from error


class _Code:
    """Compiled code, ready to run, until the program ends.

    Before it stands what it returns: a word for each number, or type and axes of an array.
    """

    _engines: ClassVar[list[Any]] = []

    def __init__(self, code: bytes) -> None:
        from llvmlite import binding

        self._returned = code[:_HEADER].decode().split()
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
        self._engines.append(engine)
        engine.add_object_file(binding.ObjectFileRef.from_data(code[_HEADER:]))
        engine.finalize_object()
        enter, leave = map(engine.get_function_address, ("enter", "leave"))
        self._enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(enter)
        self._leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(leave)

    def __call__(self, numbers: list[int]) -> Any:
        """Run it."""
        given, back = np.array(numbers, np.int64), np.zeros(_BACK, np.int64)
        self._enter(given.ctypes.data, back.ctypes.data)
        try:
            found = list(self._made_of(back))
        finally:
            if back[-1]:
                self._leave(int(back[-1]))
        return tuple(found) if len(found) > 1 else found[0] if found else None

    def _made_of(self, back: Any) -> Iterator[Any]:
        """What Python gets: numbers, and copies of arrays."""
        at = 0
        for told in self._returned:
            dtype, _, axes = told.partition(".")
            if axes:
                shape = tuple(back[at + 1 : at + 1 + int(axes)].tolist())
                size = math.prod(shape) * np.dtype(dtype).itemsize
                memory = (ctypes.c_char * size).from_address(int(back[at]))
                yield np.ndarray(shape, dtype, memory).copy()
                at += len(shape)
            else:
                yield (back.view(np.float64) if told == FLOAT else back)[at].item()
            at += 1
