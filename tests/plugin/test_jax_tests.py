"""The tool that runs JAX's own tests on its CPU and here, tried on tests whose outcomes are known."""

from pathlib import Path

import pytest

from tools.jax_tests import page, run
from tools.jax_tests.__main__ import list_files

VERSIONS = {"jax": "1.2.3", "tests": "1 May 2020"}

_TESTS = """
import os, unittest
class Tests(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): self.assertEqual(os.environ["JAX_PLATFORMS"], "cpu")
    def test_c(self):
        with open(os.environ["COUNT"], "a") as file: file.write("c")
        os.environ["JAX_PLATFORMS"] == "cpu" or os._exit(9)
    def test_d(self): self.skipTest("no")
    def test_e(self): assert (os.environ["JAX_NUM_GENERATED_CASES"], os.environ["MINIHLO_NUM_DEVICES"]) == ("3", "2")
    def test_f(self): raise ValueError("here and there")
    def test_g(self): assert False
"""


def test_a_file_is_run_to_its_end_once_and_reported_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests, results = tmp_path / "tests", tmp_path / "results"
    tests.mkdir()
    (tests / "x_test.py").write_text(_TESTS)
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    file = run.File("x_test.py", devices=2, cases=3, left_out=(("Tests::test_g", "it never ends"),))
    for _ in range(2):  # the second time nothing is run again
        theirs, ours = (run.run(tests, file, platform, results, 300) for platform in ("cpu", "minihlo"))
    assert (tmp_path / "count").read_text() == "cc"
    outcomes = [run.PASSED] * 3 + [run.SKIPPED, run.PASSED, run.FAILED]
    names = [f"Tests::test_{letter}" for letter in "abcdef"]
    assert theirs.outcomes == dict(zip(names, outcomes, strict=True))
    assert ours.outcomes == theirs.outcomes | {"Tests::test_b": run.FAILED, "Tests::test_c": run.CRASHED}
    assert page.worse(theirs, ours) == ["Tests::test_b", "Tests::test_c"]
    assert theirs.is_complete
    assert "'minihlo' != 'cpu'" in ours.messages["Tests::test_b"]

    reasons = [page.Reason("It is another platform.", ("x_test.py::*_b", "x_test.py::Tests::test_a", "y_test.py::*"))]
    text = page.text([file, run.File("y_test.py")], results, reasons, VERSIONS)
    assert "| `x_test.py` | 2 | 3 | 4 | 1 | 1 | 2 | 3 | 1 |" in text
    assert "| `y_test.py` | 1 | 10 | not run | not run | not run | not run | not run | not run |" in text
    assert "It is another platform.\n\n- `x_test.py::Tests::test_b`\n" in text
    assert "## Unexplained\n\n- `x_test.py::Tests::test_c`: the process died\n" in text
    assert "no longer fail\n\n- `x_test.py::Tests::test_a`\n\n## Tests that are not run" in text
    assert "- `x_test.py::Tests::test_g`: it never ends\n" in text

    # Without the results, or without those of the CPU, what the page says stays, if the file is run in the same way.
    files, nothing = [file, run.File("y_test.py")], tmp_path / "nothing"
    run.path_of(results, file, "cpu").unlink()
    assert [page.text(files, r, reasons, VERSIONS, text) for r in (nothing, results)] == [text] * 2
    # Where nothing has failed on the CPU, its row goes with new results from here.
    text = text.replace("| 4 | 1 | 1 | 2 | 3 | 1 |", "| 5 | 0 | 1 | 2 | 3 | 1 |")
    run.Result({"Tests::test_b": run.PASSED}, is_complete=True, cases=3, devices=2).save(
        run.path_of(results, file, "minihlo")
    )
    assert "| `x_test.py` | 2 | 3 | 5 | 0 | 1 | 1 | 0 | 0 |" in page.text(files, results, reasons, VERSIONS, text)
    other = run.File("x_test.py", devices=2, cases=4)
    assert "| `x_test.py` | 2 | 4 | not run |" in page.text([other], nothing, reasons, VERSIONS, text)


def test_the_lists_can_be_read() -> None:
    files = list_files()
    assert len({f.name for f in files}) == len(files) > 40
    assert {f.devices for f in files} == {1, 2, 8}
    names = {f.name for f in files}
    assert all(t.partition("::")[0] in names for reason in page.reasons() for t in reason.tests)
