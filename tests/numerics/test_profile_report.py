"""A profile's table, JSON and HTML page: complete, well-formed, escaped, and the worst line first."""

import json
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.numerics.profile import Profile

from ..conform.test_conform_html import Page

F8 = jnp.float8_e4m3fn


def model(x: Any) -> Any:
    fine = (x * 16).astype(F8)
    poor = (x * 2.0**-12).astype(F8)
    return fine.astype(jnp.float32) + poor.astype(jnp.float32)


@pytest.fixture(scope="module")
def profiled() -> Profile:
    p = interp.profiling(every=1, blocks=["nvfp4"])
    for i in range(3):
        p(model)(np.linspace(-2, 2, 64, dtype=np.float32).reshape(4, 16) * 2.0**i)
    return p


def test_page_begins_with_the_advice(profiled: Profile) -> None:
    text = profiled.html()
    page = Page(text)
    assert "<script" not in text
    assert not any(k.startswith("on") for _, attributes in page.tags for k in attributes)
    links = [a["href"] for name, a in page.tags if name == "a"]
    assert links
    assert all(str(href).startswith("#") and str(href)[1:] in page.ids for href in links)
    line = model.__code__.co_firstlineno + 2
    words = page.text
    first, source = words.index("What to change"), words.index("Source", words.index("What to change"))
    assert f"line {line}: " in words[first:source]
    assert "underflow to zero; a scale of 2^" in words[first:source]
    assert "fine = (x * 16).astype(F8)" in words[source:]
    charts = [a["aria-label"] for name, a in page.tags if name == "svg"]
    assert any("f8E4M3FN holds 2^-9 to 2^8" in str(c) for c in charts)
    assert "shares over steps" in charts
    assert "In nvfp4: " in words


def test_what_programs_say_is_escaped() -> None:
    t = "tensor<4xf8E5M2>"
    p = interp.profile(f"""func.func @main(%x: tensor<4xf32>) -> {t} {{
      %0 = stablehlo.convert %x : (tensor<4xf32>) -> {t} loc("<b>&'".cc":3:1)
      return %0 : {t}
    }}""".replace('''loc("<b>&'".cc":3:1)''', '''loc("<b>&'.cc":3:1)'''), np.full(4, 1e-9, np.float32))  # fmt: skip
    text = p.html()
    Page(text)
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text


def test_a_profile_without_losses_says_so() -> None:
    p = interp.profile(lambda x: x + 1, np.float32(1))
    assert p.sentences() == []
    assert "No operation underflows" in p.html()
    assert "No operation underflows" in str(p)
    Page(Profile().html())


def test_the_json_has_every_count(profiled: Profile, tmp_path: Any) -> None:
    path = tmp_path / "p.json"
    data = json.loads(profiled.to_json(path), parse_constant=lambda c: pytest.fail(c))
    assert data == json.loads(path.read_text())
    assert data["schema"] == 1
    assert [s["step"] for s in data["steps"]] == [0, 1, 2]
    worst = max(data["tensors"], key=lambda t: t["underflows"])
    assert worst["source"] == "poor = (x * 2.0**-12).astype(F8)"
    assert (worst["elements"], worst["executions"], len(worst["steps"])) == (192, 3, 3)
    assert worst["underflows"] == sum(round(s["underflow"] * s["elements"]) for s in worst["steps"])
    assert sum(worst["histogram"].values()) + worst["zeros"] == 192
    assert worst["blocks"][0]["format"] == "nvfp4"


def test_an_infinite_ratio_is_no_number_of_json() -> None:
    p = interp.profile(lambda x: x.astype(F8), np.ones(4, np.float32))
    (t,) = [t for t in p.data()["tensors"] if t["op"] == "stablehlo.convert"]
    assert t["error"]["sqnr_db"] is None
    assert t["error"]["is_exact"] is True
    assert p.tensors[-1].statistics.sqnr == math.inf
    p.to_json()


def test_the_table_has_a_row_for_each_tensor_that_may_lose(profiled: Profile) -> None:
    lines = profiled.table().splitlines()
    assert lines[0].split()[:4] == ["line", "op", "format", "elements"]
    assert len(lines) == 1 + sum(t.rounds and t.statistics.format.bits <= 16 for t in profiled.tensors)
    assert lines[1].split()[1:4] == ["convert", "f8E4M3FN", "192"]
    assert "and 1 more" in profiled.table(1)


def test_a_path_that_cannot_be_written_is_one_line(profiled: Profile) -> None:
    for write in (profiled.html, profiled.to_json):
        with pytest.raises(interp.Error, match="/nowhere/x: No such file"):
            write("/nowhere/x")


def test_the_backward_pass_is_named() -> None:
    @jax.custom_vjp
    def cast(x: Any) -> Any:
        return x

    cast.defvjp(lambda x: (x, None), lambda _, g: ((g * 2.0**-20).astype(F8).astype(jnp.float32),))
    p = interp.profile(jax.grad(lambda x: cast(x).sum()), np.ones(8, np.float32))
    assert "100 % of the f8E4M3FN results of convert in the backward pass underflow" in p.sentences()[0]
