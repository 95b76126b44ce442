"""llama-server's defaults and `auto` rules, by build; what a command line leaves out, and what follows from it.

Read at commits of 2025-05, 2025-08, 2026-04 to 2026-10, and in runs of b5036, b5671, b7079, b7827, b9093, b9538, b9873,
b10809, b11434 and b11549. A default that moved between two of them is not known there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from lockllm.engines import Context, Given
from lockllm.engines.llamacpp import build as builds
from lockllm.engines.llamacpp.findings import JINJA_OFF, JINJA_ON
from lockllm.engines.llamacpp.given import both
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved, values
from lockllm.facts.registry import dump, fact, find, row_of, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

_OLDEST = 5036
_NEWEST = builds.number(builds.NEWEST) or 0
_PAD = 256
_UNIFIED_SINCE = 7079
_FIT_SINCE = 7827
_NAME = "llama.cpp's default"


class _Moved(msgspec.Struct, frozen=True):
    """A default that changed once: `old` up to a build, `new` from another on, not known between them."""

    old: Any
    old_until: int
    new: Any
    new_since: int

    def at(self, build: int) -> Any:
        """The default of a build; None where it is not known."""
        return self.old if build <= self.old_until else self.new if build >= self.new_since else None


_NONE = "no such thing"
_ALWAYS = _Moved(None, 0, True, 0)
_PLAIN: Mapping[FactKey, _Moved] = {
    "serve.ubatch_size": _Moved(512, 0, 512, 0),
    "serve.enable_prefix_caching": _ALWAYS,
    "serve.cache_reuse": _Moved(0, 0, 0, 0),
    "serve.cache_ram": _Moved(_NONE, 6000, 8192, 7079),
    "serve.cont_batching": _ALWAYS,
    "serve.jinja": _Moved(False, JINJA_OFF, True, JINJA_ON),
    "serve.split_mode": _Moved("layer", 0, "layer", 0),
}
_SLOTS = _Moved(1, 6000, 4, 7079)
_CONTEXT = _Moved(4096, 6000, 0, 9093)
_FLASH = _Moved(False, 6000, "auto", 7079)
_GGUF_SAMPLING = _Moved(False, 6000, True, 9093)
_SAMPLING: Mapping[str, Any] = {
    "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.0, "presence_penalty": 0.0,
    "frequency_penalty": 0.0, "typical_p": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1,
    "repeat_last_n": 64, "dry_multiplier": 0.0, "mirostat": 0, "dynatemp_range": 0.0, "max_tokens": ABSENT,
    "seed": ABSENT,
}  # fmt: skip
_CHAIN = _Moved(
    None, 0, ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"), 9093
)
_FROM_GGUF = frozenset(
    "temperature top_k top_p min_p repetition_penalty xtc_probability xtc_threshold repeat_last_n mirostat "
    "mirostat_tau mirostat_eta samplers".split()
)
"""What GGUF's general.sampling.* keys set where neither option, variable nor config file does."""
_ROUTER = frozenset(("models_dir", "models_preset"))
_FIX_VERSION = 'name the build: engine.version = "b11549"'


class _Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at."""

    build: int
    held: Mapping[Path, Any]
    auto: frozenset[Path]
    context: Context

    def given(self, key: str) -> Any:
        """A value that was given, as documents hold it; None where none was."""
        row = row_of(key)
        value = self.held.get(row.path)
        return None if value is None or value is ABSENT else dump(row, value)

    def of(self, key: str) -> Any:
        """A fact of the checkpoint or the host."""
        path = row_of(key).path
        value = self.context.checkpoint.get(path, self.context.host.get(path))
        return None if value is ABSENT else value


def effective(given: Given | None, context: Context) -> Iterator[Reading | Unobserved]:
    """Everything in force that was not given, for that build. Nothing where the build is not known."""
    build = builds.number(context.version)
    if given is not None and given.model is None and _ROUTER & set(given.operational):
        fix = "look at one of the servers that it starts: its pid, or its own port"
        for group in ("serve", "sampling", "chat_template"):
            yield Unobserved((group,), "this is llama.cpp's router: it serves no model itself", fix)
        return
    if build is None:
        reason = "a llama-server program tells its build only while it runs"
        fix = "look at the running server: GET /props, or a log written with -lv 4"
        yield Unobserved(fact("engine.version").path, reason, fix, Stage.LIVE)
    if build is None or not build >= _OLDEST:
        if context.version is not None:
            reason = (
                f"llama.cpp's defaults before b{_OLDEST} were not read"
                if build
                else "the build of llama.cpp is not known"
            )
            yield from _nothing(given, reason, _FIX_VERSION)
        return
    if build > _NEWEST:
        reason = f"llama.cpp {context.version} is newer than {builds.NEWEST}, the newest build whose defaults were read"
        yield from _nothing(given, reason, "use a newer lockllm, or set the option")
        return
    readings = given.readings if given else ()
    rules = _Rules(build=build, held=values(readings), auto=given.auto if given else frozenset(), context=context)
    for reading in (*_serve(rules), *_sampling(rules)):
        path = reading.path if isinstance(reading, Unobserved) else reading.fact.path
        if path not in rules.held:
            yield reading


def _nothing(given: Given | None, reason: str, fix: str) -> Iterator[Unobserved]:
    held = values(given.readings) if given else {}
    keys = (*_PLAIN, "serve.max_num_seqs", "serve.kv_unified", "serve.max_model_len", "serve.max_num_batched_tokens",
            "serve.kv_cache_dtype", "serve.flash_attn", *(f"sampling.{name}" for name in _SAMPLING))  # fmt: skip
    for key in keys:
        if row_of(key).path not in held:
            yield Unobserved(row_of(key).path, reason, fix)


def _serve(rules: _Rules) -> Iterator[Reading | Unobserved]:
    for key, moved in _PLAIN.items():
        value = moved.at(rules.build)
        if value is None:
            yield _between(key, rules)
        elif value is not _NONE:
            yield seen(key, value, _NAME, By.DEFAULT)
    kinds = [rules.given(f"serve.cache_type_{letter}") or "f16" for letter in "kv"]
    yield seen("serve.kv_cache_dtype", both(*kinds), _NAME, By.DEFAULT)
    yield from _slots(rules)
    yield from _flash(rules)


def _between(key: str, rules: _Rules) -> Unobserved:
    reason = f"the default moved near b{rules.build}, and in which build was not read"
    return Unobserved(row_of(key).path, reason, "set the option, or look at the running server")


def _slots(rules: _Rules) -> Iterator[Reading | Unobserved]:
    """How many slots, whether they share one KV buffer, the context of each, and the batch that is clamped to it."""
    slots = rules.given("serve.max_num_seqs")
    automatic = slots is None
    if slots is None:
        slots = _SLOTS.at(rules.build)
        yield seen("serve.max_num_seqs", slots, "-np auto", By.RULE) if slots else _between("serve.max_num_seqs", rules)
    unified = rules.given("serve.kv_unified")
    if unified is None and rules.build >= _UNIFIED_SINCE:
        unified = (automatic and rules.build >= _SLOTS.new_since) if slots else None
        source = "one buffer where -np is auto" if unified else "-np is given"
        yield (
            _between("serve.kv_unified", rules)
            if unified is None
            else seen("serve.kv_unified", unified, source, By.RULE)
        )
    if slots and not isinstance(slots, int):
        each: int | Unobserved = Unobserved(fact("serve.max_model_len").path, "-np is no whole number", "set -np")
    else:
        each = _context(rules, slots, bool(unified)) if slots else _between("serve.max_model_len", rules)
    if isinstance(each, Unobserved):
        yield each
        yield seen("serve.max_num_batched_tokens", 2048, _NAME, By.DEFAULT)
        return
    trained = rules.of("checkpoint.max_position_embeddings")
    if isinstance(trained, int) and trained > 0:
        yield seen("serve.max_model_len", min(each, trained), "-c over -np, padded, capped by the model", By.RULE)
    else:
        reason = "the model's own context length, which caps it, is not known"
        yield Unobserved(fact("serve.max_model_len").path, reason, "name the checkpoint, or look at the running server")
    whole = each if unified else each * slots
    yield seen("serve.max_num_batched_tokens", min(2048, whole), "-b's default, clamped to the context", By.RULE)


def _context(rules: _Rules, slots: int, unified: bool) -> int | Unobserved:
    """What one slot holds before the model caps it: padded to 256, shared out where the buffer is not one (b11549)."""
    path = fact("serve.max_model_len").path
    if isinstance(held := rules.given("serve.max_model_len"), int):
        return held
    limit = rules.given("serve.args.kv_unified_per_slot")
    if isinstance(limit, int) and limit > 0:
        return Unobserved(path, "--kv-unified-per-slot decides it", "look at the running server")
    asked = rules.given("serve.ctx_size")
    total = _CONTEXT.at(rules.build) if asked is None else asked
    if not isinstance(total, int):
        return _between("serve.max_model_len", rules)
    if total > 0:
        return _padded(total if unified else total // slots, rules)
    fitted = rules.given("serve.args.fit") != "off" and rules.build >= _FIT_SINCE
    if fitted and rules.of("host.platform") != "cpu":
        reason = "without -c, --fit shrinks it to the GPU memory that is free at start"
        return Unobserved(path, reason, "set -c, or -fit off")
    trained = rules.of("checkpoint.max_position_embeddings")
    if not isinstance(trained, int) or trained <= 0:
        return Unobserved(path, "the model's own context length is not known", "name the checkpoint, or set -c")
    return _padded(trained if unified or fitted else trained // slots, rules)


def _padded(size: int, rules: _Rules) -> int:
    return -(-size // _PAD) * _PAD if rules.build >= _UNIFIED_SINCE else size


def _flash(rules: _Rules) -> Iterator[Reading | Unobserved]:
    """`auto` is on unless a device cannot, or the model is Grok."""
    default = _FLASH.at(rules.build)
    if default is None:
        yield _between("serve.flash_attn", rules)
    elif default is False and fact("serve.flash_attn").path not in rules.auto:
        yield seen("serve.flash_attn", "off", _NAME, By.DEFAULT)
    elif rules.of("host.platform") == "cpu":
        grok = str(rules.of("checkpoint.architecture") or "").lower().startswith("grok")
        yield seen("serve.flash_attn", "off" if grok else "on", "-fa auto on CPU", By.RULE)
    else:
        reason = "-fa auto asks each device, and only the log says what it chose"
        yield Unobserved(
            fact("serve.flash_attn").path, reason, "start with -fa on or off, or pass a log written with -lv 4"
        )


def _sampling(rules: _Rules) -> Iterator[Reading | Unobserved]:
    """Built-in values, below the GGUF's own general.sampling.* keys in builds that read them."""
    applied = _GGUF_SAMPLING.at(rules.build)
    chain = _CHAIN.at(rules.build)
    table = {**_SAMPLING, **({"samplers": chain} if chain else {})}
    for name, value in table.items():
        declared = rules.context.checkpoint.get(("checkpoint", "generation_config", name))
        if declared is None or declared is ABSENT or name not in _FROM_GGUF:
            yield seen(("sampling", name), value, _NAME, By.DEFAULT)
        elif applied is None:
            reason = f"whether b{rules.build} reads the GGUF's general.sampling keys was not read"
            yield Unobserved(("sampling", name), reason, "set the option, or look at the running server")
        elif applied:
            row = find(("checkpoint", "generation_config", name))
            yield seen(("sampling", name), dump(row, declared), "GGUF general.sampling", By.RULE)
        else:
            yield seen(("sampling", name), value, _NAME, By.DEFAULT)
