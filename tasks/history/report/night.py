"""The page of a night: what was gathered in plain words, put into its template with all text escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.history.report.page import TEMPLATES, template


def render_night(page: Mapping[str, Any]) -> str:
    """Returns the page: one HTML document that loads nothing from anywhere."""
    from markupsafe import Markup

    style = Markup((TEMPLATES / "style.css").read_text())  # our own file: the only text that is not escaped
    return template("night.html.j2").render(page=page, style=style)
