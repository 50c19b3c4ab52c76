"""The chips whose arithmetic is known: their names and their conversions. Their sums are in `units.py`."""

from __future__ import annotations

import dataclasses

#: The sources of rows of `CHIPS` and of `units.UNITS`.
SOURCES: dict[str, str] = {
    "MTC": "Khattak and Mikaitis, Accurate Models of NVIDIA Tensor Cores, ACM TACO 2026, doi 10.1145/3830409; "
    "data and models: github.com/north-numerical-computing/MATLAB-tensor-core",
    "MMA-Sim": "Xie et al., MMA-Sim, arXiv 2511.10909; models: github.com/microsoft/MMA-Sim",
    "FTTN": "Li et al., FTTN, arXiv 2403.00232",
    "MIOpen": "AMD, MIOpen documentation, MI200 MFMA behavior specifics",
    "PTX": "NVIDIA, Parallel Thread Execution ISA 9.0, instruction cvt",
    "CDNA3 ISA": "AMD, Instinct MI300 instruction set architecture, V_CVT_PK_FP8_F32 and V_CVT_SR_FP8_F32",
}


@dataclasses.dataclass(frozen=True)
class Casts:
    """The conversions of a chip to narrower floats: to nearest even, with subnormals, unless `facts` says otherwise."""

    overflow: str  #: `Policy.overflow`
    facts: tuple[str, ...]
    source: str


@dataclasses.dataclass(frozen=True)
class Chip:
    """A chip, or a family of chips that compute alike."""

    name: str
    title: str
    casts: Casts
    aliases: tuple[str, ...] = ()

    @property
    def overflow(self) -> str:
        """The result of a conversion beyond the range, as `Policy.overflow` names it."""
        return self.casts.overflow


_IEEE = "f16 and bf16: infinity beyond the range"
_SATFINITE = "FP8: the largest number beyond the range, for infinities too; NaN is the canonical one"
_NO_NAN = "FP6, FP4: the same; NaN is the largest positive number"
_STOCHASTIC = "stochastic forms for f16, bf16, FP8, FP6 and FP4 (rounding=stochastic)"
_SCALES = "f8E8M0FNU: rounded up or toward zero only (rounding=up, toward_zero)"

_SOFTWARE = Casts("ieee", (_IEEE, "no instruction converts to FP8"), "PTX")
_HOPPER = Casts("satfinite", (_IEEE, _SATFINITE), "PTX")
_RTX_BLACKWELL = Casts("satfinite", (_IEEE, _SATFINITE, _NO_NAN, _SCALES), "PTX")
_BLACKWELL = Casts("satfinite", (*_RTX_BLACKWELL.facts, _STOCHASTIC), "PTX")
_CDNA = Casts("ieee", (_IEEE, "no instruction converts to FP8"), "CDNA3 ISA")
_CDNA3 = Casts(
    "ieee",
    (
        _IEEE,
        "FNUZ: NaN (0x80) beyond the range; with the mode bit FP16_OVFL the largest number (overflow=saturate)",
        "stochastic forms for FP8 (rounding=stochastic)",
    ),
    "CDNA3 ISA",
)

CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        Chip("v100", "NVIDIA V100 (Volta)", _SOFTWARE, ("volta",)),
        Chip("t4", "NVIDIA T4 (Turing)", _SOFTWARE, ("turing",)),
        Chip("a100", "NVIDIA A100 (Ampere)", _SOFTWARE, ("ampere",)),
        Chip("a2", "NVIDIA A2 (Ampere)", _SOFTWARE),
        Chip("ada", "NVIDIA RTX of the Ada generation", _HOPPER),
        Chip("l40s", "NVIDIA L40S (Ada)", _HOPPER),
        Chip("h100", "NVIDIA H100 (Hopper)", _HOPPER, ("hopper",)),
        Chip("h200", "NVIDIA H200 (Hopper)", _HOPPER),
        Chip("b200", "NVIDIA B200 (Blackwell)", _BLACKWELL, ("blackwell",)),
        Chip("rtxpro6000", "NVIDIA RTX PRO 6000 (RTX Blackwell)", _RTX_BLACKWELL),
        Chip("cdna1", "AMD MI100 (CDNA1)", _CDNA, ("mi100",)),
        Chip("cdna2", "AMD MI210, MI250 (CDNA2)", _CDNA, ("mi210", "mi250", "mi250x")),
        Chip("cdna3", "AMD MI300A, MI300X (CDNA3)", _CDNA3, ("mi300", "mi300a", "mi300x")),
    )
}
