"""Token ids of rendered texts, by the `tokenizers` library. Runs only inside the bounded child."""

from __future__ import annotations


def load(source: str) -> object:
    """The tokenizer that a `tokenizer.json` describes."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(source)


def encode(tokenizer: object, text: str) -> list[int]:
    """The ids of a text that already holds its special tokens: nothing is added."""
    return list(tokenizer.encode(text, add_special_tokens=False).ids)  # type: ignore[attr-defined]
