"""What config.json, params.json and GGUF keys declare of dtype, architecture, context and RoPE, in one canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

CONFIG = "config.json"
_TEXT_PARTS = (
    "text_config", "thinker_config", "llm_config", "language_config", "language_model_config", "text_model_config",
    "decoder", "generator",
)  # fmt: skip
_WINDOW_OFF = ("qwen2", "qwen3")  # families whose class has use_sliding_window = false unless the file says otherwise
_OLD_ROPE = {"su": "longrope", "mrope": "default", "none": "default"}
_SHORT = 16  # items of a list that is a fact
_LONG_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "n_ctx")

Found = tuple[Any, str]
"""A value and where it stands."""


def of_config(config: Mapping[str, Any], edition: int = 2) -> Iterator[Reading]:
    """Readings of a Hugging Face config.json. `edition`: of the lock, where its rule was another one."""
    text, at = text_part(config)
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else None
    yield _seen("architecture", architecture, _at(CONFIG, "architectures"))
    yield _seen("dtype", *dtype(config))
    length, where = _first(text, at, _LONG_NAMES)
    if length is None:
        length, where = _first(config, CONFIG, _LONG_NAMES)
    yield _seen("max_position_embeddings", length, where)
    turned = rope(text, at)
    turned = turned if turned["rope_type"][0] or text is config else rope(config, CONFIG)
    if edition >= 2 and (without := _no_rope(text, at)) is not None:
        turned = {**turned, "rope_type": without}
    yield from _rope_readings(turned, at)
    yield _seen("sliding_window", sliding_window(text), _at(at, "sliding_window"))
    tied, where = _first(config, CONFIG, ("tie_word_embeddings",))
    if tied is None and edition >= 2:
        tied, where = _first(text, at, ("tie_word_embeddings",))
    yield _seen("tie_word_embeddings", tied if isinstance(tied, bool) else None, where)
    if edition >= 2:
        yield from _positions(text, at)


def _positions(text: Mapping[str, Any], at: str) -> Iterator[Reading]:
    """What else decides how far positions reach: told where the file says it."""
    scaling: Mapping[str, Any] = next(
        (text[name] for name in ("rope_parameters", "rope_scaling") if isinstance(text.get(name), dict)), {}
    )
    for name in ("attention_chunk_size", "partial_rotary_factor", "compress_rope_theta"):
        value = text.get(name)
        where = _at(at, name)
        if value is None and name in scaling:
            value, where = scaling[name], _at(at, f"rope_parameters.{name}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield _seen(name, value, where)


def of_params(params: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of Mistral's params.json."""
    name = "params.json"
    declared, where = _first(params, name, ("dtype", "torch_dtype"))
    yield _seen("dtype", declared, where)
    length, where = _first(params, name, ("max_position_embeddings", "max_seq_len", "model_max_length"))
    yield _seen("max_position_embeddings", length, where)
    theta = params.get("rope_theta")
    yarn = params.get("yarn")
    found: dict[str, Found] = {}
    if isinstance(yarn, dict):
        found = {
            "rope_type": ("yarn", _at(name, "yarn")), "rope_factor": (yarn.get("factor"), _at(name, "yarn.factor")),
            "original_max_position_embeddings":
                (yarn.get("original_max_position_embeddings"), _at(name, "yarn.original_max_position_embeddings")),
        }  # fmt: skip
    elif theta is not None:
        found = {"rope_type": ("default", _at(name, "rope_theta"))}
    found["rope_theta"] = (theta, _at(name, "rope_theta"))
    yield from _rope_readings(found, name)
    window = params.get("sliding_window")
    yield _seen("sliding_window", window if isinstance(window, int) else None, _at(name, "sliding_window"))
    tied, where = _first(params, name, ("tied_embeddings", "tie_word_embeddings"))
    yield _seen("tie_word_embeddings", tied, where)


def of_gguf(metadata: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of GGUF metadata."""
    architecture = metadata.get("general.architecture")
    prefix = architecture if isinstance(architecture, str) else ""

    def key(name: str) -> tuple[Any, str]:
        return metadata.get(f"{prefix}.{name}"), f"gguf: {prefix}.{name}"

    yield _seen("architecture", architecture, "gguf: general.architecture")
    yield _seen("dtype", None, "gguf: no dtype is declared")
    yield _seen("max_position_embeddings", *key("context_length"))
    kind, where = key("rope.scaling.type")
    theta, theta_at = key("rope.freq_base")
    if kind is None and theta is not None:
        kind, where = "default", theta_at
    if isinstance(kind, str):
        kind = _OLD_ROPE.get(kind, kind)
    factor, factor_at = key("rope.scaling.factor")
    found = {
        "rope_type": (kind, where), "rope_theta": (theta, theta_at),
        "rope_factor": (factor if factor else None, factor_at),
        "original_max_position_embeddings": key("rope.scaling.original_context_length"),
    }  # fmt: skip
    yield from _rope_readings(found, "gguf")
    window, where = key("attention.sliding_window")
    yield _seen("sliding_window", window if isinstance(window, int) and window > 0 else None, where)


_COVERED = frozenset({
    "context_length", "rope.scaling.type", "rope.freq_base", "rope.scaling.factor", "rope.scaling.original_context_length",
    "attention.sliding_window",
})  # fmt: skip
"""GGUF keys that have facts of their own."""


def gguf_keys(metadata: Mapping[str, Any]) -> Iterator[Reading]:
    """Every other setting of the architecture, under its own key: a YaRN multiplier, a logit scale, the experts used."""
    architecture = metadata.get("general.architecture")
    prefix = f"{architecture}."
    for key, value in metadata.items():
        if isinstance(architecture, str) and key.startswith(prefix) and key[len(prefix) :] not in _COVERED:
            if isinstance(value, (bool, int, float, str)) or (isinstance(value, list) and len(value) <= _SHORT):
                yield seen(("checkpoint", "gguf", key), value, f"gguf: {key}", By.FILE)


def of_engine_config(config: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of a TensorRT-LLM engine's config.json: what was built in is in force whatever the command says."""
    pretrained, build = _table(config, "pretrained_config"), _table(config, "build_config")
    mapping = _table(pretrained, "mapping")
    at = f"{CONFIG}: pretrained_config"
    yield _seen("architecture", pretrained.get("architecture"), f"{at}.architecture")
    yield _seen("dtype", pretrained.get("dtype"), f"{at}.dtype")
    yield _seen("max_position_embeddings", pretrained.get("max_position_embeddings"), f"{at}.max_position_embeddings")
    built: tuple[tuple[FactKey, Mapping[str, Any], str, str], ...] = (
        ("engine.artifact_version", config, "version", CONFIG), ("serve.dtype", pretrained, "dtype", at),
        ("serve.tensor_parallel_size", mapping, "tp_size", f"{at}.mapping"),
        ("serve.pipeline_parallel_size", mapping, "pp_size", f"{at}.mapping"),
        ("serve.max_model_len", build, "max_seq_len", f"{CONFIG}: build_config"),
        ("serve.max_num_seqs", build, "max_batch_size", f"{CONFIG}: build_config"),
        ("serve.max_num_batched_tokens", build, "max_num_tokens", f"{CONFIG}: build_config"),
    )  # fmt: skip
    for key, part, name, where in built:
        if part.get(name) is not None:
            yield seen(key, part[name], _at(where, name), By.FILE)


def ranks(config: Mapping[str, Any]) -> int | None:
    """How many engine files a TensorRT-LLM engine's config.json asks for."""
    world = _table(_table(config, "pretrained_config"), "mapping").get("world_size")
    return world if isinstance(world, int) and 0 < world <= 10_000 else None


def text_parts(config: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """The whole config and, inside it, ever narrower descriptions of the language model, each with its place."""
    parts = [(config, CONFIG)]
    while len(parts) < 4:
        part, at = parts[-1]
        name = next((each for each in _TEXT_PARTS if isinstance(part.get(each), dict)), None)
        if name is None:
            break
        parts.append((part[name], _at(at, name)))
    return parts


def text_part(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The part of a config that describes the language model, and where it stands."""
    return text_parts(config)[-1]


def dtype(config: Mapping[str, Any]) -> tuple[Any, str]:
    """The declared dtype and its place: `dtype` wins over `torch_dtype` (transformers 4.56), the whole over its parts."""
    text, at = text_part(config)
    for part, where in ((config, CONFIG), (text, at)):
        for name in ("dtype", "torch_dtype"):
            value = part.get(name)
            if isinstance(value, dict):
                value = _of_parts(value)
            if isinstance(value, str) and value != "auto":
                return value, _at(where, name)
    return None, CONFIG


def rope(text: Mapping[str, Any], at: str) -> dict[str, Found]:
    """RoPE in both dialects: `rope_theta` + `rope_scaling` (4.x), `rope_parameters` (5.x, maybe one table a layer type)."""
    name = next((each for each in ("rope_parameters", "rope_scaling") if isinstance(text.get(each), dict)), None)
    scaling: Mapping[str, Any] = text[name] if name else {}
    place = _at(at, name or "rope_scaling")
    full = scaling.get("full_attention")
    if isinstance(full, dict):
        scaling, place = full, f"{place}.full_attention"
    theta, theta_at = scaling.get("rope_theta"), f"{place}.rope_theta"
    if theta is None:
        theta, theta_at = _first(text, at, ("rope_theta", "rotary_emb_base"))
    kind = scaling.get("rope_type", scaling.get("type"))
    kind_at = place
    if kind is None and (theta is not None or scaling):
        kind, kind_at = "default", place if scaling else theta_at
    if isinstance(kind, str):
        kind = _OLD_ROPE.get(kind, kind)
    original, original_at = scaling.get("original_max_position_embeddings"), f"{place}.original_max_position_embeddings"
    if original is None and kind not in (None, "default"):
        original, original_at = _first(text, at, ("original_max_position_embeddings",))
    return {
        "rope_type": (kind, kind_at), "rope_theta": (theta, theta_at),
        "rope_factor": (scaling.get("factor"), f"{place}.factor"),
        "original_max_position_embeddings": (original, original_at),
    }  # fmt: skip


def _no_rope(text: Mapping[str, Any], at: str) -> Found | None:
    """Where a model has no rotary positions at all, whatever else it says: Granite 4 H, Nemotron-H.

    transformers 5.24: `GraniteMoeHybridConfig.position_embedding_type`; `NemotronHAttention` applies none.
    """
    if str(text.get("position_embedding_type", "")).lower() == "nope":
        return "none", _at(at, "position_embedding_type")
    return ("none", _at(at, "model_type")) if text.get("model_type") == "nemotron_h" else None


def sliding_window(text: Mapping[str, Any]) -> int | None:
    """The attention window that is in force: not where `use_sliding_window` or the layer types rule it out."""
    window = text.get("sliding_window")
    if not isinstance(window, int) or isinstance(window, bool) or window <= 0:
        return None
    used = text.get("use_sliding_window")
    if used is None:
        used = not str(text.get("model_type", "")).startswith(_WINDOW_OFF)
    if not used:
        return None
    layers = text.get("layer_types")
    if isinstance(layers, list) and layers and not any("sliding" in str(layer) for layer in layers):
        return None
    return window


def rope_dialect(config: Mapping[str, Any]) -> str:
    """`parameters` where only transformers 5 finds the RoPE settings, `scaling` where all do, empty where none are given."""
    text, _ = text_part(config)
    old = any(text.get(name) is not None for name in ("rope_theta", "rope_scaling"))
    return "scaling" if old else "parameters" if isinstance(text.get("rope_parameters"), dict) else ""


def rope_understood(config: Mapping[str, Any], major: int) -> Check | None:
    """Whether the installed transformers finds the RoPE settings: 4.x ignores `rope_parameters` without a word."""
    dialect = rope_dialect(config)
    name = "check.rope_understood"
    if dialect == "parameters" and major < 5:
        detail = "config.json holds rope_parameters alone, which transformers 4 ignores: rope_theta is 10000, unscaled"
        return Check(name, CheckStatus.FAIL, detail, f"{CONFIG}: rope_parameters", "install transformers 5")
    return Check(name, CheckStatus.PASS, f"transformers {major} reads them", CONFIG) if dialect else None


def _rope_readings(found: Mapping[str, Found], at: str) -> Iterator[Reading]:
    for name in ("rope_type", "rope_theta", "rope_factor", "original_max_position_embeddings"):
        yield _seen(name, *found.get(name, (None, at)))


def _of_parts(value: Mapping[str, Any]) -> Any:
    texts = [each for each in value.values() if isinstance(each, str)]
    if len(set(texts)) == 1:
        return texts[0]
    return next((value[name] for name in (*_TEXT_PARTS, "") if isinstance(value.get(name), str)), None)


def _first(part: Mapping[str, Any], at: str, names: tuple[str, ...]) -> tuple[Any, str]:
    name = next((each for each in names if part.get(each) is not None), None)
    return (None, _at(at, names[0])) if name is None else (part[name], _at(at, name))


def _at(file: str, key: str) -> str:
    return f"{file}.{key}" if ": " in file else f"{file}: {key}"


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def _seen(name: str, value: Any, source: str) -> Reading:
    return seen(("checkpoint", name), ABSENT if value is None else value, source, By.FILE)
