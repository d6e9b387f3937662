"""Every benchmark class that is known without importing it: Orbax's, and which are native here.

A suite names a class by its dotted path. A path that is in no table is a user's class: its options
are looked at later, where its code may run.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.contract.generator import Generator
from runtime.contract.generators_of_orbax import ORBAX
from runtime.contract.generators_of_ours import OURS

GENERATORS: Mapping[str, Generator] = {generator.name: generator for generator in ORBAX}
"""Orbax's dotted name → what is known of the class."""

_BY_NATIVE_NAME = {generator.native: generator for generator in (*ORBAX, *OURS) if generator.native}

RESUMING = tuple(generator for generator in (*ORBAX, *OURS) if generator.resumes)
"""Those that can be disrupted."""


def find(name: str) -> Generator | None:
    """Returns what is known of a class by Orbax's dotted name or our own; None for a user's class."""
    return GENERATORS.get(name) or _BY_NATIVE_NAME.get(name)


def known_names() -> tuple[str, ...]:
    """Every dotted name that `find` knows."""
    return (*GENERATORS, *(name for name in _BY_NATIVE_NAME if name))
