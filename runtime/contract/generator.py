"""What is known of a benchmark class without importing it, and how entries of the tables are made."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from runtime.contract.options import BenchmarkOptions, Option, Rule, always_valid, options_of

ORBAX_PREFIX = "orbax.checkpoint._src.testing.benchmarks."
NATIVE_PREFIX = "runtime.benchmarks."

Requirement = Literal["pathways", "cloudpickle", "safetensors", "torch", "gpu"]
Data = Literal["any", "needed", "unused", "forbidden"]


@dataclass(frozen=True)
class Generator:
    """What is known of a benchmark class.

    `name` is Orbax's dotted path; of a class of ours that has no twin there, our own. `native` is the path of our own
    class, or None; `definition` is the version of what the native class measures, raised whenever its numbers stop
    being comparable.
    `resumes`: the native class can go on from a checkpoint in the middle of a repeat, after a disruption;
    `own_data`: it makes what it saves itself.
    `why_invalid` judges one combination of options. `data` says whether the class needs a checkpoint of
    the suite (`needed`), does nothing with it (`unused`), or must not be given one (`forbidden`) unless it is for
    others of the suite; `tree_keys` are names that must be in it. `when`
    maps an option to what a true value demands. `workers`: the least number of workers that it makes sense with.
    `known_by`: operations of the native class that people know it by, beside saves and restores; `*` is anything.
    `prepares`: it makes what others of its suite read; what that takes is told, and not judged.
    """

    name: str
    options: tuple[Option, ...]
    why_invalid: Rule = always_valid
    native: str | None = None
    native_options: type[BenchmarkOptions] | None = None
    definition: int = 1
    data: Data = "any"
    tree_keys: tuple[str, ...] = ()
    requires: frozenset[Requirement] = frozenset()
    when: Mapping[str, Requirement] | None = None
    resumes: bool = False
    own_data: bool = False
    workers: int = 1
    known_by: tuple[str, ...] = ()
    prepares: bool = False

    def is_known_by(self, operation: str) -> bool:
        """Says whether people know it by an operation."""
        return any(fnmatch.fnmatchcase(operation, name) for name in self.known_by)

    def requirements(self, options: Mapping[str, Any]) -> frozenset[Requirement]:
        """What a machine must have to run this class with these options."""
        return self.requires | {need for name, need in (self.when or {}).items() if options.get(name)}


def native(name: str, path: str, options: type[BenchmarkOptions], **more: Any) -> Generator:
    """Returns the entry of a class of Orbax's that has a native twin at `path`."""
    more.setdefault("data", "needed")
    return Generator(
        ORBAX_PREFIX + name,
        options_of(options),
        why_invalid=options.rule,
        native=NATIVE_PREFIX + path,
        native_options=options,
        **more,
    )


def ours(path: str, options: type[BenchmarkOptions], **more: Any) -> Generator:
    """Returns the entry of a class of ours that Orbax has none like."""
    name = NATIVE_PREFIX + path
    return Generator(
        name, options_of(options), why_invalid=options.rule, native=name, native_options=options, **more
    )
