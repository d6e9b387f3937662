"""What hardware costs an hour, from a dated table that a user can replace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from runtime.contract.errors import BadInput

PRICES_VARIABLE = "SLICEBENCH_PRICES"
"""Environment variable with the path of a table to use in place of ours."""

_OURS = Path(__file__).with_name("prices.yaml")


@dataclass(frozen=True)
class Prices:
    """US dollars per chip and hour, (on demand, spot) by generation and region; "*": in every region."""

    as_of: str
    source: str
    per_chip_hour: Mapping[str, Mapping[str, tuple[float, float]]]

    def per_hour(self, generation: str, chips: int, zone: str, *, spot: bool) -> float | None:
        """Returns what so many chips cost an hour in a zone; None when the table does not say."""
        regions = self.per_chip_hour.get(generation, {})
        pair = regions.get(zone.rsplit("-", 1)[0]) or regions.get("*")
        return None if pair is None else round(chips * pair[1 if spot else 0], 2)


def load_prices() -> Prices:
    """Returns the table in force. Raises BadInput when a user's own cannot be read."""
    return _load(os.environ.get(PRICES_VARIABLE) or str(_OURS))


@cache
def _load(path: str) -> Prices:
    try:
        table = yaml.safe_load(Path(path).read_text())
        rows = {
            str(generation): {
                str(region): (float(pair[0]), float(pair[1])) for region, pair in regions.items()
            }
            for generation, regions in table["per_chip_hour"].items()
        }
        return Prices(str(table["as_of"]), str(table["source"]), rows)
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BadInput(
            f"{path} is no table of prices: {error}", fix=f"write it like {_OURS}, or unset {PRICES_VARIABLE}"
        ) from error
