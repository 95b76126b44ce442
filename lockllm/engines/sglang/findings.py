"""Findings of an SGLang command that need no lock: what is given and does not hold."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.engines import Context, Given
from lockllm.engines.kernel.collect import known_value
from lockllm.engines.kernel.releases import at_least, below, beyond
from lockllm.engines.sglang.attention import (
    DETERMINISTIC_SINCE,
    accepts_deterministic,
    before_ampere,
    falls_back,
    keeps_radix,
)
from lockllm.engines.sglang.options import NEWEST
from lockllm.facts.observation import Check, CheckStatus

_NAME = "check.deterministic_holds"
_BACKENDS = ("serve.attention_backend", "serve.args.decode_attention_backend")
_TOKENSPEED_GONE_SINCE = "0.5.23"
"""Since then another name for cutedsl_mla (`handle_deprecated_args` of `arg_groups/serving_hook.py`)."""


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """What the command asks for and this release does not give."""
    if given is None or context.version is None or beyond(context.version, NEWEST):
        return
    yield from _deterministic(given, context.version)
    yield from _seed(given, context.version)
    yield from _not_as_asked(given, context)


def _not_as_asked(given: Given, context: Context) -> Iterable[Check]:
    """What is asked and becomes something else on this release or GPU."""
    dtype, cache = known_value(given, "serve.dtype"), known_value(given, "serve.kv_cache_dtype")
    if dtype not in (None, "float16") and before_ampere(context.host.get(("host", "compute_capability"))):
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL, f"this GPU has no bfloat16: SGLang computes in float16, not {dtype}",
            "argument --dtype", "use --dtype float16, or another GPU",
        )  # fmt: skip
    for path in _BACKENDS if at_least(context.version, _TOKENSPEED_GONE_SINCE) else ():
        if known_value(given, path) == "tokenspeed_mla":
            flag = "--" + path.rpartition(".")[2].replace("_", "-")
            yield Check(
                "check.settings_take_effect", CheckStatus.FAIL,
                f"SGLang {context.version} computes with cutedsl_mla and an fp8_e4m3 cache where tokenspeed_mla is asked",
                f"argument {flag}", f"use {flag} cutedsl_mla and --kv-cache-dtype fp8_e4m3",
            )  # fmt: skip
    if falls_back(context.version or "", known_value(given, "serve.attention_backend"), cache):
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL,
            "fa3 does not take an fp8_e5m2 cache: SGLang computes attention with triton",
            "argument --attention-backend", "use --kv-cache-dtype fp8_e4m3, or name triton",
        )  # fmt: skip


def _deterministic(given: Given, version: str) -> Iterable[Check]:
    if known_value(given, "serve.batch_invariant") is not True:
        return
    backend = known_value(given, "serve.attention_backend")
    if below(version, DETERMINISTIC_SINCE):
        yield Check(_NAME, CheckStatus.FAIL, f"sglang {version} has no deterministic mode", "", "use 0.5.3 or newer")
    elif backend is None and not accepts_deterministic(version, None):
        yield Check(
            _NAME, CheckStatus.FAIL, f"sglang {version} starts deterministic mode only where a backend is named",
            "argument --enable-deterministic-inference", "give --attention-backend fa3",
        )  # fmt: skip
    elif isinstance(backend, str) and not accepts_deterministic(version, backend):
        yield Check(
            _NAME, CheckStatus.FAIL, f"deterministic mode does not start with the {backend} attention backend",
            "argument --attention-backend", "use fa3, flashinfer or triton",
        )  # fmt: skip
    elif known_value(given, "serve.speculative.method") is not None:
        yield Check(
            _NAME, CheckStatus.UNKNOWN, "deterministic mode together with speculative decoding was not read to hold",
            "argument --speculative-algorithm", "leave one of the two out",
        )  # fmt: skip
    else:
        kept = isinstance(backend, str) and keeps_radix(version, backend)
        said = "the radix cache stays on" if kept else "the radix cache is switched off where the backend needs it"
        yield Check(
            _NAME, CheckStatus.PASS, f"deterministic mode is on; {said}", "argument --enable-deterministic-inference"
        )


def _seed(given: Given, version: str) -> Iterable[Check]:
    """Up to the deterministic mode a request's seed has no effect: worth a word where a seed is given alone."""
    if known_value(given, "serve.seed") is None or known_value(given, "serve.batch_invariant") is True:
        return
    if at_least(version, DETERMINISTIC_SINCE):
        yield Check(
            "check.settings_take_effect", CheckStatus.UNKNOWN,
            "--random-seed fixes the engine's seed; the seed of a request has no effect without deterministic mode",
            "argument --random-seed", "add --enable-deterministic-inference where requests send seeds",
        )  # fmt: skip
