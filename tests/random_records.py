"""Random accumulators: every fact is drawn, from a seed."""

from typing import Any

import numpy as np

from minihlo.ops.accumulators.record import DROPS, NANS, OVERFLOWS, ROUNDINGS, Accumulator


def random_record(seed: int) -> Accumulator:
    """Return a valid record that is random in every fact that a dot_general can show."""
    rng = np.random.default_rng([seed, 17])
    while True:
        try:
            return Accumulator(**_fields(rng))
        except ValueError:
            continue


def _fields(rng: np.random.Generator) -> dict[str, Any]:
    def one(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    step = int(one(1, 2, 4, 8, 16, 32, 64, 128, 3, 5, 6, 12, 24, 0, int(rng.integers(1, 65))))
    take = one(*["consecutive"] * 4, "1of2", "2of4", "4of8", "1of4")
    run, period = (1, 1) if take == "consecutive" else tuple(map(int, take.split("of")))
    whole = step * period // run
    how = one("aligned", "aligned", "aligned", "after", "after", "joined", "tree", "exact")
    f: dict[str, Any] = {"step": step, "take": take}
    if how == "tree":
        f |= {"tree": True, "c": "after"}
    elif how == "exact":
        f["c"] = one("aligned", "after")
    else:
        f |= {"c": how, "bits": int(rng.integers(2, 36)), "normalise": chance(0.5), "drop": one(*DROPS)}
    if how == "joined":
        f |= {"sum_bits": int(rng.integers(8, 36)), "c_bits": int(rng.integers(8, 36)), "join": one(*DROPS)}
        f |= {"c_reach": one(None, None, int(rng.integers(8, 40))), "even_odd": chance(0.5)}
    if f["c"] == "after" and how != "tree" and whole and chance(0.3):
        f["group"] = whole * int(one(2, 4))
    form, most = one(("f32", 23), ("f32", 23), ("f32", 23), ("f16", 10), ("bf16", 7), ("f64", 50))
    f["keep"] = form if chance(0.6) else f"{form}:{rng.integers(3, most)}"
    f["rounding"] = one(*ROUNDINGS)
    f["flush"] = tuple(x for x in ("operands", "c", "results") if chance(0.25))
    f |= {"overflow": one(*OVERFLOWS), "nan": one(*NANS)}
    if chance(0.3):
        f["least"] = int(rng.integers(-140, 0))
    if chance(0.15):
        f["product_limit"] = int(rng.integers(0, 130))
    if whole and chance(0.3):
        f["outer"] = f.get("group", whole) * int(one(1, 2, 4, 8))
    return f
