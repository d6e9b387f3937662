"""Imports what a dotted name names, and says in words a user can act on why it does not work."""

from __future__ import annotations

import importlib
from typing import Any

from runtime.contract.errors import BadInput


def import_class(name: str) -> Any:
    """Returns what a dotted name names. Raises BadInput with the reason when it cannot be imported."""
    module, _, attribute = name.rpartition(".")
    if not module:
        raise BadInput(f"generator {name!r} names no module", fix="write package.module.Class")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise BadInput(
            f"module {module} has no {attribute}", fix="check the spelling of the generator"
        ) from error
    except Exception as error:
        raise BadInput(
            f"generator {name} cannot be imported: {type(error).__name__}: {error}",
            fix="install what it needs in the image or venv, or put its folder on PYTHONPATH",
        ) from error
