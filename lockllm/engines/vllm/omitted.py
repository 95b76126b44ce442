"""What a setting of vLLM is where nobody types it: constants of the release, and what `auto` comes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Context
from lockllm.engines.kernel.omitted import constant, option, text, version
from lockllm.engines.kernel.release_data import NOTHING
from lockllm.engines.kernel.releases import at_least, beyond
from lockllm.engines.vllm.case import case
from lockllm.engines.vllm.options import DATA, NEUTRAL, SAME_TAIL
from lockllm.facts.fact import Path

_NAMED: Mapping[Path, str] = {
    **{("serve", name): name for name in SAME_TAIL},
    **{path: name for name, path in NEUTRAL.items()},
}
_OFF = frozenset({"enable_lora"})
"""Switches that the parser leaves None, and `EngineArgs` has false: None is off too."""
_CPU: Mapping[str, Any] = {"block_size": 128, "distributed_executor_backend": "mp", "async_scheduling": False}
"""What `platforms/cpu.py` of 0.31.0 to 0.33.0 puts in the place of an option that was left out (one server).

The block size only for plain attention: MLA has 16 or 256, and a hybrid model's is aligned with its state pages.
"""
_CPU_READ = ("0.31.0", "0.33.0")
_MLA = ("Deepseek", "Kimi", "Glm4Moe", "GlmMoe", "LongcatFlash", "MiniCPM3", "Mistral", "BailingMoe")


def omitted(path: Path, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """The values that mean the same as leaving the setting out; none where that is not known."""
    release = version(known)
    if not release:
        return ()
    name = _NAMED.get(path) or (f"speculative_config.{path[2]}" if path[1:2] == ("speculative",) else option(path))
    default = constant(DATA, name, release)
    told = () if default is NOTHING else (default, False) if name in _OFF and default is None else (default,)
    return (*told, *_resolved(name, default, release, known))


def _resolved(name: str, default: Any, release: str, known: Mapping[Path, Any]) -> tuple[Any, ...]:
    """What the release makes of an option that is unset or `auto`, where a rule that was read says it."""
    platform = text(known, "host", "platform")
    if name == "device" and default in (None, "auto"):
        return ("auto", platform) if platform else ("auto",)
    if name == "attention_backend" and default is None:
        return ("auto",)
    if name in ("runner", "convert") and default == "auto":
        kind = case(None, Context(version=release, checkpoint=known, host=known)).kind
        return () if kind != "generate" else ("generate",) if name == "runner" else ("none",)
    oldest, newest = _CPU_READ
    if (
        name in _CPU
        and default is None
        and platform == "cpu"
        and at_least(release, oldest)
        and not beyond(release, newest)
    ):
        architecture = text(known, "checkpoint", "architecture")
        kind = case(None, Context(version=release, checkpoint=known, host=known)).kind
        plain = name != "block_size" or (kind == "generate" and not architecture.startswith(_MLA))
        return (_CPU[name],) if plain else ()
    return ()
