"""What a vLLM start log shows, by the message templates of 0.6.0 to 0.33.0.

The engine process states what is in force in one dump; lines of the API server before it say what was asked.
Attention lines
count by the first one (the target model's), all others by the last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from lockllm.engines.shown.log import clean, fields, value
from lockllm.engines.vllm.dump import dumped
from lockllm.engines.vllm.log_patterns import AFTER, ATTENTION, ATTENTION_NAMES, BANNER, FIRST, LAST, OFF, SAID
from lockllm.facts.observation import By, Reading
from lockllm.facts.registry import row_of, seen

_PREFIX = re.compile(r"\((?P<who>[A-Za-z_0-9-]+?)(?: TP\d+)?(?: rank=\d+)? pid=\d+\) ")
_STAMP = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[^\] ]*\] ?")
_UVICORN = re.compile(r"(?:INFO|WARNING|ERROR): +")
_DUMPS = 100  # of one kind, the last ones: each engine of a large server prints one, and they say the same
_INIT = re.compile(r"Initializing an? (?:(?P<gen>V[01]) )?LLM engine \(v(?P<v>[^)]+)\) with config: (?P<c>.*)\Z")
_ASKED = re.compile(r"(?:non-default args: (?P<c>\{.*\})|args: Namespace\((?P<n>.*)\))\Z")
_OVERRIDDEN = re.compile(r"Default vLLM sampling parameters have been overridden by (?P<src>.+?): `(?P<d>\{.*\})`\.")
_CHAT = re.compile(r"Using default (?P<r>chat|completion) sampling params from (?P<src>\S+): (?P<d>\{.*\})\Z")
_EARLY = re.compile(r"Overwriting default (?P<r>chat|completion) sampling param with: (?P<d>\{.*\})\Z")
_OVERRIDDEN_BARE = "Default sampling parameters have been overridden by the model's Hugging Face generation config"
_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")

DUMP_WINS = frozenset(
    {
        "serve.enable_chunked_prefill",
        "serve.max_model_len",
        "serve.quantization",
        "serve.kv_cache_dtype",
        "serve.enforce_eager",
    }
)
"""Facts whose lines may speak of a default object or a draft model: the dump outranks them."""


class _Line(msgspec.Struct, frozen=True):
    """A message and who printed it: the leader of its process group, or another rank."""

    who: str
    text: str

    @property
    def leads(self) -> bool:
        """Whether a rank is the first of its group, or the process has no rank."""
        return not re.search(r"(?:TP|PP|DP|rank=|EP|ApiServer_|APIServer_)(?!0\b|0_)\d+", self.who)


def from_log(lines: Sequence[str]) -> Iterable[Reading]:
    """The readings of the last start in a log."""
    said = _last_start([_line(text) for text in clean(lines)])
    found: dict[str, Reading] = {}

    def tell(key: str, raw: Any, text: str, *, first: bool = False) -> None:
        if first and key in found:
            return
        if raw is not None and (raw != "auto" or key in ("serve.generation_config", "serve.load_format")):
            found[key] = seen(row_of(key).path, raw, f"start log: {text[:60]}", By.LOG)

    _engine(said, tell)
    for line in said:
        if line.leads:
            _patterns(line.text, tell)
    _sampling(said, tell)
    return list(found.values())


def _line(text: str) -> _Line:
    if text.startswith('{"'):  # --logging-config.formatter json, 0.32.0 and later
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("message"), str):
            return _Line(
                f"({record.get('processName') or record.get('process_name') or ''} ", record["message"].rstrip()
            )
    prefix = _PREFIX.match(text)
    who = prefix.group(0) if prefix else ""
    rest = text[prefix.end() :] if prefix else text
    stamp = _STAMP.match(rest) or _UVICORN.match(rest)
    return _Line(who, rest[stamp.end() :].rstrip() if stamp else rest.rstrip())


def _last_start(lines: list[_Line]) -> list[_Line]:
    """What follows the last banner of a version, where a log holds several starts."""
    banners = [at for at, line in enumerate(lines) if BANNER.search(line.text)]
    starts = [at for number, at in enumerate(banners) if number == 0 or _apart(lines[banners[number - 1] : at])]
    return lines[starts[-1] :] if len(starts) > 1 else lines


def _apart(between: Sequence[_Line]) -> bool:
    """Whether a server started between two banners: each API server process prints its own."""
    return any(_INIT.match(line.text) or line.text == "Application startup complete." for line in between)


def _engine(said: Sequence[_Line], tell: Any) -> None:
    """The engine's dump, and what was asked of the API server."""
    banner = next((found.group("v") for line in said if (found := BANNER.search(line.text))), None)
    if banner is not None:
        tell("engine.name", "vllm", "version banner")
        tell("engine.version", banner.partition("+")[0], "version banner")
    for given in [found for line in said if (found := _ASKED.match(line.text))][-_DUMPS:]:
        asked = fields(given.group("c") or given.group("n"))
        _asked(asked, tell, told_apart=given.group("c") is not None)
    for init in [found for line in said if (found := _INIT.match(line.text))][-_DUMPS:]:
        tell("engine.name", "vllm", "Initializing an LLM engine")
        tell("engine.version", init.group("v").partition("+")[0], "Initializing an LLM engine")
        tell("engine.generation", init.group("gen"), "Initializing an LLM engine")
        held = fields(init.group("c"))
        for key, raw in dumped(held, init.group("v")):
            tell(key, raw, "Initializing an LLM engine")
        path = value(held.get("model"))
        tell("checkpoint.path", path if isinstance(path, str) else None, "Initializing an LLM engine")


def _asked(asked: dict[str, str], tell: Any, told_apart: bool) -> None:
    """`max_num_seqs` has no other witness, where what differs from the defaults is told apart (0.9.0 and later)."""
    number = value(asked.get("max_num_seqs"))
    if isinstance(number, int) and told_apart:
        tell("serve.max_num_seqs", number, "non-default args")
    source = value(asked.get("generation_config"))
    if source in ("auto", "vllm"):
        tell("serve.generation_config", source, "non-default args")
    if value(asked.get("chat_template")):
        tell("chat_template.source", "flag", "non-default args")


def _patterns(text: str, tell: Any) -> None:
    if len(text) > 20_000:
        return
    for pattern in ATTENTION:
        found = pattern.match(text)
        if found:
            name = found.group("b")
            tell("serve.attention_backend", ATTENTION_NAMES.get(name.lower(), name), text, first=True)
    for key, pattern in FIRST:
        found = pattern.match(text)
        if found:
            tell(key, _number(found.group("v")), text, first=True)
    for key, pattern in LAST:
        found = pattern.match(text)
        if found:
            tell(key, _number(found.group("v")), text, first=key in DUMP_WINS)
    for key, pattern, said in SAID:
        if pattern.match(text):
            tell(key, said, text, first=key in DUMP_WINS)
    for key, pattern in AFTER:
        found = pattern.match(text)
        if found:
            tell(key, _number(found.group("v")), text)
    for key, pattern in OFF:
        if pattern.match(text):
            tell(key, False, text)


def _number(text: str) -> Any:
    plain = text.replace(",", "")
    return int(plain) if re.fullmatch(r"\d{1,18}", plain) else text


def _sampling(said: Sequence[_Line], tell: Any) -> None:
    for line in said:
        found = _OVERRIDDEN.match(line.text) or _CHAT.match(line.text) or _EARLY.match(line.text)
        if line.text.startswith(_OVERRIDDEN_BARE):
            tell("serve.generation_config", "auto", line.text)
        if found is None or found.groupdict().get("r") == "completion":
            continue
        source = found.groupdict().get("src")
        if source in ("model", "the model's `generation_config.json`"):
            tell("serve.generation_config", "auto", line.text)
        for name, raw in _sampled(value(found.group("d"))):
            tell(f"sampling.{name}", raw, line.text)


def _sampled(told: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(told, dict):
        for name in _SAMPLED:
            raw = told.get(name)
            if isinstance(raw, (int, float)) and not isinstance(raw, bool):
                yield name, 0 if name == "top_k" and raw < 0 else raw
        if isinstance(told.get("max_tokens"), int):
            yield "max_tokens", told["max_tokens"]
