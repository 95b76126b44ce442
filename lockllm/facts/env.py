"""Variables that change results: which ones may be read into a value, and which never."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|API_?KEY|PRIVATE|(^|_)KEY(S)?($|_))", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Whether a variable's or option's name says that its value is nobody's business."""
    return bool(_SECRET.search(name))
