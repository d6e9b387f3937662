"""Finds numbers that stand where true or false belongs, and the other way round: pydantic takes one for the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel


class Mistaken(NamedTuple):
    """Where a value stands, what it must be, and what it is."""

    path: tuple[str | int, ...]
    wanted: str
    given: Any


def mistaken(model: type[BaseModel], value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Mistaken]:
    """Yields what of a file's content is a truth where its model has a number, or a number where it has a truth."""
    if not isinstance(value, Mapping):
        return
    for name, field in model.model_fields.items():
        if name in value:
            yield from _of(field.annotation, value[name], (*path, name))


def _of(annotation: Any, value: Any, path: tuple[str | int, ...]) -> Iterator[Mistaken]:
    kinds = list(_kinds(annotation))
    if isinstance(value, bool) and bool not in kinds and {int, float} & set(kinds):
        yield Mistaken(path, "a whole number" if int in kinds else "a number", value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if bool in kinds and not {int, float} & set(kinds):
            yield Mistaken(path, "true or false", value)
    elif isinstance(value, Mapping):
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from mistaken(kind, value, path)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for items in (get_args(kind)[0] for kind in kinds if get_origin(kind) in (tuple, list)):
            for index, item in enumerate(value):
                yield from _of(items, item, (*path, index))


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yields the types of which a value may be one: what unions and annotations hold."""
    origin = get_origin(annotation)
    if origin is Literal or annotation is None:
        return
    if hasattr(annotation, "__metadata__"):
        yield from _kinds(get_args(annotation)[0])
    elif origin is None or origin in (tuple, list) or not get_args(annotation) or _is_mapping(origin):
        yield annotation
    else:
        for each in get_args(annotation):
            yield from _kinds(each)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)
