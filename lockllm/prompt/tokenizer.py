"""Token ids of rendered texts by the checkpoint's own tokenizer.json, in a bounded child."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import msgspec

from lockllm.facts.observation import Unobserved
from lockllm.prompt.sandbox import TOKENIZER_LIMITS, Limits, Program, run

_MOST = 256 * 2**20
_PATH = ("prompt_probes",)


class Encoded(msgspec.Struct, frozen=True):
    """The ids of each text in the order given, and what made them."""

    ids: tuple[tuple[int, ...], ...]
    source: str


def available() -> bool:
    """Whether the `tokenizers` library stands beside lockllm."""
    from importlib.util import find_spec

    return find_spec("tokenizers") is not None


def token_ids(
    path: str, texts: Sequence[str], *, limits: Limits = TOKENIZER_LIMITS, program: Program | None = None
) -> Encoded | Unobserved:
    """Encode texts that already hold their special tokens.

    Needs the `tokenizers` library beside lockllm, or in the environment of another interpreter (`program`).
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return Unobserved(_PATH, "token ids need a tokenizer.json", "add the file to the checkpoint")
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST:
        return Unobserved(_PATH, f"tokenizer.json is no plain file of at most {_MOST >> 20} MiB")
    outcome = run(
        {"kind": "encode", "tokenizer": os.path.realpath(path), "texts": list(texts)}, ("tokenizers",), limits, program
    )
    first, answers = (outcome.answers[0], outcome.answers[1:]) if outcome.answers else ({}, ())
    if "library" not in first:
        reason = str(first.get("refused") or outcome.ended or "no answer")
        mend = 'pip install "lockllm-cli[tokenizers]", or name the serving interpreter with --python'
        return Unobserved(_PATH, f"token ids were not made: {reason}", mend)
    ids = [tuple(each["ids"]) for each in answers if "ids" in each]
    if len(ids) != len(texts):
        told = next((str(each.get("refused") or each.get("bound")) for each in answers if "ids" not in each), "")
        return Unobserved(_PATH, f"tokenizer.json cannot be used: {told or outcome.ended or 'no answer'}")
    return Encoded(tuple(ids), f"tokenizers {first['library']}: tokenizer.json")
