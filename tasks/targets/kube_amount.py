"""How Kubernetes writes amounts of processors and memory, as numbers. Pure."""

from __future__ import annotations


def amount(quantity: object) -> float:
    """Returns a quantity of Kubernetes (`15890m`, `58Gi`, `4`) as a number; 0 for what is none."""
    text = str(quantity)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            text, times = text[: -len(suffix)], factor
            break
    else:
        times = 1.0
    try:
        return float(text) * times
    except ValueError:
        return 0.0


_SUFFIXES = {
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)},
    "m": 0.001,
    **{letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)},
}
