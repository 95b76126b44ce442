"""What a setting of SGLang is where nobody types it: constants of the release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines.kernel.omitted import constant, option, text, version
from lockllm.engines.kernel.release_data import NOTHING
from lockllm.engines.sglang.options import DATA, FACTS
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse

_NAMED = {parse(key): name for name, key in FACTS.items()} | {
    ("serve", "structured_output"): "grammar_backend", ("serve", "chunked_prefill_size"): "chunked_prefill_size",
}  # fmt: skip

_AS_TYPED = frozenset({"radix_eviction_policy"})
"""Options of which the release remembers whether they were given (`_radix_eviction_policy_explicitly_set`, since 0.5.20)."""


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the setting out; none where that is not known."""
    release = version(known)
    if not release:
        return ()
    name = _NAMED.get(path) or option(path)
    default = constant(DATA, name, release) if name not in _AS_TYPED else NOTHING
    if default is NOTHING:
        return ()
    if name == "device" and default is None and (platform := text(known, "host", "platform")):
        return (default, platform)
    return (default,)
