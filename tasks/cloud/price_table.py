"""Model of a file with prices: what is no price is refused where it stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _pair(given: Any) -> Any:
    """Refuses what are no two prices, in our words."""
    numbers = [one for one in given if type(one) in (int, float)] if isinstance(given, list) else []
    if len(numbers) != 2 or len(given) != 2:
        raise ValueError("two prices belong here, [on demand, spot] in US dollars per chip and hour")
    if wrong := [one for one in numbers if not 0 <= one < math.inf]:
        raise ValueError(f"a price is no less than 0 and no more than can be paid, not {wrong[0]}")
    return given


_Pair = Annotated[tuple[float, float], BeforeValidator(_pair)]


class PriceTable(BaseModel):
    """The file. `as_of` may be any words, or what YAML takes for a date or a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    as_of: Any = Field()
    source: str
    per_chip_hour: Mapping[str, Mapping[str, _Pair]]
