"""A Modelfile: instructions, parameters and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_INSTRUCTION = re.compile(
    r"\s*(FROM|PARAMETER|TEMPLATE|SYSTEM|ADAPTER|LICENSE|MESSAGE|REQUIRES|RENDERER|PARSER|DRAFT)\s+", re.I
)
_LONGEST = 4 << 20


class Modelfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a Modelfile says."""

    base: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()  # in order; `stop` may come several times
    template: str | None = None
    system: str | None = None
    adapters: tuple[str, ...] = ()
    renderer: str | None = None
    parser: str | None = None
    draft: str | None = None


def read(text: str) -> Modelfile:
    """Read a Modelfile; what is no instruction is left out."""
    single: dict[str, str] = {}
    adapters: list[str] = []
    parameters: list[tuple[str, Any]] = []
    for name, value in _instructions(text[:_LONGEST]):
        if name == "parameter":
            key, _, rest = value.partition(" ")
            if rest.strip():
                parameters.append((key.lower(), _value(key.lower(), unquoted(rest.strip()))))
        elif name == "adapter":
            adapters.append(value)
        else:
            single[name] = value
    return Modelfile(
        base=single.get("from", ""),
        parameters=tuple(parameters),
        template=single.get("template"),
        system=single.get("system"),
        adapters=tuple(adapters),
        renderer=single.get("renderer"),
        parser=single.get("parser"),
        draft=single.get("draft"),
    )


def unquoted(text: str) -> str:
    """A value without its quotes; Ollama trims blanks and quotes."""
    if text.startswith('"""'):
        return text[3:].removesuffix('"""')
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        match = _INSTRUCTION.match(lines[at])
        if match is None:
            at += 1
            continue
        rest = lines[at][match.end() :]
        at += 1
        name = match.group(1).lower()
        fence = '"""' if rest.lstrip().startswith('"""') else '"' if rest.lstrip().startswith('"') else ""
        if fence and name != "parameter":
            body = rest.lstrip()[len(fence) :]
            while fence not in body and at < len(lines):
                body += "\n" + lines[at]
                at += 1
            yield name, body.partition(fence)[0]
        else:
            yield name, rest.strip()


def _value(name: str, text: str) -> Any:
    if name == "stop":
        return text
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?|[+-]?\d+\.", text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)
