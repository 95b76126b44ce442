"""A command line of SGLang as the parser of a release reads it, and the words that this parser refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lockllm.engines._argparse import Parsed, Problem, Word, parse
from lockllm.engines._values import unresolved
from lockllm.engines.sglang import options


def read(words: Sequence[str], version: str | None) -> tuple[Parsed, str]:
    """The line as its release reads it; without one, as the newest release that refuses least."""
    if version:
        return _as_read_by(words, version), version
    found: tuple[int, Parsed, str] | None = None
    for candidate in reversed(options.VERSIONS):
        parsed = _as_read_by(words, candidate)
        if found is None or len(parsed.problems) < found[0]:
            found = len(parsed.problems), parsed, candidate
        if not parsed.problems:
            break
    assert found is not None
    return found[1], found[2]


def without_effect(parsed: Parsed, version: str) -> Iterator[str]:
    """Options that the release accepts with a warning, and of which nothing comes."""
    standing = options.standing(version)
    for name in dict.fromkeys(word.name for word in parsed.words):
        if standing.get(name) == "idle":
            yield "--" + name.replace("_", "-")


def _as_read_by(words: Sequence[str], version: str) -> Parsed:
    parsed = parse(words, options.of(version))
    more = [problem for word in parsed.words if word.known for problem in _refused(word, version)]
    return msgspec.structs.replace(parsed, problems=(*parsed.problems, *more)) if more else parsed


def _refused(word: Word, version: str) -> Iterator[Problem]:
    if options.standing(version).get(word.name) == "gone":
        yield Problem(flag=word.flag, reason="this release refuses it: another option replaced it")
    allowed = options.choices(version).get(word.name)
    if allowed is None or isinstance(word.value, bool):
        return
    for each in word.value if isinstance(word.value, tuple) else (word.value,):
        if str(each) not in allowed and not unresolved(str(each)):
            near = ", ".join(sorted(allowed)[:8]) + (", ..." if len(allowed) > 8 else "")
            yield Problem(flag=word.flag, reason=f"{_shown(str(each))} is none of its words in this release: {near}")


def _shown(text: str) -> str:
    return repr(text) if len(text) < 40 and text.isprintable() else "its value"
