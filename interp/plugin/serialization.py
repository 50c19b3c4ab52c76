"""Executables as bytes, and back: what JAX's persistent compilation cache keeps.

An executable is its program, a portable artifact of StableHLO, and the options it was compiled with. It is planned anew
where it is loaded, so bytes that an older version has written run as the present one computes.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

from .executable import NOTHING_TO_DELETE, Executable, compile_program
from .pjrt import protobuf
from .pjrt.errors import INVALID_ARGUMENT, PluginError
from .pjrt.runtime import PLATFORM, Sized, fallible, objects, pool

_MAGIC = f"{PLATFORM} executable\n".encode()
#: The version of what follows the magic bytes and a digest: fields 1, this; 2, the program; 3, the options.
_VERSION = 1
_DIGEST = 32  #: bytes


def dump(code: bytes, options: bytes) -> bytes:
    """A program and its serialized options as bytes."""
    body = protobuf.message((1, _VERSION), (2, code), (3, options))
    return _MAGIC + hashlib.sha256(body).digest() + body


def load(data: bytes) -> tuple[bytes, bytes]:
    """The program and the options of what `dump` has made. Raises PluginError where the bytes are no such thing."""
    if not data.startswith(_MAGIC):
        raise PluginError(INVALID_ARGUMENT, f"expected a serialized executable of {PLATFORM}, got other bytes")
    at = len(_MAGIC) + _DIGEST
    body = data[at:]
    if data[len(_MAGIC) : at] != hashlib.sha256(body).digest():
        message = f"expected a serialized executable of {PLATFORM}, got one whose bytes are damaged"
        raise PluginError(INVALID_ARGUMENT, message)
    fields = protobuf.fields(body)
    code, options = fields.get(2), fields.get(3)
    if fields.get(1) != _VERSION or not isinstance(code, bytes) or not isinstance(options, bytes):
        message = f"expected a serialized executable of version {_VERSION}, got version {fields.get(1)!r}"
        raise PluginError(INVALID_ARGUMENT, message)
    return code, options


@fallible("Executable_Serialize")
def _serialize(a: Any) -> None:
    executable: Executable = objects[a.executable]
    if executable.serialized is None:
        executable.serialized = Sized.text(dump(executable.code, executable.options.serialized))
    a.text, a.text_size = executable.serialized
    a.owner, a.deleter = NOTHING_TO_DELETE


@fallible("Executable_DeserializeAndLoad")
def deserialize(a: Any) -> None:
    """Compile what another process, or this one, has serialized."""
    code, options = load(ctypes.string_at(a.text, a.text_size))
    if a.compile_options_size:  # for other devices, say
        options = ctypes.string_at(a.compile_options, a.compile_options_size)
    a.executable = pool.add(compile_program(objects[a.client], code, options))
