"""What is not supported has an exception of its own, so that nobody reads the sentence to know."""

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import ProgramError, UnsupportedError
from minihlo.interp.plugin.pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, code_of

T = "tensor<2xf32>"


def failure(body: str) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        interp.load(f"func.func @main(%a: {T}) -> {T} {{ {body} }}")(np.ones(2, np.float32))
    return caught.value


@pytest.mark.parametrize(
    "body",
    [
        f'%0 = "stablehlo.frobnicate"(%a) : ({T}) -> {T} return %0 : {T}',
        f"%0 = stablehlo.custom_call @no_such_target(%a) : ({T}) -> {T} return %0 : {T}",
    ],
)
def test_what_is_not_supported(body: str) -> None:
    error = failure(body)
    assert isinstance(error, UnsupportedError)
    assert code_of(error) == UNIMPLEMENTED


def test_what_is_not_valid() -> None:
    error = failure(f'%0 = "stablehlo.add"(%a) : ({T}) -> {T} return %0 : {T}')
    assert not isinstance(error, UnsupportedError)
    assert code_of(error) == INVALID_ARGUMENT
