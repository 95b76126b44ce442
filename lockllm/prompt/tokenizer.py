"""Token ids of rendered texts by the checkpoint's own tokenizer.json, in a bounded child."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import msgspec

from lockllm.facts.observation import Unobserved
from lockllm.prompt.sandbox import BOUNDS, Limits, Outcome, Program, run

_MIB = 2**20
_MOST = 64 * _MIB
_PATH = ("prompt_probes",)


class Encoded(msgspec.Struct, frozen=True):
    """The ids of each text in the order given, and what made them."""

    ids: tuple[tuple[int, ...], ...]
    source: str


def available() -> bool:
    """Whether the `tokenizers` library stands beside lockllm."""
    from importlib.util import find_spec

    return find_spec("tokenizers") is not None


def limits(size: int) -> Limits:
    """What loading a tokenizer.json of that many bytes, and a few short texts, may take.

    Run with tokenizers 0.23.3: a vocabulary of 262,000 with its merges, 21 MiB, takes 1.3 s and 230 MiB.
    """
    seconds = 2.0 + 0.1 * size / _MIB
    return Limits(seconds=seconds, patience=10 * seconds, memory=200 * _MIB + 16 * size)


def token_ids(
    path: str, texts: Sequence[str], *, bounds: Limits | None = None, program: Program | None = None
) -> Encoded | Unobserved:
    """Encode texts that already hold their special tokens.

    Needs the `tokenizers` library beside lockllm, or in the environment of another interpreter (`program`).
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return Unobserved(_PATH, "token ids need a tokenizer.json", "add the file to the checkpoint")
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST:
        return Unobserved(_PATH, f"tokenizer.json is no plain file of at most {_MOST // _MIB} MiB")
    task = {"kind": "encode", "tokenizer": os.path.abspath(path)}
    outcome = run(task, list(texts), ("tokenizers",), bounds or limits(found.st_size), program)
    if not outcome.release:
        fix = 'pip install "lockllm-cli[tokenizers]", or name the serving interpreter with --python'
        return Unobserved(_PATH, f"token ids were not made: {outcome.ended}", fix)
    ids = [tuple(each["ids"]) for each in outcome.answers if "ids" in each]
    if len(ids) != len(texts):
        return Unobserved(_PATH, f"tokenizer.json cannot be used: {_why(outcome)}")
    return Encoded(tuple(ids), f"tokenizers {outcome.release}: tokenizer.json")


def _why(outcome: Outcome) -> str:
    first = next((each for each in outcome.answers if "ids" not in each), {})
    if "bound" in first:
        return BOUNDS[first["bound"]]
    return str(first.get("refused") or first.get("lost") or outcome.ended or "no answer")
