"""Which special tokens a template sees, and as what text: transformers 5.24.0 `tokenization_utils_base.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lockllm.prompt.templates import CONFIG, TOKEN_MAP, Read, document

STANDARD = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The tokens that every tokenizer may have; one that is set nowhere is undefined in a template."""
_MAP_UNUSED = "added_tokens_decoder"  # where the config has this key, the map is not read


def held_tokens(read: Read, names: Sequence[str]) -> dict[str, Any] | str:
    """The tokens of a checkpoint's files, or why they are not known: a rendering without them would be another prompt."""
    config, token_map = document(read, CONFIG), None
    unread = CONFIG if config is None and CONFIG in names else ""
    if not unread and _MAP_UNUSED not in (config or {}):
        token_map = document(read, TOKEN_MAP)
        unread = TOKEN_MAP if token_map is None and TOKEN_MAP in names else ""
    if unread:
        return f"{unread} cannot be read, and what special tokens there are is not known"
    return special_tokens(config or {}, token_map)


def special_tokens(
    config: Mapping[str, Any], token_map: Mapping[str, Any] | None = None, *, release: tuple[int, int] = (5, 24)
) -> dict[str, Any]:
    """The tokens of a `tokenizer_config.json`, as the template's variables.

    `token_map` is `special_tokens_map.json`: it wins, but not where the config lists `added_tokens_decoder`.
    """
    merged = dict(config)
    if token_map and _MAP_UNUSED not in config:
        merged.update(token_map)
    found: dict[str, Any] = {}
    for name in STANDARD:
        _keep(found, name, merged.get(name))
    extra = merged.get("extra_special_tokens")
    if release >= (4, 46) and isinstance(extra, Mapping):
        for name, value in extra.items():
            _keep(found, name, value)
    if release >= (5, 0):
        for name, value in merged.items():
            if name.endswith("_token") and isinstance(value, str):
                found.setdefault(name, value)
    else:
        several = merged.get("additional_special_tokens")
        if isinstance(several, list) and several:
            found["additional_special_tokens"] = [text for text in map(_text, several) if text is not None]
    return found


def _keep(found: dict[str, Any], name: Any, value: Any) -> None:
    text = _text(value)
    if isinstance(name, str) and text is not None:
        found[name] = text


def _text(value: Any) -> str | None:
    """A token is a text, or an object that holds it under `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None
