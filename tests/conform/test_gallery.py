"""The gallery of the documentation: results of real runs, which the tester still gives, and pages made of them."""

from pathlib import Path

import pytest

from minihlo.interp import cli
from minihlo.interp.conform import causes
from minihlo.interp.conform.result import CRASH, FAIL, CaseResult, Report, load
from minihlo.interp.conform.site import read
from tools import gallery

FILES = sorted(gallery.FOLDER.glob("*.json.gz"))


def recorded(name: str) -> Report:
    path = next(p for p in FILES if p.name.startswith(name))
    return read.check(load(path))


@pytest.fixture(scope="module")
def reference() -> Report:
    return recorded("reference-jaxlib-0.10")


def test_results_are_small_and_of_every_backend() -> None:
    assert {p.name.split("-")[0] for p in FILES} == {b.split(":")[0] for b in gallery.BACKENDS}
    assert max(p.stat().st_size for p in FILES) < 800_000
    assert sum(p.stat().st_size for p in FILES) < 3_000_000


def test_causes_of_the_reference_interpreter(reference: Report) -> None:
    failing = {c.signature for c in reference.cases if c.verdict in (FAIL, CRASH)}
    found = causes.of_cases(reference.cases)
    assert len(failing) > 120
    assert [c.identifier for c in found[:6]] == [
        "total-order-ignored",
        "sign-in-exponent",
        "nan-as-infinity",
        "sort-not-total",
        "integral-by-addition",
        "logistic-in-steps",
    ]
    assert sum(len(c.signatures) for c in found[6:]) <= 2
    for cause in found[:6]:
        assert cause.example.failure is not None
        assert cause.example.case.command.startswith("minihlo conform reference --case ")
    # Of a cause all members fail on types and in ways that go together; what is assumed is less than half.
    assert sum(c.assumed for c in found) < len({c.key for c in reference.cases if c.verdict == FAIL}) / 2


def _facts(case: CaseResult) -> tuple[object, ...]:
    return case.key, case.verdict, case.counts, case.causes, case.diagnosis, case.choices, case.command


@pytest.mark.parametrize(
    ("backend", "case"), [("ml_dtypes", "convert.f64.f4E2M1FN"), ("ml_dtypes", "sqrt.f6E2M3FN"), ("minihlo", "tan.f8*")]
)
def test_the_tester_gives_what_is_kept(backend: str, case: str, tmp_path: Path) -> None:
    before = recorded(f"{backend}-")
    path = tmp_path / "now.json"
    assert cli.main(["conform", backend, "--case", case, "-j", "1", "--json", str(path)]) in (0, 1)
    now = load(path)
    if now.run.versions != before.run.versions:
        pytest.skip("other versions are installed than those of the gallery")
    wanted = {c.key: _facts(c) for c in before.cases}
    assert now.cases
    assert [_facts(c) for c in now.cases] == [wanted[c.key] for c in now.cases]
