"""Which files of a checkpoint reach inference: by rule for the engine and the format, or as include and exclude say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase, translate

import msgspec

from lockllm.facts.keys import file_globs

GGUF_ENGINES = frozenset({"llama.cpp", "ollama", "llama-cpp-python"})
"""Engines that read nothing but GGUF."""

WEIGHTS = "weights"
CONFIG, SAMPLING, QUANTIZATION, INDEX = "config", "sampling", "quantization", "index"
TOKENIZER, TEMPLATE, PROCESSOR, CODE, ADAPTER = "tokenizer", "template", "processor", "code", "adapter"
PROJECTOR, ENGINE, OTHER = "projector", "engine", "other"

_NAMED = {
    "config.json": CONFIG, "params.json": CONFIG, "configuration.json": OTHER, "generation_config.json": SAMPLING,
    "hf_quant_config.json": QUANTIZATION, "quantize_config.json": QUANTIZATION, "quant_config.json": QUANTIZATION,
    "quantization_config.json": QUANTIZATION, "tokenizer.json": TOKENIZER, "tokenizer.model": TOKENIZER,
    "tekken.json": TOKENIZER, "vocab.json": TOKENIZER, "vocab.txt": TOKENIZER, "merges.txt": TOKENIZER,
    "tokenizer_config.json": TOKENIZER, "special_tokens_map.json": TOKENIZER, "added_tokens.json": TOKENIZER,
    "spiece.model": TOKENIZER, "sentencepiece.bpe.model": TOKENIZER, "chat_template.jinja": TEMPLATE,
    "chat_template.json": TEMPLATE, "preprocessor_config.json": PROCESSOR, "processor_config.json": PROCESSOR,
    "video_preprocessor_config.json": PROCESSOR, "adapter_config.json": ADAPTER,
}  # fmt: skip
_PATTERNS = (
    ("tokenizer.model.v*", TOKENIZER), ("*.tiktoken", TOKENIZER),
    ("image_processor*.json", PROCESSOR), ("adapter_model*", ADAPTER), ("*.index.json", INDEX), ("*.py", CODE),
    ("mmproj*.gguf", PROJECTOR), ("rank*.engine", ENGINE),
)  # fmt: skip


def _globs(*patterns: str) -> re.Pattern[str]:
    """One expression for all of them: a folder may hold 100,000 names."""
    return re.compile("|".join(map(translate, patterns)))


_WEIGHT = re.compile(r".*\.(safetensors|bin|pt|pth|gguf)\Z")
_TRAINING = _globs(
    "training_args.bin", "optimizer*", "scheduler*.pt", "scheduler*.bin", "scaler.pt", "rng_state*.pth",
    "trainer_state.json", "*.distcp",
)  # fmt: skip
_TRAINING_FOLDERS = _globs("runs", "eval*", "logs", "checkpoint-*", "global_step*", "wandb")
_PROSE = _globs(
    "readme*", "license*", "licence*", "notice*", "use_policy*", "changelog*", "citation*", "*.md", "*.rst", "*.pdf",
    "*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp", "*.bmp", "*.ico", "*.mp4", "*.mov", "*.webm", "*.mp3",
    "*.wav", "*.ipynb",
)  # fmt: skip
_OTHER_RUNTIMES = _globs(
    "*.onnx", "*.onnx_data", "tf_model*.h5", "*.h5", "*.msgpack", "*.ot", "*.mlmodel", "*.tflite", "*.ckpt", "*.nemo",
    "*.ckpt.*",
)  # fmt: skip
_OTHER_FOLDERS = _globs("onnx", "openvino", "coreml", "*.mlpackage", "original", "flax", "tf", "metal", "gguf")
_LEFTOVERS = _globs("*.incomplete", "*.part", "*.partial", "*.aria2", "*.crdownload", "*.downloading")
_BOOKKEEPING = _globs("*.metadata", "*.lock", "*.sha256", "*.md5", "*.sig", "llm.toml", "*.pyc")
_ROLES = _globs(*(pattern for pattern, _ in _PATTERNS))


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The files that reach inference with their roles, and the others with the reason."""

    format: str  # safetensors, gguf, mistral, bin, pt, tensorrt-llm, peft; empty where no weights are
    kept: Mapping[str, str]
    excluded: Mapping[str, str]
    second: Mapping[str, tuple[str, ...]] = {}  # further sets of weights at the top: format -> files

    def role(self, *roles: str) -> tuple[str, ...]:
        """The kept files of these roles."""
        return tuple(name for name, role in self.kept.items() if role in roles)


def select(
    names: Iterable[str], *, engine: str | None = None, include: Sequence[str] = (), exclude: Sequence[str] = (),
    weights: str | None = None,
) -> Selection:  # fmt: skip
    """Sorts names into those that reach inference and those that do not.

    `weights` chooses a format where several lie in the folder. `include` replaces the rule, `exclude` takes away; their
    globs match the whole path, `*` crosses `/`, a trailing `/` covers a folder. The same names give the same answer
    wherever they come from: the Hub's listing, its cache or a plain folder.
    """
    every = sorted(set(names))
    sets = _sets(every)
    chosen = weights or _format(sets, every, engine)
    kept: dict[str, str] = {}
    excluded: dict[str, str] = {}
    for name in every:
        reason = _never(name)
        if reason is None and include:
            reason = None if _matches(name, include) else "not in include"
        elif reason is None:
            reason = _reason(name, chosen, engine)
        if reason is None and _matches(name, exclude):
            reason = "in exclude"
        if reason is None:
            kept[name] = role(name, chosen)
        else:
            excluded[name] = reason
    second = {kind: files for kind, files in sets.items() if kind != chosen and kind not in {"peft", "pth"}}
    return Selection(format=chosen, kept=kept, excluded=excluded, second=second)


def role(name: str, format_: str = "") -> str:
    """What a file is for."""
    base = name.rpartition("/")[2].lower()
    if format_ == "tensorrt-llm" and base.endswith(".engine"):
        return ENGINE
    named = _NAMED.get(base)
    if named is not None:
        return named
    if name.lower().startswith("additional_chat_templates/") and base.endswith(".jinja"):
        return TEMPLATE
    if _any(base, _ROLES):
        return next(meant for pattern, meant in _PATTERNS if fnmatchcase(base, pattern))
    return WEIGHTS if _WEIGHT.match(base) else OTHER


def is_leftover(name: str) -> bool:
    """Whether the name is that of a download that did not end."""
    return _any(name.rpartition("/")[2].lower(), _LEFTOVERS)


def _sets(names: list[str]) -> dict[str, tuple[str, ...]]:
    """The sets of weights at the top of the folder, by format."""
    top = [name for name in names if "/" not in name and _never(name) is None and not _any(name.lower(), _TRAINING)]

    def those(wanted: str, unwanted: str = r"\b\B") -> tuple[str, ...]:
        return tuple(name for name in top if re.match(wanted, low := name.lower()) and not re.match(unwanted, low))

    found = {
        "tensorrt-llm": those(r".*\.engine\Z"),
        "safetensors": those(r".*\.safetensors\Z", r"consolidated|adapter_"),
        "mistral": those(r"consolidated.*\.safetensors\Z"),
        "bin": those(r".*\.bin\Z", r"adapter_"),
        "pt": those(r".*\.pt\Z"),
        "pth": those(r".*\.pth\Z"),
        "gguf": those(r".*\.gguf\Z", r"mmproj"),
        "peft": those(r"adapter_model"),
    }
    return {kind: files for kind, files in found.items() if files}


def _format(sets: Mapping[str, tuple[str, ...]], names: list[str], engine: str | None) -> str:
    if engine in GGUF_ENGINES and "gguf" in sets:
        return "gguf"
    if "tensorrt-llm" in sets:
        return "tensorrt-llm"
    if "adapter_config.json" in names and "config.json" not in names:
        return "peft"
    return next((kind for kind in ("safetensors", "mistral", "bin", "pt", "gguf", "pth") if kind in sets), "")


def _never(name: str) -> str | None:
    parts = name.lower().split("/")
    if any(part.startswith(".") for part in parts):
        return "hidden: bookkeeping of git, the Hub or the system"
    if "__pycache__" in parts:
        return "compiled code"
    if is_leftover(name):
        return "a download that did not end"
    return "bookkeeping" if _any(parts[-1], _BOOKKEEPING) else None


def _reason(name: str, format_: str, engine: str | None) -> str | None:
    parts = name.lower().split("/")
    base, folders = parts[-1], parts[:-1]
    if format_ == "tensorrt-llm" and base.endswith(".engine"):
        return None
    if engine in GGUF_ENGINES and format_ == "gguf" and not base.endswith(".gguf"):
        return "the GGUF file holds what this engine reads"
    if any(_any(folder, _OTHER_FOLDERS) for folder in folders) or _any(base, _OTHER_RUNTIMES):
        return "for another runtime"
    if any(_any(folder, _TRAINING_FOLDERS) for folder in folders) or _any(base, _TRAINING):
        return "a leftover of training"
    if _any(base, _PROSE):
        return "prose or pictures"
    return _other_weights(base, folders, format_)


def _other_weights(base: str, folders: list[str], format_: str) -> str | None:
    if base.endswith(".index.json"):
        wrong = {
            "safetensors": not base.endswith(".safetensors.index.json"),
            "bin": not base.endswith(".bin.index.json"),
        }
        return "the index of weights that are not loaded" if wrong.get(format_, format_ != "") else None
    if not _WEIGHT.match(base):
        return None
    if folders:
        return "weights in a sub-folder: include them where a flag names them"
    if base.startswith("mmproj") or (base.startswith("adapter_model") and format_ == "peft"):
        return None
    if base.startswith("consolidated"):
        return (
            None if format_ == "mistral" or (format_ == "pth" and base.endswith(".pth")) else "a second set of weights"
        )
    own = {"mistral": "", "peft": "", "tensorrt-llm": "", "": base.rpartition(".")[2]}.get(format_, format_)
    return None if base.endswith("." + own) and not base.startswith("adapter_model") else "a second set of weights"


def _any(name: str, patterns: re.Pattern[str]) -> bool:
    return patterns.match(name) is not None


def _matches(name: str, globs: Sequence[str]) -> bool:
    return file_globs(tuple(globs)).match(name) is not None
