"""Profiles: what they list, their hash on any machine, and each thing in a file that is refused."""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from minihlo.interp.conform import profiles, run
from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.errors import InputError

NAMES = ["fnuz-1.0", "gemm-1.0", "mx-1.0", "ocp-fp8-1.0", "stablehlo-fp8-elementwise-1.0"]
SMALL = """
name = "small"
version = "0.1"
title = "two cases"
sources = ["a test"]
[[cases]]
need = "required"
ops = ["add"]
formats = ["f8E5M2"]
forms = ["array", "size-7"]
[[cases]]
need = "optional"
ops = ["convert"]
formats = ["f32"]
to = ["f8E5M2"]
[declare.overflow]
default = "infinity"
largest = "saturates"
"""


def small(text: str = SMALL) -> profiles.Profile:
    return profiles.parse(text.encode(), "small.toml")


def test_the_profiles_of_minihlo() -> None:
    assert profiles.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_is_frozen(name: str) -> None:
    # The file has the hash, and `load` refuses a list of cases that gives another.
    profile = profiles.load(name)
    assert profile.identifier == name
    assert tomllib.loads(profile.text)["sha256"] == profile.sha256
    known = {c.signature: c for c in cases(3)}
    assert all(set(e.forms) <= set(forms(known[e.signature], 3)) for e in profile.listed)


def test_the_hash_is_that_of_the_canonical_text() -> None:
    text = small().canonical()
    assert json.loads(text) == {
        "schema": "minihlo.profile/1",
        "name": "small",
        "version": "0.1",
        "title": "two cases",
        "sources": ["a test"],
        "level": 1,
        "seed": 0,
        "ulp": 4,
        "declare": {"overflow": {"default": "infinity", "largest": "saturates"}},
        "accumulators": [],
        "cases": [
            ["add.f8E5M2", "required", ["array", "size-7"]],
            ["convert.f32.f8E5M2", "optional", list(forms(_case("convert.f32.f8E5M2"), 1))],
        ],
    }
    assert text.isascii()
    assert " " not in text.replace("two cases", "").replace("a test", "")
    assert small().sha256 == hashlib.sha256(text.encode()).hexdigest()


def _case(signature: str):
    return next(c for c in cases(3) if c.signature == signature)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("two cases", "other words"),
        ('"array", "size-7"', '"array", "size-8"'),
        ('need = "optional"', 'need = "waivable"'),
        ('largest = "saturates"', 'nan = "NaN"'),
        ("[[cases]]\nneed", "seed = 1\n[[cases]]\nneed"),
        ('ops = ["add"]', 'ops = ["add", "subtract"]'),
    ],
)
def test_whatever_a_profile_says_changes_its_hash(old: str, new: str) -> None:
    assert old in SMALL
    assert small(SMALL.replace(old, new, 1)).sha256 != small().sha256


def test_hash_ignores_order_and_comments() -> None:
    first, second = SMALL.index("[[cases]]"), SMALL.rindex("[[cases]]")
    end = SMALL.index("[declare")
    turned = "# a comment\r\n" + SMALL[:first] + SMALL[second:end] + SMALL[first:second] + SMALL[end:]
    assert small(turned.replace('["array", "size-7"]', '["size-7","array"]')).sha256 == small().sha256


def test_hash_without_vector_units() -> None:
    code = "from minihlo.interp.conform import profiles; print(*(profiles.load(n).sha256 for n in profiles.names()))"
    features = "AVX AVX2 FMA3 F16C AVX512F AVX512CD AVX512_SKX AVX512_ICL X86_V3 X86_V4"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "NPY_DISABLE_CPU_FEATURES": features}
    # Numpy warns of features that the processor does not have.
    command = [sys.executable, "-W", "ignore", "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split() == [profiles.load(n).sha256 for n in NAMES]


def test_a_run_has_the_cases_and_forms_of_a_profile() -> None:
    settings = Settings("minihlo")
    tasks = run.tasks(small().choice(), settings, "programs")
    found = {(s.case.signature, s.form) for t in tasks for s in t.specs}
    assert found == {(e.signature, f) for e in small().listed for f in e.forms}
    operations = {s.form for t in run.tasks(small().choice(), settings, "operations") for s in t.specs}
    assert {"array", "size-7"} <= operations
    assert not operations & {"constant", "scalar", "upcast"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"add"', '"addd"', "there is no case addd.f8E5M2"),
        ('"f8E5M2"]\nforms', '"e5m2"]\nforms', "there is no case add.e5m2"),
        ('["add"]', '["add", "add"]', "expected each case once, got add.f8E5M2 twice"),
        ('["array", "size-7"]', '["arrays"]', r"cases\[0\].forms: expected forms .*, got arrays"),
        ('["array", "size-7"]', '["length-3"]', "add.f8E5M2 has no form length-3"),
        ('["add"]', "[]", r"cases\[0\]: expected at least one of ops and of formats, got none"),
        ('"required"', '"must"', r"cases\[0\].need: expected one of required, waivable, optional, got must"),
        ('"required"', '"optional"', "cases: expected some that are required, got none"),
        ('name = "small"', 'name = "Small one"', "name: expected lower-case letters"),
        ('"0.1"', '"v1"', "version: expected numbers with dots, got v1"),
        ('"0.1"', "0.1", "the profile.version: expected a string, got 0.1"),
        ('title = "two cases"', "", "the field 'title' is missing"),
        ('title = "two cases"', 'title = "two cases"\nlevels = 1', "there is no field 'levels'"),
        ('title = "two cases"', 'title = "two cases"\nlevel = 4', "level: expected 1, 2 or 3, got 4"),
        ("[declare.overflow]", "[declare.overflows]", "declare.overflows: expected an open point"),
        ('largest = "saturates"', 'zero = "0"', "declare.overflow: expected choices among infinity, nan, largest"),
        ('default = "infinity"\n', "", "declare.overflow: expected a phrase named default, got none"),
        ('title = "two cases"', 'title = "two cases"\nsha256 = "ab"', "expected a profile with its stated hash ab"),
        ('name = "small"', "name = ", "Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(InputError, match=message) as caught:
        small(SMALL.replace(old, new, 1))
    assert str(caught.value).startswith("small.toml: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\x00")
    (tmp_path / "large.toml").write_bytes(b"#" * (2 << 20))
    (tmp_path / "empty.toml").write_text("")
    for name, message in (
        ("bytes.toml", "utf-8"),
        ("large.toml", "expected at most 1,048,576 bytes, got more"),
        ("empty.toml", "is missing"),
        ("none.toml", "No such file"),
        ("ocp-fp8", "expected a profile or a TOML file, got .*ocp-fp8-1.0"),
    ):
        with pytest.raises(InputError, match=message):
            profiles.load(tmp_path / name)
    (tmp_path / "mine").write_text(SMALL)
    assert profiles.load(tmp_path / "mine").identifier == "small-0.1"
