"""Variables that change results: which ones may be read into a value, and which never."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lockllm.facts import variables

_SECRET = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|API_?KEY|PRIVATE|(^|_)KEY(S)?($|_))|COOKIE|PASSPHRASE|"
    r"(^|_)DSN$|^KUBECONFIG$|^(DATABASE|REDIS)_URL$|OTLP_HEADERS",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a variable's or option's name says that its value is nobody's business."""
    if not _SECRET.search(name):
        return False
    row = variables.find(name)
    return row is None or row.name != name or row.kind in (variables.Class.SECRET, variables.Class.OPEN)


def unclassified(names: Iterable[str], engine: str) -> tuple[str, ...]:
    """Set variables of the engine, or of the libraries below it, of which nobody has said what they move."""
    prefixes = (*variables.PREFIXES.get(engine, ()), *variables.BELOW)
    found = []
    for name in names:
        if (
            not name.startswith(prefixes)
            or is_secret(name)
            or variables.NAMES_OF_NOISE.search(name)
            or variables.NAMES_OF_SERVICE.search(name)
        ):
            continue
        row = variables.find(name, engine)
        if row is None or row.kind is variables.Class.OPEN:
            found.append(name)
    return tuple(sorted(found))
