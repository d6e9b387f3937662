"""Imports paramiko without invoke, which takes a third of the time and serves only `Match exec` in ~/.ssh/config."""

from __future__ import annotations

import sys

# What is None in there counts as not installed, and paramiko does without.
_away = "invoke" not in sys.modules
if _away:
    sys.modules["invoke"] = None  # type: ignore[assignment]
try:
    import paramiko as paramiko
    from paramiko.pkey import UnknownKeyType as UnknownKeyType
finally:
    if _away:
        del sys.modules["invoke"]
