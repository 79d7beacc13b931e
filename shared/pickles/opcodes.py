"""Whether bytes are a pickle: its instructions are followed without doing what they say.

A pickle needs no header, and runs code before its end, so that a broken one may be dangerous, too. What follows from
the instructions is kept track of as far as it tells a pickle from a text or from numbers that look like a few of them.
Where CPython stops for certain, the scan ends; in doubt it goes on as if CPython did: it takes every argument that
CPython takes, and more.
"""

import pickletools
import re
import struct
import sys
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import BinaryIO

from shared.pickles.parts import Budget

_LONGEST_LINE = 65_536
_SHORT_BYTES = 1024
_MOST_STEPS = 1_000_000
_STEPS_A_TIME = 256
_WORK_OF_A_STEP = 4
_NEWEST_PROTOCOL = 5
_OPERATIONS = {operation.code: operation for operation in pickletools.opcodes}
_NUMBER = re.compile(rb"\s*+[+-]?[0-9a-fA-FxXoObB_]*+L?\s*")
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: "<B",
    pickletools.TAKEN_FROM_ARGUMENT4: "<i",
    pickletools.TAKEN_FROM_ARGUMENT4U: "<I",
    pickletools.TAKEN_FROM_ARGUMENT8U: "<Q",
}


class _Thing(Enum):
    """What an instruction leaves on the stack, as far as it matters."""

    MARK = auto()
    NAMED = auto()  # what a module has under some name
    TUPLE = auto()
    TEXT = auto()
    PLAIN = auto()


_MADE = {
    pickletools.pytuple.name: _Thing.TUPLE,
    pickletools.pyunicode.name: _Thing.TEXT,
    pickletools.pybytes_or_str.name: _Thing.TEXT,
}


class _RunsError(Exception):
    """From here on code runs."""


class _BrokenError(Exception):
    """No program that loads pickles would go on here."""


def is_pickle(file: BinaryIO, size: int, budget: Budget, *, cut: bool = False) -> bool:
    """Return whether the file, from its start to `size`, is a pickle. Raises UnreadableError, OSError.

    It is one if code would run, if it has a pickle's header and comes to an end, if it has none, comes to an end and
    imports something that exists, or if pickles without a header fill it from end to end. `cut` is whether more follows
    that is not here. Long values are skipped, not read.
    """
    file.seek(0)
    machine = _Machine()
    long = cut and size >= _LONGEST_LINE  # nothing else keeps to the rules for so long
    try:
        for step in range(_MOST_STEPS):
            if file.tell() >= size:
                return machine.ended or long or (cut and machine.headed)
            if not step % _STEPS_A_TIME:
                budget.spend(_STEPS_A_TIME * _WORK_OF_A_STEP)
            machine.step(file, size)
            if machine.ended and (machine.headed or machine.imports):
                return True
    except _RunsError:
        return True
    except _BeyondError:
        return cut and machine.headed
    except _TruncatedError:
        return long or (cut and machine.headed)
    except _BrokenError:
        return False
    return True  # a text or numbers would have been no pickle long before


class _TruncatedError(Exception):
    """The bytes end in the middle of an instruction."""


class _BeyondError(_TruncatedError):
    """They end in a value whose length stands in front, as any four letters may seem to be one."""


@dataclass(slots=True)
class _Machine:
    """The stack and the memo of one pickle, or of several in a row."""

    stack: list[_Thing] = field(default_factory=list)
    memo: dict[int, _Thing] = field(default_factory=dict)
    headed: bool = False
    ended: bool = False
    imports: bool = False

    def step(self, file: BinaryIO, size: int) -> None:
        """Follow one instruction. Raises _RunsError, _BrokenError, _TruncatedError, OSError."""
        if self.ended:
            self.stack, self.memo, self.ended = [], {}, False
        code = file.read(1)
        operation = _OPERATIONS.get(code.decode("latin-1"))
        if operation is None:
            raise _BrokenError
        argument = _argument(operation, file, size)
        self._follow(operation, argument)

    def _follow(self, operation: pickletools.OpcodeInfo, argument: bytes) -> None:
        match operation.name:
            case "PROTO":
                if argument[0] > _NEWEST_PROTOCOL:
                    raise _BrokenError
                self.headed = True
            case "STOP":
                self._pop()
                self.ended = True
            case "GLOBAL":
                self._name(named=_is_global(argument))
                self.imports = self.imports or _is_importable(argument)
            case "STACK_GLOBAL":
                self._name(named={self._pop(), self._pop()} <= {_Thing.TEXT, _Thing.NAMED})
                self.imports = True
            case "EXT1" | "EXT2" | "EXT4":
                self._name(named=True)  # by a number that the program may have registered
            case "PERSID" | "BINPERSID":
                self._move(operation)
                self.stack[-1] = _Thing.NAMED  # whatever the program makes of it
            case "INST" | "OBJ" | "REDUCE" | "NEWOBJ" | "NEWOBJ_EX" | "BUILD":
                self._call(operation.name, argument)
            case _:
                self._keep(operation, argument)

    def _call(self, name: str, argument: bytes) -> None:
        """Find out whether what is called can be."""
        match name:
            case "INST":
                self._pop_to_mark()
                self._run(_Thing.NAMED if _is_global(argument) else _Thing.PLAIN)
            case "OBJ":
                self._run(*self._pop_to_mark()[:1])
            case "BUILD":  # of what has no say in it, nothing is built where the state is None
                self._pop()
                self._change()
            case _:
                if name == "NEWOBJ_EX":
                    self._pop()
                arguments = self._pop()
                self._run(self._pop(), arguments)

    def _keep(self, operation: pickletools.OpcodeInfo, argument: bytes) -> None:
        """Follow what only moves values, or changes one."""
        match operation.name:
            case "MARK":
                self.stack.append(_Thing.MARK)
            case "POP" if self.stack:
                self.stack.pop()
            case "DUP":
                self.stack.append(self._top())
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[_index(operation, argument)] = self._top()
            case "MEMOIZE":
                self.memo[len(self.memo)] = self._top()
            case "GET" | "BINGET" | "LONG_BINGET":
                self._get(_index(operation, argument))
            case "APPEND" | "SETITEM":
                for _ in operation.stack_before[1:]:
                    self._pop()
                self._change()
            case "APPENDS" | "SETITEMS" | "ADDITEMS":
                self._pop_to_mark()
                self._change()
            case _:
                self._move(operation)

    def _move(self, operation: pickletools.OpcodeInfo) -> None:
        """Do what the tables say of an instruction that has no effect but on the stack."""
        if pickletools.markobject in operation.stack_before:
            self._pop_to_mark()
        else:
            for _ in operation.stack_before:
                self._pop()
        self.stack.extend(_MADE.get(found.name, _Thing.PLAIN) for found in operation.stack_after)

    def _name(self, *, named: bool) -> None:
        if not named:
            raise _BrokenError
        if self.headed:
            raise _RunsError  # a module is imported
        self.stack.append(_Thing.NAMED)

    def _run(self, function: _Thing = _Thing.PLAIN, arguments: _Thing = _Thing.TUPLE) -> None:
        # What a name brings may itself be a tuple or a text, such as sys.version_info or os.name.
        may_run = function is _Thing.NAMED and arguments in (_Thing.TUPLE, _Thing.NAMED)
        raise _RunsError if may_run else _BrokenError

    def _change(self) -> None:
        if self._top() is _Thing.NAMED:
            raise _RunsError

    def _get(self, index: int) -> None:
        if index not in self.memo:
            raise _BrokenError
        self.stack.append(self.memo[index])

    def _top(self) -> _Thing:
        if not self.stack or self.stack[-1] is _Thing.MARK:
            raise _BrokenError
        return self.stack[-1]

    def _pop(self) -> _Thing:
        top = self._top()
        self.stack.pop()
        return top

    def _pop_to_mark(self) -> list[_Thing]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _Thing.MARK:
                popped = self.stack[at + 1 :]
                del self.stack[at:]
                return popped
        raise _BrokenError


def _argument(operation: pickletools.OpcodeInfo, file: BinaryIO, size: int) -> bytes:
    """Return an instruction's argument; nothing of one that has a length in front, which is skipped."""
    if operation.arg is None:
        return b""
    count = operation.arg.n
    if count >= 0:
        return _exactly(file, count)
    if count == pickletools.UP_TO_NEWLINE:
        return _lines(operation, file)
    form = _LENGTHS[count]
    (length,) = struct.unpack(form, _exactly(file, struct.calcsize(form)))
    if length < 0:
        raise _BrokenError
    if file.tell() + length > size:
        raise _BeyondError
    if length <= _SHORT_BYTES and operation.stack_after == [pickletools.pyunicode]:
        _check_text(_exactly(file, length))
    else:
        file.seek(length, 1)
    return b""


def _check_text(data: bytes) -> None:
    try:
        data.decode(errors="surrogatepass")
    except UnicodeDecodeError as error:
        raise _BrokenError from error


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) < count:
        raise _TruncatedError
    return found


def _lines(operation: pickletools.OpcodeInfo, file: BinaryIO) -> bytes:
    """Return one line, or the two of a name, without the last end; of a long one the start. Wrong ones are broken."""
    first, shortened = _line(file)
    if operation.name in ("INT", "LONG", "FLOAT", "GET", "PUT"):
        first = first.partition(b"\0")[0]  # as a text of C ends
    match operation.name:
        case "GLOBAL" | "INST":
            return first + b"\n" + _line(file)[0]
        case "INT" | "LONG" | "GET" | "PUT" if shortened or not _NUMBER.fullmatch(first):
            raise _BrokenError
        case "FLOAT" if not _is_float(first):
            raise _BrokenError
        case "STRING" if not shortened and not _is_quoted(first):
            raise _BrokenError
        case _:
            return first


def _line(file: BinaryIO) -> tuple[bytes, bool]:
    """Return a line without its end, and whether that is its start alone."""
    first = part = file.readline(_LONGEST_LINE)
    while part and not part.endswith(b"\n"):
        part = file.readline(_LONGEST_LINE)
    if not part:
        raise _TruncatedError
    return first.removesuffix(b"\n"), not first.endswith(b"\n")


def _is_float(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_quoted(text: bytes) -> bool:
    stripped = text.rstrip()
    return len(stripped) > 1 and stripped[:1] == stripped[-1:] and stripped[:1] in (b"'", b'"')


def _is_global(argument: bytes) -> bool:
    """Return whether two lines may be the names of a module and of something in it; of a long one, the start is here.

    A module is a file, so its name may have a hyphen or begin with a digit; what is in it may have any name.
    """
    if len(argument) >= _LONGEST_LINE:
        return True
    module = (_decoded(argument) or "").partition("\n")[0]
    return bool(module) and all(f"_{part.replace('-', '_')}".isidentifier() for part in module.split("."))


def _is_importable(argument: bytes) -> bool:
    """Return whether two lines name something of a module that is everywhere, or in a package: words do not."""
    module = (_decoded(argument) or "").partition("\n")[0]
    return "." in module or module in sys.stdlib_module_names


def _decoded(argument: bytes) -> str | None:
    try:
        return argument.decode()
    except UnicodeDecodeError:
        return None


def _index(operation: pickletools.OpcodeInfo, argument: bytes) -> int:
    if operation.arg is not None and operation.arg.n > 0:
        return int.from_bytes(argument, "little")
    try:
        return int(argument)
    except ValueError as error:
        raise _BrokenError from error
