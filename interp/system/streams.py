"""The standard streams of a command, which may be closed, full, without a reader, or ASCII.

If standard output cannot be written, OutputError is raised once. Messages that standard error cannot take are dropped.
Characters that the encoding of a stream lacks are replaced in ASCII. This module imports nothing heavy.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import Any

from ..errors import OutputError

#: The exit status where an output cannot be written: EX_IOERR of sysexits.h.
UNWRITABLE = 74
#: The exit status where the reader of standard output has gone, as of a process that SIGPIPE ends.
NO_READER = 141

#: Replacements of characters that an encoding lacks. Other characters are escaped.
_SPELLED = {"…": "...", "×": "x", "·": "-", "–": "-", "−": "-", "•": "-"}


#: XLA writes to standard error what it does, unless the environment says that it should warn only.
XLA_WARNS_ONLY = {"TF_CPP_MIN_LOG_LEVEL": "1"}


class _Stream(io.FileIO):
    """A file descriptor that records a failure to write, and raises it as OutputError if `raises` is true."""

    def __init__(self, descriptor: int, raises: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.raises = raises
        self.failure: OutputError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if self.failure is None:
                self.failure = OutputError(f"minihlo: standard output: {error.strerror or error}")
                self.failure.errno = error.errno
            if self.raises:
                raise self.failure from None
            return memoryview(data).nbytes


def prepare() -> None:
    """Set up the standard streams of this process. Streams that the caller has replaced stay."""
    os.environ.update(XLA_WARNS_ONLY | os.environ)
    codecs.register_error("minihlo", _spell)
    # The system would reuse a closed descriptor for the next file. These replacements fail to read and to write.
    for descriptor, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "rb", closefd=False)))
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None or stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _wrapped(stream, descriptor))


def _wrapped(stream: Any, descriptor: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_Stream(descriptor, raises=descriptor == 1)),
        encoding=getattr(stream, "encoding", "utf-8"),
        errors="minihlo",
        line_buffering=descriptor == 2 or getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the replacement of the next character and the position after it. File names keep their bytes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character, end = error.object[error.start], error.start + 1
    if "\udc80" <= character <= "\udcff" and not error.encoding.startswith(("utf-16", "utf-32")):
        return bytes([ord(character) & 0xFF]), end
    return _SPELLED.get(character) or character.encode("ascii", "backslashreplace").decode(), end


def flush() -> None:
    """Flush the streams. Raises OutputError if standard output could not be written, now or before."""
    sys.stderr.flush()
    sys.stdout.flush()
    failure = failed()
    if failure is not None:
        raise failure


def failed() -> OutputError | None:
    """Return how writing to standard output failed, or None if it did not or `give_up` has reported it."""
    raw = _raw()
    return raw.failure if raw is not None and raw.raises else None


def give_up(failure: OutputError) -> int:
    """Report that standard output cannot be written, write nothing more to it, and return the exit status."""
    raw = _raw()
    if raw is not None:
        raw.raises = False
    if failure.errno == errno.EPIPE:
        return NO_READER
    print(failure, file=sys.stderr)
    return UNWRITABLE


def _raw() -> _Stream | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Stream) else None
