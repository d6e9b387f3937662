"""What commands that speak have in common: --json, and the two ways to speak."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from flows.said import print_json as print_json
from flows.said import say as say

Json = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print one JSON object on stdout")
]
