"""Sampling defaults and stop tokens as the checkpoint's files declare them: what an engine makes of them is its own affair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lockllm.checkpoint.config import CONFIG, text_part
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading
from lockllm.facts.registry import seen

GENERATION = "generation_config.json"
MOST = 1_000
"""Settings of that file: each is a fact."""
_NOT_SAMPLING = frozenset({
    "eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id", "transformers_version",
    "_from_model_config", "_commit_hash", "use_cache", "cache_implementation", "cache_config",
    "return_dict_in_generate", "output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "trust_remote_code", "return_legacy_cache", "compile_config",
})  # fmt: skip
_SAMPLING = (
    "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size",
    "num_beams", "max_new_tokens", "max_length", "min_length", "length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "bad_words_ids", "encoder_no_repeat_ngram_size", "diversity_penalty", "num_beam_groups",
    "early_stopping", "forced_bos_token_id", "forced_eos_token_id",
)  # fmt: skip
_GGUF = {"temp": "temperature", "penalty_repeat": "repetition_penalty"}
_GGUF_STOPS = ("eos_token_id", "eot_token_id", "eom_token_id")


def declared(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Iterator[Reading]:
    """Readings of generation_config.json; of config.json's sampling keys where there is no such file."""
    if generation is not None:
        for name, value in generation.items():
            if name not in _NOT_SAMPLING and value is not None:
                yield seen(("checkpoint", "generation_config", name), value, f"{GENERATION}: {name}", By.FILE)
        return
    for name in in_config(config):
        yield seen(("checkpoint", "generation_config", name), config[name], f"{CONFIG}: {name}", By.FILE)


def in_config(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The sampling keys that config.json holds."""
    return tuple(name for name in _SAMPLING if config.get(name) is not None)


def stops(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Reading:
    """The stop ids: generation_config.json's list, else config.json's, else its text part's."""
    text, at = text_part(config)
    places = ((generation or {}, GENERATION), (config, CONFIG), (text, at))
    for part, name in places:
        ids = _ids(part.get("eos_token_id"))
        if ids:
            source = f"{name}.eos_token_id" if ": " in name else f"{name}: eos_token_id"
            return seen("checkpoint.stop_token_ids", ids, source, By.FILE)
    return seen("checkpoint.stop_token_ids", ABSENT, GENERATION if generation is not None else CONFIG, By.FILE)


def stops_agree(config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Check | None:
    """Whether config.json's stop ids are among generation_config.json's."""
    text, _ = text_part(config)
    one, other = (
        _ids(config.get("eos_token_id")) or _ids(text.get("eos_token_id")),
        _ids((generation or {}).get("eos_token_id")),
    )
    if not one or not other:
        return None
    source = f"{CONFIG}, {GENERATION}"
    if set(one) <= set(other):
        return Check(
            "check.stop_tokens_agree",
            CheckStatus.PASS,
            f"{len(set(other))} stop ids, those of {CONFIG} among them",
            source,
        )
    detail = f"{CONFIG} stops at {_listed(one)}, {GENERATION} at {_listed(other)}"
    return Check(
        "check.stop_tokens_agree", CheckStatus.FAIL, detail, source, "make both files list the same eos_token_id"
    )


def of_gguf(metadata: Mapping[str, Any]) -> Iterator[Reading]:
    """Readings of GGUF's sampling keys and stop ids."""
    prefix = "general.sampling."
    for key, value in metadata.items():
        if key.startswith(prefix):
            name = key[len(prefix) :]
            yield seen(("checkpoint", "generation_config", _GGUF.get(name, name)), value, f"gguf: {key}", By.FILE)
    keys = [f"tokenizer.ggml.{name}" for name in _GGUF_STOPS]
    ids = sorted({metadata[key] for key in keys if isinstance(metadata.get(key), int)})
    held = ", ".join(key for key in keys if isinstance(metadata.get(key), int))
    yield seen("checkpoint.stop_token_ids", ids or ABSENT, f"gguf: {held or keys[0]}", By.FILE)


def gguf_agrees(
    metadata: Mapping[str, Any], config: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> Check | None:
    """Whether the files beside a GGUF stop where it does: an engine that reads both takes the files' ids."""
    text, _ = text_part(config)
    own = {metadata[key] for name in _GGUF_STOPS if isinstance(metadata.get(key := f"tokenizer.ggml.{name}"), int)}
    places = (
        (_ids(config.get("eos_token_id")) or _ids(text.get("eos_token_id")), CONFIG),
        (_ids((generation or {}).get("eos_token_id")), GENERATION),
    )
    said = [(ids, where) for ids, where in places if ids]
    if not own or not said:
        return None
    for ids, where in said:
        if own.isdisjoint(ids):
            detail = f"the GGUF stops at {_listed(sorted(own))}, {where} beside it at {_listed(ids)}"
            fix = "remove the files that do not belong to this GGUF"
            return Check("check.stop_tokens_agree", CheckStatus.FAIL, detail, f"gguf: tokenizer.ggml, {where}", fix)
    return Check("check.stop_tokens_agree", CheckStatus.PASS, "the GGUF stops where the files beside it do", said[0][1])


def _ids(value: Any) -> list[int]:
    found = value if isinstance(value, list) else [value]
    return sorted({each for each in found if isinstance(each, int) and not isinstance(each, bool)})


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def placed(config: Mapping[str, Any], generation: Mapping[str, Any] | None, major: int) -> Check | None:
    """Whether sampling keys stand where transformers 5 still finds them."""
    name, held = "check.sampling_declared", in_config(config)
    if generation is not None:
        return Check(name, CheckStatus.PASS, f"{GENERATION} is there", GENERATION)
    if not held:
        return None
    does = "drops" if major >= 5 else "uses"
    detail = f"{CONFIG} holds {', '.join(held)}, and there is no {GENERATION}: transformers {major} {does} them"
    return Check(name, CheckStatus.FAIL, detail, CONFIG, f"write them into {GENERATION}")
