"""What a command line asks for, as it was typed: the side of a host that is compared with a lock's `[asked]`."""

from __future__ import annotations

from collections.abc import Iterator

from lockllm.engines import Given, Installed
from lockllm.facts.fact import Path
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import seen

_NAMED = (("tokenizer", "mode"), ("chat_template", "content_format"))


def counts(path: Path) -> bool:
    """Whether what was typed for a fact is kept: settings; kept options stand in a family that is compared by itself."""
    return (path[0] in ("serve", "sampling") and path[1:2] != ("args",)) or path in _NAMED


def typed(given: Given, installed: Installed | None = None) -> Iterator[Reading]:
    """Every setting that the command, its files and its variables give, `auto` included, and constant defaults.

    `installed`: the options of a release that no table has; its constants come along as readings by DEFAULT.
    """
    for reading in given.readings:
        if counts(reading.fact.path) and reading.fact.known:
            yield reading
    by = next((reading.by for reading in given.readings), By.PLAN)
    for path in sorted(given.auto):
        if counts(path) or path[:2] == ("serve", "args"):
            yield seen(path, "auto", "given as auto", by)
    for each in given.paths:
        if counts(each.fact.path):  # what it holds is compared by itself
            yield seen(each.fact.path, "a file", each.source, by)
    for name, default in installed.defaults.items() if installed is not None else ():
        if default.value is not None and default.value != "":
            yield seen(("serve", "args", name), default.value, default.source, By.DEFAULT)
