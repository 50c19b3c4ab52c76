"""What tests ask of the results of `minihlo conform`."""

from minihlo.interp.conform.result import CRASH, FAIL, CaseResult, Report


def found(report: Report, signature: str, form: str = "array") -> CaseResult:
    return next(c for c in report.cases if c.key == (signature, form))


def failing(report: Report) -> dict[tuple[str, str], str]:
    return {c.key: c.diagnosis for c in report.cases if c.verdict in (FAIL, CRASH)}
