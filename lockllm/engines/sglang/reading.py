"""A command line of SGLang as the parser of a release reads it, and the words that this parser refuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lockllm.engines import Installed
from lockllm.engines.kernel.argparse import Parsed, Problem, Word, parse
from lockllm.engines.kernel.values import unresolved
from lockllm.engines.sglang import options
from lockllm.engines.sglang.options import Release


def read(words: Sequence[str], version: str | None, installed: Installed | None = None) -> tuple[Parsed, Release]:
    """The line as its release reads it; without one, as the newest release that refuses least."""
    if version:
        known = options.release(version, installed)
        return _as_read_by(words, known), known
    found: tuple[int, Parsed, Release] | None = None
    for candidate in map(options.release, reversed(options.VERSIONS)):
        parsed = _as_read_by(words, candidate)
        if found is None or len(parsed.problems) < found[0]:
            found = len(parsed.problems), parsed, candidate
        if not parsed.problems:
            break
    assert found is not None
    return found[1], found[2]


def without_effect(parsed: Parsed, release: Release) -> Iterator[str]:
    """Options that the release accepts with a warning, and of which nothing comes."""
    for name in dict.fromkeys(word.name for word in parsed.words):
        if release.standing.get(name) == "idle":
            yield "--" + name.replace("_", "-")


def _as_read_by(words: Sequence[str], release: Release) -> Parsed:
    parsed = parse(words, release.table)
    more = [problem for word in parsed.words if word.known for problem in _refused(word, release)]
    return msgspec.structs.replace(parsed, problems=(*parsed.problems, *more)) if more else parsed


def _refused(word: Word, release: Release) -> Iterator[Problem]:
    if release.standing.get(word.name) == "gone":
        yield Problem(flag=word.flag, reason="this release refuses it: another option replaced it")
    allowed = release.choices.get(word.name)
    if allowed is None or isinstance(word.value, bool):
        return
    for each in word.value if isinstance(word.value, tuple) else (word.value,):
        if str(each) not in allowed and not unresolved(str(each)):
            near = ", ".join(sorted(allowed)[:8]) + (", ..." if len(allowed) > 8 else "")
            yield Problem(flag=word.flag, reason=f"{_shown(str(each))} is none of its words in this release: {near}")


def _shown(text: str) -> str:
    return repr(text) if len(text) < 40 and text.isprintable() else "its value"
