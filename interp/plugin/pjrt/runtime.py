"""The parts that all functions of the plugin share: handles, memory as words, and the table of functions.

A function takes the address of its argument and returns None, or the address of an error. There are three kinds:

- `properties` and `lists` declare functions that copy what an object's dictionary `properties` has under their name.
- `getter` declares a function that must not fail, since the framework ends the process where it does. So it calls
  nothing, because a call fails where the user's program has recursed to Python's limit.
- `fallible` declares a function that may raise any exception.

The first two write whole words: the bytes after a short field are padding. The table and all that is permanent live as
long as the process: the framework uses them after the interpreter has shut down.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

from . import abi, interrupts, shutdown
from .errors import UNIMPLEMENTED, ErrorObject, PluginError
from .handles import Pool, destroyer, immortal

PLATFORM = "minihlo"

pool = Pool()
objects = pool.objects
words = abi.make_words()
#: The event of completed work. The event of a failure has an ErrorObject as its object.
ready = immortal()

_functions: dict[str, Callable[[int], int | None]] = {}


@functools.cache
def reader(count: int) -> Callable[[memoryview, int], tuple[int, ...]]:
    """Return a function that reads `count` words at an address, in half the time of a slice."""
    return struct.Struct(f"{count}Q").unpack_from


def getter(name: str) -> Callable[[Callable[[int], int | None]], Callable[[int], int | None]]:
    """Declare the decorated function as one of the table. It must never raise."""

    def declare(function: Callable[[int], int | None]) -> Callable[[int], int | None]:
        interrupts.delay_in(function.__module__)
        _functions[name] = function
        return function

    return declare


def fallible(name: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Declare the decorated function as one of the table. It takes the structure of the argument and may raise."""

    def declare(function: Callable[[Any], None]) -> Callable[[Any], None]:
        structure = functools.cache(lambda: abi.argument(name))

        def run(address: int) -> int | None:
            if shutdown.closing:
                shutdown.park()
            try:
                function(structure().from_address(address))
            except BaseException as error:
                try:
                    return failed(error)
                except RecursionError:
                    return too_deep
            if shutdown.closing:
                shutdown.park()
            return None

        _functions[name] = run
        return function

    return declare


def failed(error: BaseException) -> int:
    """Return the handle of an error."""
    return pool.add(failure(error))


def failure(error: BaseException) -> ErrorObject:
    """Return the ErrorObject of an exception. Ctrl-C is raised again after the framework has received the error."""
    if isinstance(error, KeyboardInterrupt):
        interrupts.again()
    return ErrorObject(error)


def forever(item: Any) -> Any:
    """Return the item, which is never freed from now on."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    return item


def permanent(item: Any) -> int:
    """A handle that is never destroyed."""
    address = immortal()
    objects[address] = item
    return address


class Sized(tuple[int, int]):
    """The address of memory that lives as long as this object, and the number of items there."""

    _memory: Any

    @classmethod
    def text(cls, text: str | bytes) -> Sized:
        """A string, in UTF-8."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        return cls._of(ctypes.create_string_buffer(data), len(data))

    @classmethod
    def items(cls, items: Sequence[int], kind: Any = ctypes.c_int64) -> Sized:
        """A list of addresses or of other numbers."""
        return cls._of((kind * max(len(items), 1))(*items), len(items))

    @classmethod
    def _of(cls, memory: Any, size: int) -> Sized:
        result = cls((ctypes.addressof(memory), size))
        result._memory = memory
        return result

    @property
    def address(self) -> int:
        """The address."""
        return self[0]


def properties(prefix: str, *names: str) -> None:
    """Declare functions that copy a property of an object to the field after its handle.

    It is what the dictionary `properties` of the object has under the name of the function, without the prefix.
    """
    for name in names:

        def copy(p: int, name: str = name) -> None:
            at = p >> 3
            words[at + 3] = objects[words[at + 2]].properties[name]

        getter(f"{prefix}_{name}")(copy)


def lists(prefix: str, *names: str) -> None:
    """Declare functions that copy a property of several words."""
    for name in names:

        def copy(p: int, name: str = name) -> None:
            at = (p >> 3) + 3
            for word in objects[words[at - 1]].properties[name]:
                words[at] = word
                at += 1

        getter(f"{prefix}_{name}")(copy)


class NamedValues:
    """A list of named values, at an address. Values are strings, bools, integers, floats or lists of integers."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._memory: list[Any] = []
        self._items = (abi.NamedValue * max(len(values), 1))()
        self.address, self.size = ctypes.addressof(self._items), len(values)
        for item, (name, value) in zip(self._items, values.items(), strict=False):
            item.struct_size = ctypes.sizeof(abi.NamedValue)
            item.name, item.name_size = self._text(name)
            item.value_size = 1
            if isinstance(value, str):
                item.type = abi.STRING
                item.union, item.value_size = self._text(value)
            elif isinstance(value, float):
                item.type, item.union = abi.FLOAT, int.from_bytes(struct.pack("<f", value), "little")
            elif isinstance(value, int):
                item.type, item.union = (abi.BOOL if isinstance(value, bool) else abi.INT64), value
            else:
                numbers = Sized.items(value)
                self._memory.append(numbers)
                item.type, (item.union, item.value_size) = abi.INT64_LIST, numbers

    def _text(self, text: str) -> Sized:
        self._memory.append(Sized.text(text))
        return self._memory[-1]


def read_named_values(address: int, count: int) -> dict[str, Any]:
    """A list of named values that the framework gives."""
    values: dict[str, Any] = {}
    for item in (abi.NamedValue * count).from_address(address) if count else ():
        name = ctypes.string_at(item.name, item.name_size).decode()
        if item.type == abi.STRING:
            values[name] = ctypes.string_at(item.union, item.value_size).decode()
        elif item.type == abi.INT64_LIST:
            values[name] = list((ctypes.c_int64 * item.value_size).from_address(item.union))
        elif item.type == abi.FLOAT:
            values[name] = ctypes.c_float.from_buffer(item, abi.NamedValue.union.offset).value
        else:
            values[name] = item.union if item.type == abi.INT64 else bool(item.union & 0xFF)
    return values


# The functions that this module wraps around others are called by the framework too.
interrupts.delay_in(__name__)
api = forever(abi.Api())


def fill_api(load: Callable[[], None] | None = None) -> None:
    """Put the functions that have been declared since the last call into the table.

    The first call puts stand-ins for the others. They call `load`, which declares the rest and fills the table again.
    """
    destroy = destroyer()
    api.struct_size = ctypes.sizeof(abi.Api)
    api.version_size = 24
    api.major, api.minor = abi.MAJOR, abi.MINOR
    for name, fields in abi.FUNCTIONS.items():
        if name.endswith("_Destroy") or name == "Buffer_DecreaseExternalReferenceCount":
            setattr(api, name, destroy)
        elif name in _functions or not getattr(api, name):
            function = _functions.pop(name, None) or _stand_in(name, load if fields else None)
            callback = forever(abi.Function(function))
            setattr(api, name, ctypes.cast(callback, ctypes.c_void_p).value)


def _stand_in(name: str, load: Callable[[], None] | None) -> Callable[[int], int | None]:
    def run(p: int) -> int | None:
        try:
            before = getattr(api, name)
            if load is not None:
                load()
            if getattr(api, name) == before:
                raise PluginError(UNIMPLEMENTED, f"PJRT_{name} is not implemented by {PLATFORM}")
            return abi.Function(getattr(api, name))(p)
        except BaseException as error:
            return failed(error)

    return run


# -- errors and the plugin itself ------------------------------------------------------------------------------------


#: The error where Python's recursion limit leaves no room to make one.
too_deep = permanent(forever(ErrorObject(RecursionError("maximum recursion depth exceeded"))))


properties("Error", "GetCode")
lists("Error", "Message")


@getter("Plugin_Initialize")
def _plugin_initialize(_: int) -> None:
    return None


@fallible("Plugin_Attributes")
def _plugin_attributes(a: Any) -> None:
    from jaxlib.mlir.dialects import stablehlo

    versions = {
        "stablehlo_current_version": stablehlo.get_current_version(),
        "stablehlo_minimum_version": stablehlo.get_minimum_version(),
    }
    values = NamedValues({"xla_version": 0} | {k: [int(n) for n in v.split(".")] for k, v in versions.items()})
    a.attributes, a.num_attributes = forever(values).address, values.size


@getter("ExecuteContext_Create")
def _execute_context_create(p: int) -> None:
    words[(p >> 3) + 2] = ready
