"""Which files of a checkpoint reach inference: as the engine's own loader chooses them, or as include and exclude say. Pure.

Read: vLLM `model_loader/default_loader.py` and `weight_utils.py` (0.6 to 0.33), SGLang `model_loader/loader.py` and
`_handle_load_format` (0.5.23), transformers `modeling_utils.py` (5.24), TGI `utils/hub.py` (3.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase, translate

import msgspec

from lockllm import engines
from lockllm.engines import Weights
from lockllm.facts.keys import file_globs

BUILT = "tensorrt-llm"
"""The format of engines that were built ahead, which only one engine makes and loads."""
EDITION = 2
"""The rule of today. Files of a lock of edition 1 are chosen by the rule that it was made with."""
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
_TOKENIZERS = frozenset(
    {"tiktoken.model", "bpe.model", "spm.model", "sentencepiece.model", "vocab.bpe", "encoder.json"}
)
"""Vocabularies under the names that remote tokenizers use (Kimi, GLM-4, Plamo); of no role in locks of edition 1."""
_PATTERNS = (
    ("tokenizer.model.v*", TOKENIZER), ("*.tiktoken", TOKENIZER),
    ("image_processor*.json", PROCESSOR), ("adapter_model*", ADAPTER), ("*.index.json", INDEX), ("*.py", CODE),
    ("mmproj*.gguf", PROJECTOR), ("rank*.engine", ENGINE),
)  # fmt: skip


def _globs(*patterns: str) -> re.Pattern[str]:
    """One expression for all of them: a folder may hold 100,000 names."""
    return re.compile("|".join(map(translate, patterns)))


_WEIGHT = re.compile(r".*\.(safetensors|bin|pt|pth|gguf)\Z")
_CODE = re.compile(r".*\.(py|so|pyd|pyx|cu|cuh|c|cc|cpp|h|hpp)\Z")
"""What remote code may be, or may build and load: none of it is left out by its name or folder."""
_READ = re.compile(r".*\.(json|jinja|model|tiktoken|safetensors|bin|pt|pth|gguf|vocab|spm)\Z")
"""Suffixes of what a loader reads: such a file is no prose, whatever its name begins with."""
_NOT_INFERENCE = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""The only names that vLLM and SGLang leave out of what they glob (`filter_files_not_needed_for_inference`): by their end."""
_FORMATS = {
    "safetensors": "safetensors", "fastsafetensors": "safetensors", "instanttensor": "safetensors",
    "runai_streamer": "safetensors", "runai_streamer_sharded": "safetensors", "sharded_state": "safetensors",
    "mistral": "mistral", "pt": "pt", "npcache": "bin", "gguf": "gguf",
}  # fmt: skip
"""`--load-format` of vLLM and SGLang -> the set of weights that it reads. What is not here leaves the choice to the files."""
_AUTO = (None, "auto")
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
    edition: int = EDITION  # of the rule, and of what is read out of the files

    def role(self, *roles: str) -> tuple[str, ...]:
        """The kept files of these roles."""
        return tuple(name for name, role in self.kept.items() if role in roles)


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """What decides which files are loaded: the engine, its release, and its load format where one is given.

    `edition`: of the lock that the files are held against. Locks of edition 1 were made by an older rule, which left
    files out by their names alone; they are judged by that rule for ever.
    """

    engine: str | None = None
    version: str | None = None
    load_format: str | None = None
    edition: int = EDITION

    @property
    def globs(self) -> bool:
        """Whether all that ends in a weight's suffix is loaded, whatever its name."""
        return self.edition >= 2 and self.opens.globs

    @property
    def opens(self) -> Weights:
        """The rule of the engine's loader."""
        return engines.identity(self.engine).weights


def select(
    names: Iterable[str], *, engine: str | None = None, include: Sequence[str] = (), exclude: Sequence[str] = (),
    weights: str | None = None, loader: Loader | None = None,
) -> Selection:  # fmt: skip
    """Sorts names into those that reach inference and those that do not.

    `weights` chooses a format where several lie in the folder. `include` replaces the rule, `exclude` takes away; their
    globs match the whole path, `*` crosses `/`, a trailing `/` covers a folder. The same names give the same answer
    wherever they come from: the Hub's listing, its cache or a plain folder.
    """
    by = loader or Loader(engine=engine)
    every = sorted(set(names))
    sets = _sets(every, by)
    chosen = weights or _format(sets, every, by)
    both = "" if weights else _beside(every, sets, chosen, by)
    kept: dict[str, str] = {}
    excluded: dict[str, str] = {}
    for name in every:
        reason = _never(name)
        if reason is None and include:
            reason = None if _matches(name, include) else "not in include"
        elif reason is None:
            reason = _reason(name, chosen, by) if name not in sets.get(both, ()) else None
        if reason is None and _matches(name, exclude):
            reason = "in exclude"
        if reason is None:
            kept[name] = role(name, chosen, by.edition)
        else:
            excluded[name] = reason
    second = {kind: files for kind, files in sets.items() if kind != chosen and kind not in {"peft", "pth"}}
    return Selection(format=chosen, kept=kept, excluded=excluded, second=second, edition=by.edition)


def role(name: str, format_: str = "", edition: int = EDITION) -> str:
    """What a file is for."""
    base = name.rpartition("/")[2].lower()
    if format_ == BUILT and base.endswith(".engine"):
        return ENGINE
    named = _NAMED.get(base)
    if named is not None:
        return named
    if name.lower().startswith("additional_chat_templates/") and base.endswith(".jinja"):
        return TEMPLATE
    if edition >= 2 and base in _TOKENIZERS:
        return TOKENIZER
    if _any(base, _ROLES):
        return next(meant for pattern, meant in _PATTERNS if fnmatchcase(base, pattern))
    return WEIGHTS if _WEIGHT.match(base) else OTHER


def is_leftover(name: str) -> bool:
    """Whether the name is that of a download that did not end."""
    return _any(name.rpartition("/")[2].lower(), _LEFTOVERS)


def _sets(names: list[str], by: Loader) -> dict[str, tuple[str, ...]]:
    """The sets of weights at the top of the folder, by format."""
    adapters = r"\b\B" if by.globs else r"adapter_"

    def is_training(low: str) -> bool:
        return _any(low, _TRAINING) if by.edition < 2 else low.endswith(_NOT_INFERENCE)

    top = [name for name in names if "/" not in name and _never(name) is None and not is_training(name.lower())]

    def those(wanted: str, unwanted: str = r"\b\B") -> tuple[str, ...]:
        return tuple(name for name in top if re.match(wanted, low := name.lower()) and not re.match(unwanted, low))

    found = {
        BUILT: those(r".*\.engine\Z"),
        "safetensors": those(r".*\.safetensors\Z", rf"consolidated|{adapters}"),
        "mistral": those(r"consolidated.*\.safetensors\Z"),
        "bin": those(r".*\.bin\Z", adapters),
        "pt": those(r".*\.pt\Z"),
        "pth": those(r".*\.pth\Z"),
        "gguf": those(r".*\.gguf\Z", r"mmproj"),
        "peft": those(r"adapter_model"),
    }
    return {kind: files for kind, files in found.items() if files}


def _format(sets: Mapping[str, tuple[str, ...]], names: list[str], by: Loader) -> str:
    if by.opens.gguf_only and "gguf" in sets:
        return "gguf"
    if BUILT in sets:
        return BUILT
    if "adapter_config.json" in names and "config.json" not in names:
        return "peft"
    if by.edition >= 2:
        named = _FORMATS.get(by.load_format or "", "")
        if named in sets:
            return named
        if "mistral" in sets and _takes_consolidated(by):
            return "mistral"
    return next((kind for kind in ("safetensors", "mistral", "bin", "pt", "gguf", "pth") if kind in sets), "")


def _takes_consolidated(by: Loader) -> bool:
    """Whether `auto` looks for a consolidated set first: from one release on."""
    since, number = by.opens.consolidated_since, _release(by.version)
    return by.load_format in _AUTO and since is not None and number is not None and number >= since


def _release(version: str | None) -> tuple[int, int] | None:
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})", version or "")
    return (int(found[1]), int(found[2])) if found else None


def _beside(names: list[str], sets: Mapping[str, tuple[str, ...]], chosen: str, by: Loader) -> str:
    """The set that is loaded beside the chosen one, or that may be: a consolidated copy that nothing filters out."""
    if chosen != "safetensors" or not by.globs or "mistral" not in sets:
        return ""
    filtered = by.opens.index_filters and "model.safetensors.index.json" in names
    return "" if filtered and _release(by.version) is not None else "mistral"


def _never(name: str) -> str | None:
    parts = name.lower().split("/")
    if any(part.startswith(".") for part in parts):
        return "hidden: bookkeeping of git, the Hub or the system"
    if "__pycache__" in parts:
        return "compiled code"
    if is_leftover(name):
        return "a download that did not end"
    return "bookkeeping" if _any(parts[-1], _BOOKKEEPING) else None


def _reason(name: str, format_: str, by: Loader) -> str | None:
    parts = name.lower().split("/")
    base, folders = parts[-1], parts[:-1]
    if format_ == BUILT and base.endswith(".engine"):
        return None
    if by.opens.gguf_only and format_ == "gguf" and not base.endswith(".gguf"):
        return "the GGUF file holds what this engine reads"
    own_index = format_ == "mistral" and base.startswith("consolidated") and base.endswith(".safetensors.index.json")
    if by.edition >= 2 and (_CODE.match(base) or (own_index and not folders)):
        return None
    globbed = by.edition >= 2 and not folders and _WEIGHT.match(base) is not None
    if globbed and not base.endswith(_NOT_INFERENCE):
        own = by.globs and format_ in ("safetensors", "bin") and base.startswith("adapter_model")
        return None if own and base.endswith("." + format_) else _other_weights(base, folders, format_)
    if any(_any(folder, _OTHER_FOLDERS) for folder in folders) or _any(base, _OTHER_RUNTIMES):
        return "for another runtime"
    if any(_any(folder, _TRAINING_FOLDERS) for folder in folders) or _any(base, _TRAINING):
        return "a leftover of training"
    if _any(base, _PROSE) and not (by.edition >= 2 and _READ.match(base)):
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
    own = {"mistral": "", "peft": "", BUILT: "", "": base.rpartition(".")[2]}.get(format_, format_)
    return None if base.endswith("." + own) and not base.startswith("adapter_model") else "a second set of weights"


def _any(name: str, patterns: re.Pattern[str]) -> bool:
    return patterns.match(name) is not None


def _matches(name: str, globs: Sequence[str]) -> bool:
    return file_globs(tuple(globs)).match(name) is not None
