"""`-O3`: a level of compilation up to 0.11, of optimization since; read from `FlexibleArgumentParser` of each release."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lockllm.engines.kernel.releases import at_least

_DIGITS = frozenset("0123")


def spelled_out(argv: Sequence[str], release: str) -> list[str]:
    """The arguments with `-O3`, `-O=3` and `-O 3` as the options that they stand for in that release."""
    out: list[str] = []
    for number, word in enumerate(argv):
        following = argv[number + 1] if number + 1 < len(argv) else ""
        before = out[-1] if out else ""
        glued = word[2:].removeprefix("=") if word.startswith("-O") and len(word) > 2 and word[2] != "." else ""
        if at_least(release, "0.12.0"):
            out += _optimization(word, glued, following, release)
        elif at_least(release, "0.9.0") and (glued or (word == "-O" and following in _DIGITS)):
            key = "mode" if at_least(release, "0.11.1") else "level"
            out.append(f"-O.{key}={glued}" if glued else f"-O.{key}")
        elif glued:
            out += ["-O", _level(glued)]
        elif not at_least(release, "0.9.1") and before.replace("_", "-") in ("-O", "--compilation-config"):
            out.append(_level(word))
        else:
            out.append(word)
    return out


def _optimization(word: str, glued: str, following: str, release: str) -> list[str]:
    if glued:
        return ["--optimization-level", glued]
    if word == "-O" and following in _DIGITS:
        return ["--optimization-level"]
    if word.startswith("-O.") and not at_least(release, "0.13.0"):
        return ["-cc" + word[2:]]
    return [word]


def _level(text: str) -> str:
    return json.dumps({"level": int(text)}) if text in _DIGITS and text else text
