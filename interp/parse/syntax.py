"""Text before it is parsed: brings what jaxlib's parser does not know to generic form, keeping the line numbers.

The `check` dialect of the upstream test programs is not in jaxlib. Its ops have a syntax of their own; the
generic form of any op of an unknown dialect can be read:

    check.expect_eq_const %x, dense<[1, 2]> : tensor<2xi32>
    "check.expect_eq_const"(%x) {value = dense<[1, 2]> : tensor<2xi32>} : (tensor<2xi32>) -> ()
"""

from __future__ import annotations

import re

from ..errors import ProgramError
from ..system import depth

#: The prefix for names of ops and types that this jaxlib's dialects are too old to know.
NEWER = "newer."
#: Levels of brackets. MLIR's parser takes up to 2 KiB of stack for each: 2,000 levels of regions in generic form are
#: read on a stack of 8 MiB, and 6,000 overflow it.
MAX_NESTING = 1000

#: The digits of a number. Exact decimals of f64 have up to 1,075; MLIR takes time quadratic in them.
MAX_DIGITS = 2000

_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_SKIPPED = rf"{_STRING}|//[^\n]*|->"
_BRACKETS = re.compile(rf"{_SKIPPED}|(?P<open>[<({{\[]+)|(?P<close>[>)}}\]]+)")
_DELIMITERS = re.compile(rf"{_SKIPPED}|(?P<open>[<({{\[])|(?P<close>[>)}}\]])|(?P<stop>[,:])")
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*")
_CHECK = re.compile(rf'(?P<generic>"check\.\w+")(?=\s*\()|{_SKIPPED}|(?<![\w.$%#@!])(?P<name>check\.expect_\w+)(?=\s)')
#: A string that is the name of a symbol, an op, an attribute or a file.
_NAME = re.compile(rf"(?<=@)(?P<symbol>{_STRING})|(?P<name>{_STRING})(?=\s*[(=:])|{_SKIPPED}")
_HIGH_ESCAPE = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_DIGITS = rf"[0-9]{{{MAX_DIGITS + 1}}}"
#: Literals that MLIR does not refuse itself: it takes long for the first, and crashes on the others.
_REFUSED = {
    rf"(?<![0-9A-Za-z_$.%#@!]){_DIGITS}|\.{_DIGITS}": f"a number of at most {MAX_DIGITS} digits",
    r"dense<\s*\([^()]*\)\s*>\s*:\s*tensor<(?:\d+x)*(?!complex)[a-z]": "a complex element type",
    r"broadcast_dimensions\s*=\s*array<i64:[^>]*-\d+": "broadcast_dimensions of at least 0",
}
_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_TYPE = re.compile(r"[!\w.$]+")


class _NotUnderstoodError(Exception):
    """The text does not have the expected form; it is left to MLIR, which reports what is wrong."""


def check_nesting(text: str, file: str, first_line: int = 1) -> None:
    """Refuses brackets nested so deep that the parser's stack could overflow.

    Raises ProgramError with the place of the first.
    """
    most = depth.on_this_stack(MAX_NESTING)
    if sum(map(text.count, "<({[")) <= most:
        return
    level = 0
    for match in _BRACKETS.finditer(text):
        if match["open"]:
            level += len(match["open"])
            if level > most:
                at = match.end() - (level - most)
                raise _error(text, at, file, first_line, f"expected at most {most} nested brackets, got more")
        elif match["close"]:
            level = max(0, level - len(match["close"]))


def check_numbers(text: str, file: str, first_line: int = 1) -> None:
    """Refuses the literals of `_REFUSED`. Raises ProgramError with the place of the first."""
    for pattern, expected in _REFUSED.items():
        found = re.search(pattern, text) and re.finditer(rf"{_SKIPPED}|(?P<number>{pattern})", text)
        for match in found or ():
            if match["number"]:
                raise _error(text, match.start(), file, first_line, f"expected {expected}, got {match['number'][:40]}")


def check_names(text: str, file: str, first_line: int = 1) -> None:
    """Refuses names that are not UTF-8, which jaxlib cannot hand to Python without aborting. Plain strings may be.

    Raises ProgramError with the place of the first.
    """
    if not _HIGH_ESCAPE.search(text):
        return
    for match in _NAME.finditer(text):
        name = match["name"] or match["symbol"]
        if name and _HIGH_ESCAPE.search(name):
            data = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), name.encode())
            try:
                data.decode()
            except UnicodeDecodeError:
                message = f"expected a name in UTF-8, got {name[:200]}"
                raise _error(text, match.start(), file, first_line, message) from None


def _error(text: str, at: int, file: str, first_line: int, message: str) -> ProgramError:
    line, column = first_line + text.count("\n", 0, at), at - text.rfind("\n", 0, at)
    return ProgramError(f"{file}:{line}:{column}: {message}")


def split_list(text: str) -> list[str]:
    """The items of a list, cut at the commas outside all brackets."""
    items, start, depth = [], 0, 0
    for match in _DELIMITERS.finditer(text):
        depth += bool(match["open"]) - bool(match["close"])
        if depth == 0 and match["stop"] == ",":
            items.append(text[start : match.start()])
            start = match.end()
    items.append(text[start:])
    return [item.strip() for item in items] if text.strip() else []


def end_of_item(text: str, start: int) -> int:
    """Where the item of a list or dictionary that starts here ends."""
    depth = 0
    for match in _DELIMITERS.finditer(text, start):
        depth += bool(match["open"]) - bool(match["close"])
        if depth < 0 or (depth == 0 and match["stop"] == ","):
            return match.start()
    return len(text)


def generic(text: str) -> str:
    """Brings the ops of the `check` dialect to generic form."""
    if "check." not in text:
        return text
    return _rewrite(text, _CHECK)


def rename(text: str, op: str) -> str:
    """Marks an op as `NEWER`, and makes its properties plain attributes: in generic form, or as `op %a : (…) -> …`."""
    operands = r"\s+(?P<operands>%[\w#]+(?:\s*,\s*%[\w#]+)*)\s*(?=:\s*\()"
    plain = re.compile(rf"(?P<op>(?<![\w.$]){re.escape(op)}){operands}|{_SKIPPED}")
    text = plain.sub(lambda match: f'"{op}"({match["operands"]}) ' if match["op"] else match[0], text)
    pattern = re.compile(rf'(?P<generic>"{re.escape(op)}")(?=\s*\()|{_SKIPPED}|(?P<name>(?!))')
    return _rewrite(text, pattern, f'"{NEWER}{op}"')


def rename_type(text: str, name: str) -> str:
    """Marks a type, such as `!stablehlo.future` or `f8E5M3FNU`, as `NEWER`."""
    pattern = re.compile(rf"(?P<type>(?<!\.){re.escape(name)})\b|{_SKIPPED}")
    return pattern.sub(lambda match: f"!{NEWER}{name.removeprefix('!')}" if match["type"] else match[0], text)


def _rewrite(text: str, pattern: re.Pattern[str], renamed: str = "") -> str:
    """Rewrites each op that `pattern` finds, up to one that is malformed; strings and comments stay."""
    done, position = [], 0
    while match := pattern.search(text, position):
        end = match.end()
        try:
            if match["generic"]:
                written, end = _without_properties(text, match.start())
                written = (renamed or match[0]) + written.removeprefix(match[0])
            elif match["name"]:
                written, end = _generic_check(text, match)
            else:
                written = match[0]
        except _NotUnderstoodError:
            break  # MLIR refuses the program here at the latest; to look on would take quadratic time
        missing = text.count("\n", match.start(), end) - written.count("\n")
        done += [text[position : match.start()], written, "\n" * missing]
        position = end
    return "".join([*done, text[position:]])


def _generic_check(text: str, match: re.Match[str]) -> tuple[str, int]:
    """The generic form of the op that starts at `match`, and where it ends."""
    items, end = items_of(text, match.end())
    # A dictionary may stand before the colon, after it, or at the end: versions differ.
    attributes, end = _dictionary(text, end)
    end = _space(text, end)
    if text[end : end + 1] != ":":
        raise _NotUnderstoodError
    more, end = _dictionary(text, end + 1)
    types, end = _types(text, end)
    last, end = _dictionary(text, end)
    attributes += more + last
    operands = [item for item in items if item.startswith("%")]
    for item in items:
        if re.match(r"\w+\s*=", item):
            # A difference goes up to 2**64 - 1; a number without a type would be a signed one.
            unsigned = re.fullmatch(r"\w+_ulp_difference\s*=\s*\d+", item)
            attributes.append(item + " : ui64" if unsigned else item)
        elif not item.startswith("%"):
            attributes.append(f"value = {item} : {types[0]}")
    types += types[-1:] * (len(operands) - len(types))
    return f'"{match["name"]}"({", ".join(operands)}) {{{", ".join(attributes)}}} : ({", ".join(types)}) -> ()', end


def items_of(text: str, start: int) -> tuple[list[str], int]:
    """Return the texts between commas, up to a colon or a dictionary outside all brackets, and where they end."""
    items, depth, begin = [], 0, start
    for match in _DELIMITERS.finditer(text, start):
        if depth == 0 and (match["stop"] or match[0] == "{"):
            items.append(_bare(text[begin : match.start()]))
            begin = match.end()
            if match["stop"] != ",":
                return items, match.start()
        depth += bool(match["open"]) - bool(match["close"])
        if depth < 0:
            break
    raise _NotUnderstoodError


def _types(text: str, start: int) -> tuple[list[str], int]:
    types, end = [], start
    while True:
        end = _space(text, end)
        match = _TYPE.match(text, end)
        if not match:
            raise _NotUnderstoodError
        begin, end = end, match.end()
        if text[end : end + 1] == "<":
            end = _closing(text, end)
        types.append(_bare(text[begin:end]))
        after = _space(text, end)
        if text[after : after + 1] != ",":
            return types, end
        end = after + 1


def _dictionary(text: str, start: int) -> tuple[list[str], int]:
    """The entries of the attribute dictionary, and where it ends; none and `start` if no dictionary starts here."""
    begin = _space(text, start)
    if text[begin : begin + 1] != "{":
        return [], start
    end = _closing(text, begin)
    return split_list(_bare(text[begin + 1 : end - 1])), end


def _without_properties(text: str, start: int) -> tuple[str, int]:
    """An op in generic form whose properties `<{…}>`, which an unknown op cannot have, are plain attributes."""
    operands = _closing(text, text.index("(", start))
    begin = _space(text, operands)
    if text[begin : begin + 2] != "<{":
        return text[start:operands], operands
    end = _closing(text, begin)
    properties = _bare(text[begin + 2 : end - 2]).replace("\n", " ")
    breaks = "\n" * text.count("\n", begin, end)
    after = _space(text, end)
    if text[after : after + 1] == "(":  # regions
        after = _space(text, _closing(text, after))
    regions = text[end:after]
    if text[after : after + 1] == "{":
        comma = ", " if properties and not text.startswith("}", _space(text, after + 1)) else " "
        return f"{text[start:begin]}{breaks}{regions}{{{properties}{comma}", after + 1
    return f"{text[start:begin]}{breaks}{regions}{{{properties}}} ", after


def _closing(text: str, start: int) -> int:
    """The end of the bracket that opens at `start`."""
    depth = 0
    for match in _DELIMITERS.finditer(text, start):
        depth += bool(match["open"]) - bool(match["close"])
        if depth == 0:
            return match.end()
    raise _NotUnderstoodError


def _space(text: str, start: int) -> int:
    """The end of the white space and comments that start here."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _bare(text: str) -> str:
    """Without comments, and without white space around."""
    return _COMMENT.sub(lambda match: match[1] or "", text).strip()
