"""Submissions of runs on a profile, and each way in which one is touched."""

import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minihlo.interp.conform import profiles
from minihlo.interp.conform.result import load
from minihlo.interp.conform.submission import bundle

from .profile_runs import PROFILE, Run, conform, on_profile, runner, write

pytestmark = pytest.mark.usefixtures("in_the_repository")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(tmp_path, capsys)


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A submission with two waivers."""
    folder = tmp_path_factory.mktemp("made")
    write(folder)
    words = on_profile("tests.conform_profile_backends:without_f64", "--waivers", "@w.toml", "--submit", "@s.zip")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[2])
        assert conform(folder, *words) == 0
    return (folder / "s.zip").read_bytes()


def test_a_submission_is_verified(run: Run, tmp_path: Path, submission: bytes) -> None:
    (tmp_path / "s.zip").write_bytes(submission)
    status, out, _ = run("verify", "@s.zip", "--badge", "@b.svg", "--badge", "@b.json")
    assert status == 0
    assert out[0] == "waiver convert.f64.*: the chip has no f64"
    assert out[-1].startswith(
        "verified: tests.conform_profile_backends:without_f64: conformant with 2 waivers (test-1.0, not a profile of "
    )
    badge = json.loads((tmp_path / "b.json").read_text())
    assert (badge["schemaVersion"], badge["label"], badge["message"]) == (
        1,
        "own profile test-1.0",
        "conformant with 2 waivers",
    )
    drawn = ET.parse(tmp_path / "b.svg").getroot()
    assert drawn.findtext("{*}title") == "own profile test-1.0: conformant with 2 waivers"


def test_the_claim(submission: bytes) -> None:
    claim = json.loads(members(submission)[bundle.CLAIM])
    assert claim["verdict"] == "conformant with 2 waivers"
    assert [w["reason"] for w in claim["waivers"]] == ["the chip has no f64", "ticket 7"]
    assert claim["declared"] == {"overflow": "infinity or NaN", "accumulator": "exact"}
    assert claim["nan_codes"]["f8E4M3FN"] == ["0x7F", "0xFF"]
    assert claim["counts"]["UNSUPPORTED"] == 2
    assert claim["environment"]["numpy"] == np.__version__


def test_the_codes_are_those_of_the_backend(submission: bytes) -> None:
    # The results of the type itself are its operands, in order.
    parts = members(submission)
    results, at = json.loads(parts[bundle.RESULTS]), 0
    for case in results["cases"]:
        for part, kept in sorted(case.get("kept", {}).items(), key=lambda item: int(item[0])):
            raw = parts[bundle.CODES][at : at + kept["size"]]
            assert hashlib.sha256(raw).hexdigest() == kept["sha256"]
            if case["signature"] == "type.f8E5M2":
                assert (part, raw) == ("0", bytes(range(256)))
            at += kept["size"]
    assert at == len(parts[bundle.CODES]) > 1 << 16


def members(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: dict[str, bytes]) -> bytes:
    submission = io.BytesIO()
    with zipfile.ZipFile(submission, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    return submission.getvalue()


def with_hashes(parts: dict[str, bytes]) -> dict[str, bytes]:
    """With a manifest that fits: as one does who wants to deceive."""
    listed = {
        n: {"size": len(r), "sha256": hashlib.sha256(r).hexdigest()} for n, r in parts.items() if n != "manifest.json"
    }
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    manifest = {"schema": bundle.SCHEMA, "members": listed, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return parts | {"manifest.json": json.dumps(manifest).encode()}


def changed(parts: dict[str, bytes], name: str, change: Callable[[Any], Any]) -> dict[str, bytes]:
    """With a JSON changed in place, and all hashes made again."""
    data = json.loads(parts[name])
    change(data)
    return with_hashes(parts | {name: json.dumps(data).encode()})


def one_byte(parts: dict[str, bytes], at: int = 300) -> dict[str, bytes]:
    codes = bytearray(parts[bundle.CODES])
    codes[at] ^= 1
    return parts | {bundle.CODES: bytes(codes)}


def forged_byte(parts: dict[str, bytes]) -> dict[str, bytes]:
    """One result changed, with every hash made again."""
    touched, at = one_byte(parts), 0
    results = json.loads(parts[bundle.RESULTS])
    for case in results["cases"]:
        for _, kept in sorted(case.get("kept", {}).items(), key=lambda item: int(item[0])):
            kept["sha256"] = hashlib.sha256(touched[bundle.CODES][at : at + kept["size"]]).hexdigest()
            at += kept["size"]
    return with_hashes(touched | {bundle.RESULTS: json.dumps(results).encode()})


def without_case(parts: dict[str, bytes], signature: str, form: str) -> dict[str, bytes]:
    results, codes, at = json.loads(parts[bundle.RESULTS]), b"", 0
    for case in results["cases"]:
        size = sum(kept["size"] for kept in case.get("kept", {}).values())
        codes += b"" if (case["signature"], case["form"]) == (signature, form) else parts[bundle.CODES][at : at + size]
        at += size
    results["cases"] = [c for c in results["cases"] if (c["signature"], c["form"]) != (signature, form)]
    return with_hashes(parts | {bundle.RESULTS: json.dumps(results).encode(), bundle.CODES: codes})


def waived(parts: dict[str, bytes], case: str, reason: str = "why not") -> dict[str, bytes]:
    return changed(parts, bundle.CLAIM, lambda c: c["waivers"].append({"case": case, "reason": reason, "form": "*"}))


def other_profile(parts: dict[str, bytes]) -> dict[str, bytes]:
    text = parts[bundle.PROFILE].decode().replace('"waivable"', '"optional"')
    return with_hashes(parts | {bundle.PROFILE: text.encode()})


TOUCHED: dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]] = {
    "one byte": (one_byte, r"codes.bin has been changed \(results of add.f8E4M3FN array\): expected the SHA-256"),
    "one byte, with new hashes": (forged_byte, r"add.f8E4M3FN array: verdict: claimed PASS, but the results give FAIL"),
    "fewer codes": (
        lambda p: with_hashes(p | {bundle.CODES: p[bundle.CODES][:-4]}),
        r"codes.bin has been changed: the results of dot_general.f8E4M3FN.f32 length-17 are not",
    ),
    "more codes": (lambda p: with_hashes(p | {bundle.CODES: p[bundle.CODES] + b"x"}), "has more results than"),
    "a case is missing": (
        lambda p: without_case(p, "add.f8E4M3FN", "transposed"),
        r"add.f8E4M3FN transposed: the case is missing",
    ),
    "a case is there twice": (
        lambda p: changed(
            p, bundle.RESULTS, lambda r: r["cases"].append(next(c for c in r["cases"] if not c.get("kept")))
        ),
        r"convert.f64.f8E5M2 array: the case is there twice",
    ),
    "one waiver too many": (lambda p: waived(p, "convert.f32.*"), r"the waiver convert.f32.\* is superfluous"),
    "a waiver of no case": (lambda p: waived(p, "exp.*"), r"the waiver exp.\* is superfluous"),
    "a waiver of what is required": (
        lambda p: waived(p, "add.*"),
        r"the waiver add.\* is not permitted: test-1.0 requires add.f8E4M3FN array",
    ),
    "a waiver without a reason": (lambda p: waived(p, "convert.f32.*", " "), r"\(convert.f32.\*\): expected a reason"),
    "a waiver fewer": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c["waivers"].pop()),
        "the claim is 'conformant with 2 waivers', and the results are 'not conformant'",
    ),
    "another verdict": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c.update(verdict="conformant")),
        "the claim is 'conformant', and the results are 'conformant with 2 waivers'",
    ),
    "another choice": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c["declared"].update(overflow="saturates")),
        "claim.json: declared: claimed accumulator exact, overflow saturates|overflow saturates, accumulator exact",
    ),
    "other NaN codes": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c["nan_codes"].clear()),
        "claim.json: nan_codes: claimed none",
    ),
    "other counts": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c["counts"].update(PASS=99)),
        "claim.json: counts: claimed .*PASS 99",
    ),
    "another profile": (other_profile, r"another profile: the claim is of test-1.0 with the hash [0-9a-f]{64}, and"),
    "another backend": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c.update(backend="best:chip")),
        "the claim is of best:chip, and results.json is of tests.conform_profile_backends:without_f64",
    ),
    "another level": (
        lambda p: changed(p, bundle.RESULTS, lambda r: r["run"].update(level=2)),
        "expected level, seed and ulp 1, 0, 4 as in the profile, got 2, 0, 4",
    ),
    "operations": (
        lambda p: changed(p, bundle.CLAIM, lambda c: c.update(takes="operations")),
        "add.f8E4M3FN upcast: the profile has no such case",
    ),
    "a manifest of other hashes": (
        lambda p: p | {bundle.MANIFEST: p[bundle.MANIFEST].replace(b'"sha256": "', b'"sha256": "0', 1)},
        "has been changed",
    ),
}


@pytest.mark.parametrize("how", TOUCHED)
def test_a_submission_that_was_touched_is_refused(run: Run, tmp_path: Path, submission: bytes, how: str) -> None:
    change, reason = TOUCHED[how]
    (tmp_path / "s.zip").write_bytes(zipped(change(members(submission))))
    status, out, err = run("verify", "@s.zip", "--badge", "@b.svg")
    assert (status, err) == (1, [])
    assert re.search(reason, "\n".join(out)), out
    assert out[-1].startswith("refused: ")
    assert not (tmp_path / "b.svg").exists()


def test_a_submission_under_the_name_of_a_profile_of_minihlo(run: Run, tmp_path: Path) -> None:
    text = PROFILE.replace('name = "test"', 'name = "ocp-fp8"')
    (tmp_path / "p.toml").write_text(text)
    assert run(*on_profile("minihlo", "--submit", "@s.zip"))[0] == 0
    status, out, _ = run("verify", "@s.zip")
    assert status == 1
    assert "another profile: expected ocp-fp8-1.0 with the hash" in out[0]


def bomb(name: str, size: int) -> bytes:
    submission = io.BytesIO()
    with zipfile.ZipFile(submission, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in bundle.MEMBERS:
            with archive.open(member, "w") as file:
                for _ in range(size >> 20 if member == name else 0):
                    file.write(bytes(1 << 20))
    return submission.getvalue()


def test_files_that_are_no_submissions(run: Run, tmp_path: Path, submission: bytes) -> None:
    parts = members(submission)
    raw = bytearray(submission)
    raw[len(raw) // 2] ^= 0xFF
    for given, message in {
        b"": "no zip",
        b"PK\x03\x04": "no zip",
        submission[: len(submission) // 2]: "no zip",
        bytes(raw): "is damaged",
        zipped(parts | {"../evil": b""}): "got '../evil'",
        zipped(parts | {"/etc/passwd": b""}): "got '/etc/passwd'",
        zipped({n: r for n, r in parts.items() if n != bundle.CODES}): "got none named codes.bin",
        zipped(parts | {bundle.CLAIM: b"{"}): "claim.json: expected JSON, got",
        zipped(parts | {bundle.CLAIM: b"[]"}): "claim.json: expected an object",
        zipped(parts | {bundle.CLAIM: b"[" * 99999}): "claim.json: .*nested",
        zipped(parts | {bundle.RESULTS: b"{}"}): "is not a result of minihlo conform",
        zipped(parts | {bundle.CLAIM: parts[bundle.CLAIM].replace(b"submission/1", b"submission/9")}): "schema",
        bomb(bundle.CLAIM, 8 << 20): "claim.json: expected up to 4,194,304 bytes, got 8,388,608",
    }.items():
        (tmp_path / "s.zip").write_bytes(given)
        status, out, err = run("verify", "@s.zip")
        assert (status, out, len(err)) == (2, [], 1), (message, out, err)
        assert re.search(message, err[0]), (message, err)


def test_an_unfinished_run_is_continued_with_its_codes(run: Run, tmp_path: Path) -> None:
    assert run(*on_profile("minihlo", "--json", "@r.json", "--submit", "@a.zip"))[0] == 0
    report = load(tmp_path / "r.json")
    report.run.complete, report.cases = False, report.cases[:4]
    report.save(tmp_path / "r.json")
    status, _, err = run(*on_profile("minihlo", "--json", "@r.json", "--submit", "@b.zip"))
    assert status == 0
    assert err[0] == "@r.json: continues an unfinished run, which has 4 cases"
    a, b = (members((tmp_path / name).read_bytes()) for name in ("a.zip", "b.zip"))
    assert a[bundle.CODES] == b[bundle.CODES]
    assert run("verify", "@b.zip")[0] == 0
    # What a run without --submit has left has no codes.
    report.run.options["keeps"] = []
    report.save(tmp_path / "r.json")
    assert run(*on_profile("minihlo", "--json", "@r.json", "--submit", "@b.zip"))[0] == 2


def test_the_verdict_says_whose_profile_it_is() -> None:
    ours = profiles.load("ocp-fp8-1.0")
    assert profiles.origin(ours) == f"ocp-fp8-1.0, a profile of minihlo, SHA-256 {ours.sha256[:12]}"
    near = profiles.parse(ours.text.replace('"1.0"', '"1.00"', 1).replace(ours.sha256, "").encode(), "near")
    assert profiles.origin(near).startswith("ocp-fp8-1.00, not a profile of minihlo, ")
    other = profiles.parse(ours.text.replace("title = ", "title = '' # ", 1).replace(ours.sha256, "").encode(), "other")
    assert profiles.origin(other).startswith("ocp-fp8-1.0, not a profile of minihlo, ")
