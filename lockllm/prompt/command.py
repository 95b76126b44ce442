"""What `lockllm render` reads, renders and shows."""

from __future__ import annotations

import datetime as dt
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from lockllm.errors import UsageError
from lockllm.prompt.probes import PROBES
from lockllm.prompt.render import Rendered, render
from lockllm.prompt.resolve import Resolution, resolve
from lockllm.prompt.templates import CONFIG, FOLDER, Candidate, document
from lockllm.prompt.tokens import special_tokens

_MOST = 64 * 2**20


def compose(
    path: str | None, template_file: str | None, request_file: str | None, tokens_file: str | None, now: str | None
) -> tuple[Candidate, Rendered]:
    """The template that was meant, and the text it renders. Raises UsageError for anything that is amiss."""
    if path is None and template_file is None:
        raise UsageError("no template is named", mend="name a checkpoint folder, or give --template FILE")
    at = moment(now)
    body = request(request_file)
    resolution, visible = checkpoint(path) if path is not None else (Resolution(), {})
    if template_file is not None:
        chosen = template(template_file)
    else:
        chosen = winner(resolution, body.get("tools") is not None, path or "")
    if tokens_file is not None:
        visible = tokens(tokens_file)
    return chosen, render(chosen.text or "", body, visible, at, where=chosen.source)


def shown(text: str, terminal: bool) -> str:
    """The text as it is, or with its control characters spelled out where a terminal would obey them."""
    if not terminal:
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else ascii(char)[1:-1] for char in text)


def template(path: str) -> Candidate:
    """A template in a file of its own: UTF-8, every kind of line end read as one, as transformers reads it."""
    raw = _read(path, "the template")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError("the template is no UTF-8", where=path, mend="save it as UTF-8") from error
    return Candidate(text.replace("\r\n", "\n").replace("\r", "\n"), path)


def request(path: str | None) -> dict[str, Any]:
    """The body of a chat completion (`-`: standard input), or the first probe where none is named."""
    if path is None:
        return dict(PROBES["user"].request)
    found = _object(_read(path, "the request"), path, "the request")
    if "messages" not in found:
        mend = 'give it as {"messages": [{"role": "user", "content": "…"}]}'
        raise UsageError("the request holds no messages", where=path, mend=mend)
    return found


def tokens(path: str) -> dict[str, Any]:
    """Special tokens by name, or a whole `tokenizer_config.json`."""
    return special_tokens(_object(_read(path, "the special tokens"), path, "the special tokens"))


def moment(text: str | None) -> dt.datetime:
    """The time that a template is told: ISO 8601, as the server's wall clock shows it; now where none is given."""
    if text is None:
        return dt.datetime.now()  # noqa: DTZ005 - a server's templates read naive local time
    plain = text.strip()
    if plain.endswith(("Z", "z")):
        plain = plain[:-1] + "+00:00"
    try:
        return dt.datetime.fromisoformat(plain).replace(tzinfo=None)
    except ValueError as error:
        mend = "write it as 2026-03-05T14:30:07"
        raise UsageError(f"--now must be a date and time in ISO 8601, found {text!r}", mend=mend) from error


def checkpoint(path: str) -> tuple[Resolution, dict[str, Any]]:
    """The templates of a folder as transformers chooses among them, and its special tokens."""
    root = Path(path)
    if not root.is_dir():
        raise UsageError(
            "there is no such checkpoint folder", where=path, mend="name a folder, or give --template FILE"
        )

    def read(name: str) -> bytes | None:
        try:
            return _regular(str(root / name))
        except OSError:
            return None

    folder = root / FOLDER
    names = [each.name for each in root.iterdir()]
    if folder.is_dir():
        names += [FOLDER + each.name for each in folder.iterdir()]
    return resolve(read, names), special_tokens(document(read, CONFIG) or {}, document(read, "special_tokens_map.json"))


def winner(resolution: Resolution, with_tools: bool, path: str) -> Candidate:
    """The template that the request meets. Raises UsageError where the folder has none for it."""
    found = resolution.with_tools if with_tools else resolution.winner
    if found is not None and found.text is not None:
        return found
    reason = "; ".join(each for each in (*resolution.problems, resolution.unknown) if each)
    reason = reason or "none of its files holds one"
    raise UsageError(
        f"the checkpoint has no chat template for this request: {reason}",
        where=path,
        mend="give one with --template FILE",
    )


def _object(raw: bytes, where: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except RecursionError as error:
        raise UsageError(f"{what} is nested too deeply", where=where, mend="flatten it") from error
    except ValueError as error:
        words = error.msg if isinstance(error, json.JSONDecodeError) else "it is no UTF-8 or holds a number too long"
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{what} is no JSON: {words}", where=where + line, mend="correct the file") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object", where=where, mend="correct the file")
    return value


def _read(path: str, what: str) -> bytes:
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(_MOST + 1)
        else:
            with open(path, "rb") as file:
                raw = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "its name holds a NUL"
        raise UsageError(f"{what} cannot be read: {words}", where=path, mend="name a file that can be read") from error
    if len(raw) > _MOST:
        raise UsageError(f"{what} is longer than {_MOST >> 20} MiB", where=path, mend="name a shorter file")
    return raw


def _regular(path: str) -> bytes | None:
    """The bytes of a plain file, at most so many: a checkpoint may hold pipes, devices and endless files."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        raw = file.read(_MOST + 1)
    return raw if len(raw) <= _MOST else None
