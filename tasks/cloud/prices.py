"""What hardware costs an hour, from a dated table that a user can replace."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

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
    if named := os.environ.get(PRICES_VARIABLE):
        return read_prices(named, f"unset {PRICES_VARIABLE}")
    return read_prices(str(_OURS), "install slicebench again")


@cache
def read_prices(path: str, without: str) -> Prices:
    """Returns the table of a file. Raises BadInput with all that is wrong in it; `without`: how to do without it."""
    from tasks.cloud.price_table import PriceTable
    from tasks.config.load import root_of, validated

    try:
        table = validated(root_of(Path(path)), PriceTable, "the table of prices")
    except BadInput as error:
        *others, last = error.problems
        fix = f"write it like {_OURS}, or {without}"
        told = replace(last, fix=f"{last.fix}; {fix}" if last.fix else fix)
        raise BadInput([*others, told]) from None
    return Prices(str(table.as_of), table.source, table.per_chip_hour)


@contextmanager
def prices_kept() -> Iterator[None]:
    """Puts the table back in force that is now, whichever is meanwhile."""
    before = os.environ.get(PRICES_VARIABLE)
    try:
        yield
    finally:
        os.environ.pop(PRICES_VARIABLE, None)
        if before is not None:
            os.environ[PRICES_VARIABLE] = before
