"""What the remaining small files declare: tokenizer, adapter, remote code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.checkpoint import hub
from lockllm.checkpoint.findings import Findings
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import seen

TOKENIZER_CONFIG = "tokenizer_config.json"
ADAPTER_CONFIG = "adapter_config.json"
_WITH_CODE = (
    "config.json",
    TOKENIZER_CONFIG,
    "processor_config.json",
    "preprocessor_config.json",
    "generation_config.json",
)
_FOREIGN = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+?)--(?P<name>[\w.]+)\Z")
_ADAPTER = {
    "type": "peft_type", "rank": "r", "alpha": "lora_alpha", "base_model": "base_model_name_or_path",
    "base_revision": "revision", "bias": "bias", "use_dora": "use_dora", "use_rslora": "use_rslora",
}  # fmt: skip


ADAPTER_MORE = (
    "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias", "target_parameters", "layers_to_transform",
    "layers_pattern", "exclude_modules", "trainable_token_indices", "fan_in_fan_out", "use_qalora", "alora_invocation_tokens",
)  # fmt: skip
"""What else moves an adapter's numbers or its modules; told where it is set (peft 0.19 `LoraConfig`)."""
_NEWER_CLASSES = frozenset({"TokenizersBackend", "SentencePieceBackend", "PythonBackend", "MistralCommonBackend"})
_LIMITS = re.compile(
    r"(min|max)_.*|.*_pixels|size|longest_edge|shortest_edge|height|width|crop_size|.*patch.*|.*merge.*|.*tile.*|num_crops|.*_crops|"
    r".*frames.*|fps|.*token.*|.*seq_len.*|.*length|do_resize|do_center_crop|do_pad|do_image_splitting|do_pan_and_scan|pan_and_scan.*|"
    r"resample|sampling_rate|n_fft|hop_length|feature_size|num_mel_bins|chunk_length|rescale_factor|image_mean|image_std|"
    r"image_processor_type|video_processor_type|feature_extractor_type"
)
"""Settings that decide how many tokens an image, video or sound becomes, and which."""
_PROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
_MOST_LIMITS = 200


def processors(files: Mapping[str, Mapping[str, Any]]) -> Iterator[Reading]:
    """Readings of the limits of image, video and audio processors; nested tables as one value."""
    told: set[tuple[str, ...]] = set()
    for file in _PROCESSORS:
        top = files.get(file, {})
        parts = [
            ((), top),
            *(((name,), top[name]) for name in top if isinstance(top[name], dict) and name.endswith("_processor")),
        ]
        kind = ("video",) if file.startswith("video") else ()
        for inner, part in parts:
            for key, value in part.items():
                path = (*kind, *inner, key)
                if path in told or len(told) >= _MOST_LIMITS or value is None or not _LIMITS.fullmatch(key):
                    continue
                if isinstance(value, (bool, int, float, str)) or _is_small(value):
                    told.add(path)
                    where = ".".join((*inner, key))
                    yield seen(("checkpoint", "processor", *path), value, f"{file}: {where}", By.FILE)


def tokenizer_understood(config: Mapping[str, Any], major: int) -> Check | None:
    """Whether the installed transformers loads the tokenizer: 4.57.6 refuses what 5.x writes (both were run)."""
    name, source = "check.tokenizer_understood", TOKENIZER_CONFIG
    kind = config.get("tokenizer_class")
    newer = [f"tokenizer_class {kind}"] if kind in _NEWER_CLASSES else []
    newer += ["a list of extra_special_tokens"] if isinstance(config.get("extra_special_tokens"), list) else []
    if newer and major < 5:
        detail = f"{source} holds {' and '.join(newer)}, which transformers {major} cannot load"
        return Check(name, CheckStatus.FAIL, detail, source, "install transformers 5")
    return Check(name, CheckStatus.PASS, f"transformers {major} loads it", source) if newer else None


def _is_small(value: Any) -> bool:
    """A short list of plain values, or a table of such: a size, a mean."""
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return items is not None and len(items) <= 16 and all(isinstance(each, (bool, int, float, str)) for each in items)


def tokenizer(config: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of tokenizer_config.json."""
    value = config.get("add_bos_token")
    if isinstance(value, bool):
        yield seen("tokenizer.add_bos_token", value, f"{TOKENIZER_CONFIG}: add_bos_token", By.FILE)


def gguf_tokenizer(metadata: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of GGUF's tokenizer keys."""
    for name in ("model", "pre", "bos_token_id", "eos_token_id", "add_bos_token"):
        key = f"tokenizer.ggml.{name}"
        yield seen(("tokenizer", name), metadata.get(key, ABSENT), f"gguf: {key}", By.FILE)


def adapter(config: Mapping[str, Any], findings: Findings) -> Iterator[Reading]:
    """Readings of adapter_config.json, and whether it pins its base."""
    for name, key in _ADAPTER.items():
        value = config.get(key)
        if value is not None or name == "base_revision":
            yield seen(("adapter", name), value, f"{ADAPTER_CONFIG}: {key}", By.FILE)
    for key in ADAPTER_MORE:
        value = config.get(key)
        if value not in (None, False, {}, []):
            texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
            held = sorted(value) if texts else value
            yield seen(("adapter", key), held, f"{ADAPTER_CONFIG}: {key}", By.FILE)
    modules = config.get("target_modules")
    if isinstance(modules, (str, list)):
        held = sorted(map(str, modules)) if isinstance(modules, list) else modules
        yield seen(("adapter", "target_modules"), held, f"{ADAPTER_CONFIG}: target_modules", By.FILE)
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    if revision:
        findings.right("adapter_base_pinned", f"{base} at {revision}", ADAPTER_CONFIG)
    else:
        detail = f"revision is not set: {base} is taken from its default branch"
        findings.wrong("adapter_base_pinned", detail, ADAPTER_CONFIG, "lock the base model itself by its commit")


def code(
    files: Mapping[str, Mapping[str, Any]], present: frozenset[str], cache: str | None, findings: Findings
) -> Iterator[Reading | Unobserved]:
    """Which code the checkpoint asks to run: its own, or that of another repository, at the commit that `cache` holds."""
    local: set[str] = set()
    foreign: dict[str, str] = {}
    for file in _WITH_CODE:
        for reference in _references(files.get(file, {})):
            other = _FOREIGN.match(reference)
            if other:
                foreign.setdefault(other["repo"], f"{file}: auto_map")
            elif re.fullmatch(r"[\w.]+", reference):
                local.add(reference.rpartition(".")[0].replace(".", "/") + ".py")
    for name in sorted(local - present - {".py"}):
        findings.wrong("files_complete", f"{name} is missing, auto_map names it", "", "download the checkpoint again")
    if foreign:
        repos = sorted(foreign)
        yield seen("checkpoint.code_repo", ", ".join(repos), foreign[repos[0]], By.FILE)
        yield _commit(repos, cache)
        detail = f"code of {', '.join(repos)} runs, from its default branch unless a flag pins it"
        findings.wrong(
            "code_pinned", detail, foreign[repos[0]], "pass --code-revision COMMIT, and lock that repository too"
        )
    elif local:
        yield seen("checkpoint.code_repo", ABSENT, "auto_map", By.FILE)
        findings.right("code_pinned", f"{', '.join(sorted(local))} of the checkpoint itself", "auto_map")


def _commit(repos: list[str], cache: str | None) -> Reading | Unobserved:
    fact, fix = ("checkpoint", "code_commit"), "pin it: --code-revision COMMIT"
    if len(repos) > 1:
        return Unobserved(fact, f"code of {len(repos)} repositories runs", fix)
    if cache is None:
        return Unobserved(fact, f"{repos[0]} is looked for in the Hub's cache only, and this is none", fix)
    path, ref = hub.snapshot(hub.repo_folder(cache, repos[0]), None)
    if path is None:
        return Unobserved(fact, f"{repos[0]}: {ref}", fix)
    return seen(fact, path.rpartition("/")[2], f"refs/{ref} of {repos[0]} in the cache", By.FILE)


def _references(config: Mapping[str, Any]) -> Iterator[str]:
    mapped = config.get("auto_map")
    values = list(mapped.values()) if isinstance(mapped, dict) else []
    for value in values:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield each
