"""Every chat template that a folder or a GGUF holds: which file or key, under which name, and its text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Read = Callable[[str], "bytes | None"]
"""Gives the bytes of a file of the checkpoint by its relative name; None where it is not there or cannot be read."""

JINJA = "chat_template.jinja"
FOLDER = "additional_chat_templates/"
CONFIG = "tokenizer_config.json"
TOKEN_MAP = "special_tokens_map.json"
LEGACY = "chat_template.json"
PROCESSOR = "processor_config.json"
_PLACES = {JINJA: "jinja", CONFIG: "config", LEGACY: "legacy", PROCESSOR: "processor"}
DEFAULT = "default"
TOOL_USE = "tool_use"
_VALUES = 1_000_000  # in one JSON text: about 100 bytes of memory each
_DIGITS = 4_000
_POINTER = re.compile(r"\s*version https?://(git-lfs\.github\.com|hawser)")
_PAGE = re.compile(r"\ufeff?\s*<(!doctype\s+html|html)\b", re.IGNORECASE)
_BLANK = re.compile(r"\s*\Z")


class Candidate(msgspec.Struct, frozen=True):
    """One template: its text as the engine will use it, where it stands, and its name among several.

    `text` is None where the template is code or a text of the engine's own.
    """

    text: str | None
    source: str
    name: str = ""

    @property
    def sha256(self) -> str | None:
        """Of the text's UTF-8 bytes; None where there is no text, or it holds half a surrogate pair."""
        if self.text is None:
            return None
        try:
            return hashlib.sha256(self.text.encode()).hexdigest()
        except UnicodeEncodeError:
            return None


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """The templates of a checkpoint by the place they stand in. A place that is not there is empty."""

    jinja: Candidate | None = None
    folder: Mapping[str, Candidate] = {}
    config: Candidate | None = None  # a plain text
    config_named: Mapping[str, Candidate] | None = None  # a list of named ones, which may be empty
    legacy: Candidate | None = None
    processor: Candidate | None = None
    gguf: Mapping[str, Candidate] = {}
    problems: Mapping[str, str] = {}  # file -> why nobody knows which template it holds

    def all(self) -> tuple[Candidate, ...]:
        """Every template, in the order of the places."""
        single = (self.jinja, *self.folder.values(), self.config, *(self.config_named or {}).values())
        every = (*single, self.legacy, self.processor, *self.gguf.values())
        return tuple(each for each in every if each is not None)

    def with_one_in(self, name: str) -> Shelf:
        """The same with some template in that file, which is one of `problems`."""
        held = Candidate(None, name)
        if name in _PLACES:
            return msgspec.structs.replace(self, **{_PLACES[name]: held})
        called = name[len(FOLDER) : -len(".jinja")]
        return msgspec.structs.replace(self, folder={**self.folder, called: held})


class _Problems(dict[str, str]):
    """Problems by file. For locks of an older edition any text is a template."""

    any_text = False


def shelve(read: Read, names: Sequence[str], gguf: Mapping[str, str] | None = None, *, edition: int = 2) -> Shelf:
    """Read all places. `names` are the files of the checkpoint, with `/`; `gguf` maps metadata keys to texts.

    `edition`: of the lock that this is held against.
    """
    problems = _Problems()
    problems.any_text = edition < 2
    present = set(names)
    folder = {
        each[len(FOLDER) : -len(".jinja")]: found
        for each in sorted(present)
        if each.startswith(FOLDER) and each.endswith(".jinja") and "/" not in each[len(FOLDER) :]
        if (found := _file(read, each, problems, each[len(FOLDER) : -len(".jinja")])) is not None
    }
    config, named = _of_config(_member(read, present, CONFIG, problems), problems)
    return Shelf(
        jinja=_file(read, JINJA, problems, DEFAULT) if JINJA in present else None,
        folder=folder, config=config, config_named=named,
        legacy=_text_of(_member(read, present, LEGACY, problems), LEGACY, problems),
        processor=_text_of(_member(read, present, PROCESSOR, problems), PROCESSOR, problems),
        gguf=_of_gguf(gguf or {}), problems=problems,
    )  # fmt: skip


def document(read: Read, name: str) -> Mapping[str, Any] | None:
    """A JSON object of the checkpoint, or None where the file is missing, holds something else or values without end."""
    raw = read(name) or b""
    if sum(map(raw.count, (b",", b"[", b"{", b":"))) > _VALUES:
        return None
    try:
        value = json.loads(raw.decode(), parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _file(read: Read, name: str, problems: _Problems, called: str) -> Candidate | None:
    raw = read(name)
    if raw is None:
        problems[name] = f"{name} cannot be read"
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        problems[name] = f"{name} is no UTF-8"
        return None
    if _replaced(text, name, problems):
        return None
    return Candidate(text.replace("\r\n", "\n").replace("\r", "\n"), name, called)


def _replaced(text: str, source: str, problems: _Problems) -> bool:
    """Whether something else stands in a template's place: a pointer, a page, nothing. Then nothing is in force."""
    kinds = {"a Git LFS pointer": _POINTER, "a web page": _PAGE, "empty": _BLANK}
    kind = next((kind for kind, pattern in kinds.items() if pattern.match(text)), "")
    if problems.any_text:
        return False
    if kind:
        problems[source] = f"the chat template of {source} is {kind}, not a template"
    return bool(kind)


def _member(read: Read, present: set[str], name: str, problems: _Problems) -> Any:
    """The value of `chat_template` in a JSON file; None where there is none."""
    if name not in present:
        return None
    found = document(read, name)
    if found is None:
        problems[name] = f"{name} is no JSON object"
        return None
    return found.get("chat_template")


def _text_of(value: Any, source: str, problems: _Problems) -> Candidate | None:
    if value is None or isinstance(value, str):
        return None if value is None or _replaced(value, source, problems) else Candidate(value, source)
    if isinstance(value, dict) and isinstance(value.get(DEFAULT), str):
        return Candidate(value[DEFAULT], source, DEFAULT)
    problems[source] = f"chat_template of {source} is no text"
    return None


def _of_config(value: Any, problems: _Problems) -> tuple[Candidate | None, Mapping[str, Candidate] | None]:
    if value is None or isinstance(value, str):
        return (None if value is None or _replaced(value, CONFIG, problems) else Candidate(value, CONFIG)), None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(each.get("name"), each.get("template")) if isinstance(each, dict) else (None, None) for each in value]
    if not isinstance(value, (dict, list)) or not all(isinstance(a, str) and isinstance(b, str) for a, b in pairs):
        problems[CONFIG] = f"chat_template of {CONFIG} is neither a text nor a list of named texts"
        return None, None
    return None, {name: Candidate(text, CONFIG, name) for name, text in pairs}


def _of_gguf(gguf: Mapping[str, str]) -> Mapping[str, Candidate]:
    prefix = "tokenizer.chat_template"
    return {
        key[len(prefix) + 1 :] or DEFAULT: Candidate(text, f"GGUF: {key}", key[len(prefix) + 1 :] or DEFAULT)
        for key, text in gguf.items()
        if (key == prefix or key.startswith(prefix + ".")) and isinstance(text, str)
    }
