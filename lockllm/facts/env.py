"""Variables that change results: which ones may be read into a value, and which never."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|API_?KEY|PRIVATE|(^|_)KEY(S)?($|_))|COOKIE|PASSPHRASE|"
    r"(^|_)DSN$|^KUBECONFIG$|^(DATABASE|REDIS)_URL$|OTLP_HEADERS",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a variable's or option's name says that its value is nobody's business."""
    if not _SECRET.search(name):
        return False
    from lockllm.facts import variables

    row = variables.find(name)
    return row is None or row.name != name or row.kind in (variables.Class.SECRET, variables.Class.OPEN)
