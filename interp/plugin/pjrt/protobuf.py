"""Protocol buffers as far as they are needed: fields by number, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Value = int | bytes | str
_VARINT, _I64, _BYTES, _I32 = 0, 1, 2, 5


def read(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field. Raises ValueError where the message is cut off."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size, at = _varint(data, at) if kind == _BYTES else ({_I64: 8, _I32: 4}.get(kind, len(data) + 1), at)
        if at + size > len(data):
            raise ValueError("a field is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def fields(data: bytes) -> dict[int, int | bytes]:
    """The last value of each field."""
    return dict(read(data))


def integers(data: bytes, number: int) -> list[int]:
    """A repeated field of integers, packed or not."""
    values: list[int] = []
    for n, value in read(data):
        if n == number and isinstance(value, int):
            values.append(value)
        elif n == number and isinstance(value, bytes):
            at = 0
            while at < len(value):
                item, at = _varint(value, at)
                values.append(item)
    return values


def message(*fields: tuple[int, Value | Iterable[int]]) -> bytes:
    """A message of fields; a list of integers is packed."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_encode(number << 3 | _VARINT) + _encode(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            if not isinstance(data, bytes):
                data = b"".join(map(_encode, data))
            parts.append(_encode(number << 3 | _BYTES) + _encode(len(data)) + data)
    return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("a number is cut off")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _encode(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
