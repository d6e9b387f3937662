"""Amounts of resources: `100m`, `2Gi`, `4`; what a pod asks for."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.cloud.kubernetes.store import Obj

_UNITS = {
    "": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_DECIMAL = ("m", "", "k", "M", "G", "T", "P")
_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def number(text: Any) -> float:
    """Returns an amount as a number; ValueError for what is none."""
    match = re.fullmatch(r"\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)([a-zA-Z]*)\s*", str(text))
    if not match or match[2] not in _UNITS:
        raise ValueError(_FORM)
    return float(match[1]) * _UNITS[match[2]]


def canonical(given: Any) -> str:
    """Returns an amount as the server writes it: `4096Mi` as `4Gi`, `0.5` as `500m`; ValueError for what is none."""
    amount, unit = number(given), re.sub(r"[-+0-9.\s]", "", str(given))
    if unit.lower() == "e":
        return str(given).strip()
    if unit.endswith("i") and abs(amount) >= 1024:
        power = 0
        while power < len(_BINARY) - 1 and amount % 1024 == 0:
            amount, power = amount / 1024, power + 1
        return f"{amount:.0f}{_BINARY[power]}"
    thousandths, power = round(amount * 1000), 0
    while thousandths and power < len(_DECIMAL) - 1 and thousandths % 1000 == 0:
        thousandths, power = thousandths // 1000, power + 1
    return f"{thousandths}{_DECIMAL[power]}" if thousandths else "0"


def text(amount: float) -> str:
    """Returns a whole number without its point."""
    return str(int(amount)) if amount == int(amount) else f"{amount * 1000:.0f}m"


def numbers(amounts: dict[str, Any]) -> dict[str, float]:
    """Returns amounts as numbers."""
    return {name: number(one) for name, one in amounts.items()}


def requests(pod: Obj) -> dict[str, float]:
    """Returns what a pod (or a pod template) asks for: the sum of its containers, or its largest init container."""
    spec = pod["spec"]
    total: Counter[str] = Counter()
    for one in spec.get("containers") or []:
        total.update(_of(one))
    for one in spec.get("initContainers") or []:
        own = _of(one)
        if one.get("restartPolicy") == "Always":
            total.update(own)
            continue
        for name, amount in own.items():
            total[name] = max(total[name], amount)
    return dict(total)


def _of(container: dict[str, Any]) -> dict[str, float]:
    resources = container.get("resources") or {}
    return numbers({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
