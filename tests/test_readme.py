"""The Python session in the README gives what it shows. (Its commands are held by `tools.generate --check`.)"""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_python_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sessions = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(sessions, {}, "README.md", "README.md", 0)
    result = doctest.DocTestRunner().run(test)
    assert result.attempted > 5
    assert result.failed == 0
