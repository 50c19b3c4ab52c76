"""The part of the HTML report on causes: a card for each, with the smallest example and its command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..causes import Cause, Member, names
from ..format_text import count
from ..result import CaseResult
from .html_cases import SIGNS, anchor, command, program, table
from .markup import Content, Markup, element, join

#: From a case of a run to the address of its description; None if there is none.
Address = Callable[[str, CaseResult], str | None]


def section(causes: Sequence[Cause]) -> Content:
    """The causes of one run, for the page that also has its cases."""
    if not causes:
        return None
    signatures = len({s for c in causes for s in c.signatures})
    words = f"{count(signatures, 'signature')} fail from {count(len(causes), 'cause')}."
    cards = [card(c, lambda _, case: f"#{anchor(case)}") for c in causes]
    return element("section", element("h2", "Causes"), element("p", words), cards, id="causes")


def card(cause: Cause, address: Address, title: Content = None, runs: Content = None, level: str = "h3") -> Markup:
    """The card of a cause: its sentence, counts, smallest example, and signatures.

    Args:
        cause: the cause.
        address: the address of a case's description.
        title: the heading; None for the sentence.
        runs: a description of the runs that have it; None for nothing.
        level: the element of the heading.
    """
    facts = [count(len(cause.signatures), "signature"), count(len(cause.members), "case")]
    facts += [f"{cause.assumed:,} of these name no fault, and fail as the others do"] if cause.assumed else []
    sign = element("abbr", SIGNS[cause.verdict], class_=f"sign {cause.verdict}", title=cause.verdict)
    return element(
        "article",
        element(level, sign, " ", title or sentence(cause)),
        element("p", " · ".join(facts), class_="facts"),
        runs,
        example(cause.example, address),
        [signatures(cause, run, address, many=len(cause.runs) > 1) for run in cause.runs],
        class_="cause",
    )


def sentence(cause: Cause) -> str:
    """The sentence, capitalized unless it begins with the name of an operation."""
    text = cause.sentence
    is_word = text[:2].isalpha() and text[:2].islower() and not cause.is_of_one_family
    return text[:1].upper() + text[1:] if is_word else text


def example(member: Member, address: Address) -> list[Content]:
    """The smallest member: its codes and values, the command, the program."""
    case, failure = member.case, member.failure
    name: Content = element("code", case.signature)
    where = address(member.run, case)
    return [
        element(
            "p",
            "The smallest example: ",
            element("a", name, href=where) if where else name,
            f", form {case.form}" + (f", on {member.run}" if member.run else ""),
            class_="facts",
        ),
        table(case, [failure]) if failure else element("p", case.message, class_="diagnosis"),
        command(case),
        program(case),
    ]


def signatures(cause: Cause, run: str, address: Address, many: bool) -> Markup:
    """The signatures of a cause in a run, each linked to its description."""
    first = {m.case.signature: m.case for m in reversed(cause.members) if m.run == run}
    listed = [_link(first[s], address(run, first[s])) for s in names(cause, run)]
    words = count(len(listed), "signature") + (f" on {run}" if many else "")
    return element("details", element("summary", words), element("p", join([[x, " "] for x in listed]), class_="names"))


def _link(case: CaseResult, where: str | None) -> Markup:
    name = element("code", case.signature)
    return element("a", name, href=where) if where else name
