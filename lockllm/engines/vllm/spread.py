"""Options of vLLM that say several facts at once: drafts, adapters, sampling, template arguments, memory share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lockllm.engines import Model
from lockllm.engines.kernel.argparse import Word
from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.kernel.values import leaves, secret_name, unresolved
from lockllm.facts.observation import CheckStatus

SAMPLING_KEYS = {
    "repetition_penalty": "0.6.6",
    "temperature": "0.6.6",
    "top_k": "0.6.6",
    "top_p": "0.6.6",
    "min_p": "0.6.6",
    "max_new_tokens": "0.7.1",
    "presence_penalty": "0.31.0",
    "frequency_penalty": "0.31.0",
    "skip_special_tokens": "0.33.0",
}
"""Keys of a generation config that become sampling defaults -> first release that keeps each (`config/model.py`)."""


def spread(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    """What one of these options says."""
    if unresolved(word.value) and word.name not in ("speculative_model", "spec_model", "gpu_memory_utilization"):
        found.kept(word.name, word.value, source)
        return
    SPREADERS[word.name](found, word, source, words, version)


def _speculative(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    value = word.value
    if not isinstance(value, dict):
        found.kept(word.name, value, source)
        return
    for path, leaf in leaves({key: inner for key, inner in value.items() if key not in ("model", "revision")}):
        if any(secret_name(segment) for segment in path):
            found.secret(leaf)
        else:
            found.set(("serve", "speculative", *path), leaf, source)
    if isinstance(value.get("model"), str):
        revision = value.get("revision")
        found.draft = Model(
            text=value["model"], source=source, revision=revision if isinstance(revision, str) else None
        )


def _draft(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    text = str(word.value)
    if text.startswith("[") and text.endswith("]"):  # [ngram] names a method, not a model
        found.set("serve.speculative.method", text.strip("[]"), source)
    else:
        found.draft = Model(text=text, source=source)


def _draft_tokens(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    found.set("serve.speculative.num_speculative_tokens", word.value, source)


def _draft_method(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    found.set("serve.speculative.method", word.value, source)


def _adapters(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    for item in word.value if isinstance(word.value, tuple) else (word.value,):
        text = str(item)
        name, equals, path = text.partition("=")
        if equals and "," not in text and not text.lstrip().startswith(("{", "[")):
            found.adapters[name] = Model(text=path, source=source)
            continue
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            found.warnings.append("an entry of --lora-modules is neither name=path nor JSON")
            continue
        for each in told if isinstance(told, list) else [told]:
            if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("path"), str):
                found.adapters[each["name"]] = Model(text=each["path"], source=source)


def _sampling(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    if not isinstance(word.value, dict):
        found.kept(word.name, word.value, source)
        return
    for key, value in word.value.items():
        if secret_name(key):
            found.secret(value)
            continue
        since = SAMPLING_KEYS.get(key)
        kept = version is None or (since is not None and at_least(version, since))
        if not kept:
            found.kept(f"{word.name}.{key}", None, source) if value is None else found.set(
                ("serve", "args", word.name, key), value, source
            )
            found.finding(
                "check.settings_take_effect", CheckStatus.FAIL, f"{key} in --override-generation-config has no effect",
                source, "send it with each request",
            )  # fmt: skip
        elif value is not None:
            found.set(("sampling", "max_tokens" if key == "max_new_tokens" else key), value, source)


def _template_arguments(
    found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None
) -> None:
    if not isinstance(word.value, dict):
        found.kept(word.name, word.value, source)
        return
    for path, leaf in leaves(word.value):
        if any(secret_name(segment) for segment in path):
            found.secret(leaf)
            continue
        found.set(("serve", "chat_template_kwargs", *path), leaf, source)
        found.set(("serve", word.name, *path), leaf, source)


def _memory_share(found: Collect, word: Word, source: str, words: Mapping[str, Word], version: str | None) -> None:
    found.set("serve.gpu_memory_share", word.value, source)
    found.set(("serve", word.name), word.value, source)


SPREADERS: dict[str, Callable[[Collect, Word, str, Mapping[str, Word], str | None], Any]] = {
    "speculative_config": _speculative,
    "speculative_model": _draft,
    "spec_model": _draft,
    "num_speculative_tokens": _draft_tokens,
    "spec_tokens": _draft_tokens,
    "spec_method": _draft_method,
    "lora_modules": _adapters,
    "override_generation_config": _sampling,
    "default_chat_template_kwargs": _template_arguments,
    "gpu_memory_utilization": _memory_share,
}
"""Option -> what reads it."""
