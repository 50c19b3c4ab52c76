"""Each op of StableHLO leads to its section of the specification; labels in docstrings are those of that section."""

import re

import pytest

from minihlo.ops.op import SPECIFICATION_VERSION, ops

#: The sections on ops that the specification of version 1.20.0 has (its headings of the third level).
SECTIONS = """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad
batch_norm_inference batch_norm_training bitcast_convert broadcast_in_dim case cbrt ceil cholesky clamp
collective_broadcast collective_permute collective_reduce compare complex composite concatenate constant convert
convolution cosine count_leading_zeros custom_call divide dot_general dynamic_broadcast_in_dim dynamic_conv
dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice exponential
exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag infeed iota is_finite log
log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad partition_id
popcnt power real recv reduce reduce_precision reduce_scatter reduce_window remainder replica_id reshape reverse
rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send
shift_left shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose
triangular_solve tuple uniform_dequantize uniform_quantize while xor
""".split()  # noqa: SIM905
#: Ops that StableHLO has, and that its specification leaves out.
LEFT_OUT = """
broadcast create_token cross-replica-sum dot einsum real_dynamic_slice set_dimension_size torch_index_select
unary_einsum
""".split()  # noqa: SIM905

STABLEHLO = {name.removeprefix("stablehlo."): op for name, op in ops().items() if name.startswith("stablehlo.")}


@pytest.mark.parametrize("name", STABLEHLO)
def test_each_op_leads_to_its_section(name: str) -> None:
    link = STABLEHLO[name].specification
    assert link is not None
    page, _, section = link.partition("#")
    if name in LEFT_OUT:
        assert (page, section) == ("https://openxla.org/stablehlo/generated/stablehlo", "")
    else:
        assert page.startswith("https://github.com/openxla/stablehlo/blob/")
        assert page.endswith("/docs/spec.md")
        assert section == name
        assert section in SECTIONS


def test_every_section_has_an_op() -> None:
    assert set(SECTIONS) == set(STABLEHLO) - set(LEFT_OUT)


def test_other_dialects() -> None:
    assert (ops()["chlo.acos"].specification or "").endswith("/docs/generated/chlo.md")
    assert ops()["check.expect_eq"].specification is None
    assert SPECIFICATION_VERSION == "1.20.0"


def test_labels_stand_only_where_there_is_a_section() -> None:
    labelled = {name for name, op in STABLEHLO.items() if re.search(r"\([CI]\d+\)", op.doc)}
    assert len(labelled) > 60
    assert not labelled & set(LEFT_OUT)
