"""Decides whether a file, unpickled from its first byte, may run code: traces its opcodes and executes none.

A pickle needs no header and runs code before it ends, so even a broken one may be dangerous. The scan stops where
CPython is certain to stop; if in doubt, it assumes that CPython continues. The tables of `pickletools` list what each
opcode pops and pushes.
"""

import pickletools
import re
import struct
from dataclasses import dataclass, field
from typing import BinaryIO

_MAX_STEPS = 50_000
_MAX_LINE_BYTES = 16 * 2**20  # in all lines together; a safetensors header, at most 8 MiB, may be a single line
_NEWEST_PROTOCOL = 5
_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: "<B",
    pickletools.TAKEN_FROM_ARGUMENT4: "<i",
    pickletools.TAKEN_FROM_ARGUMENT4U: "<I",
    pickletools.TAKEN_FROM_ARGUMENT8U: "<Q",
}
_IMPORTS = {"GLOBAL", "INST", "STACK_GLOBAL"}
_EXTENSIONS = {"EXT1", "EXT2", "EXT4"}  # keys of a registry that is empty unless a program fills it
_NAMES = {*_IMPORTS, "PERSID", "BINPERSID"}
_CALLS = {"OBJ", "REDUCE", "NEWOBJ", "NEWOBJ_EX"}
_ACTS = {
    *_CALLS,
    "BUILD",
    "APPEND",
    "APPENDS",
    "SETITEM",
    "SETITEMS",
    "ADDITEMS",
}  # act on the lowest value that they pop
_NUMBERS = {"INT", "LONG", "FLOAT", "GET", "PUT"}
_INTEGER = re.compile(rb"\s*+[+-]?[0-9a-fA-FxXoObB_]*+\s*+L?\s*")
_MODULE = re.compile(r"[\w.-]+")
_MARK = None


class _StopsError(Exception):
    """Raised where every unpickler stops."""


class _TooLongError(Exception):
    """An unpickler might continue beyond what is scanned."""


def may_load_as_pickle(file: BinaryIO, size: int) -> bool:
    """Return whether an unpickler would call something, load an object, or run beyond the limits. Raises OSError.

    Text may start like a pickle, so data without a header counts as an object only if it imports something or if
    pickles fill the whole file. Long values are skipped, not read.
    """
    file.seek(0)
    machine = _Machine()
    try:
        left = _MAX_LINE_BYTES
        for _ in range(_MAX_STEPS):
            if file.tell() >= size:
                return machine.ended
            start = file.tell()
            opcode, argument = _instruction(file, size, left)
            if opcode.arg is not None and opcode.arg.n == pickletools.UP_TO_NEWLINE:
                left -= file.tell() - start
            if machine.runs(opcode, argument) or left <= 0:
                return True
    except _StopsError:
        return False
    except _TooLongError:
        pass
    return True


@dataclass(slots=True)
class _Machine:
    """The stack and memo of one or several consecutive pickles; a value is True if it came from a name."""

    stack: list[bool | None] = field(default_factory=list)
    memo: dict[int, bool] = field(default_factory=dict)
    headed: bool = False
    imports: bool = False
    ended: bool = False

    def runs(self, opcode: pickletools.OpcodeInfo, argument: bytes) -> bool:
        """Trace one opcode; return whether it runs code or ends what counts as a pickle. Raises _StopsError."""
        if self.ended:
            self.stack, self.memo, self.ended = [], {}, False
        match opcode.name:
            case "PROTO":
                _must(argument[0] <= _NEWEST_PROTOCOL)
                self.headed = True
            case "STOP":
                self._pop()
                self.ended = True
                return self.headed or self.imports
            case "MARK":
                self.stack.append(_MARK)
            case "POP":
                _must(bool(self.stack))
                self.stack.pop()
            case "DUP":
                self.stack.append(self._top())
            case "MEMOIZE":
                self.memo[len(self.memo)] = self._top()
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[_index(opcode, argument)] = self._top()
            case "GET" | "BINGET" | "LONG_BINGET":
                _must((index := _index(opcode, argument)) in self.memo)
                self.stack.append(self.memo[index])
            case _:
                return self._move(opcode, argument)
        return False

    def _move(self, opcode: pickletools.OpcodeInfo, argument: bytes) -> bool:
        """Pop and push values as the tables say; return whether code runs."""
        name = opcode.name
        _must(name not in _EXTENSIONS)
        _must(name not in {"GLOBAL", "INST"} or _is_importable(argument))
        taken = self._take(opcode.stack_before)
        if name == "INST" or (name in _ACTS and taken[:1] == [True]):
            return True
        _must(name not in _CALLS)  # only a value that came from a name can be called
        self.imports = self.imports or name in _IMPORTS
        self.stack.extend([name in _NAMES] * len(opcode.stack_after))
        return self.headed and name in _IMPORTS

    def _take(self, expected: list[pickletools.StackObject]) -> list[bool]:
        """Pop the expected values, including all above a mark if one is expected; return the lowest first."""
        taken: list[bool] = []
        below = len(expected)
        if pickletools.markobject in expected:
            below = expected.index(pickletools.markobject)
            while self.stack and (top := self.stack[-1]) is not _MARK:
                taken.append(top)
                self.stack.pop()
            _must(bool(self.stack))
            self.stack.pop()
        taken += [self._pop() for _ in range(below)]
        return taken[::-1]

    def _top(self) -> bool:
        if not self.stack or (top := self.stack[-1]) is _MARK:
            raise _StopsError
        return top

    def _pop(self) -> bool:
        top = self._top()
        self.stack.pop()
        return top


def _instruction(file: BinaryIO, size: int, most_line_bytes: int) -> tuple[pickletools.OpcodeInfo, bytes]:
    """Return an opcode and its argument; a length-prefixed argument is skipped and returned as empty."""
    opcode = _OPCODES.get(file.read(1))
    if opcode is None:
        raise _StopsError
    if opcode.arg is None:
        return opcode, b""
    count = opcode.arg.n
    if count >= 0:
        return opcode, _exactly(file, count)
    if count == pickletools.UP_TO_NEWLINE:
        return opcode, _lines(opcode.name, file, most_line_bytes)
    form = _LENGTHS[count]
    (length,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
    _must(0 <= length <= size - file.tell())
    file.seek(length, 1)
    return opcode, b""


def _lines(name: str, file: BinaryIO, max_bytes: int) -> bytes:
    """Return one line, or the two lines of a name, without the final newline."""
    line = _line(file, max_bytes)
    if name in {"GLOBAL", "INST"}:
        return line + b"\n" + _line(file, max_bytes)
    if name in _NUMBERS:
        line = line.partition(b"\0")[0]  # where a C string ends
        _must(_is_float(line) if name == "FLOAT" else _INTEGER.fullmatch(line) is not None)
    if name == "PERSID":
        _must(line.isascii())
    if name == "STRING":
        quoted = line.rstrip()
        _must(len(quoted) > 1 and quoted[:1] == quoted[-1:] and quoted[:1] in (b"'", b'"'))
    return line


def _line(file: BinaryIO, max_bytes: int) -> bytes:
    line = file.readline(max_bytes)
    if not line.endswith(b"\n"):
        raise _TooLongError if len(line) == max_bytes else _StopsError
    return line.removesuffix(b"\n")


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    _must(len(found) == count)
    return found


def _is_float(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_importable(argument: bytes) -> bool:
    """Return whether the first of two lines can be a module name; the attribute on the second may be anything."""
    module = argument.partition(b"\n")[0]
    return _MODULE.fullmatch(module.decode(errors="replace")) is not None


def _index(opcode: pickletools.OpcodeInfo, argument: bytes) -> int:
    if opcode.arg is not None and opcode.arg.n > 0:
        return int.from_bytes(argument, "little")
    try:
        return int(argument)
    except ValueError as error:
        raise _StopsError from error


def _must(goes_on: bool) -> None:  # noqa: FBT001 - reads as a sentence
    if not goes_on:
        raise _StopsError
