"""Takes secrets out of what was read before anything is stored, printed or compared: by name, by shape, and those known.

Values are foreign: a URL brings a password or a signature, a JSON text a key, a header a token. No rule of an engine can
know all of them, so each reading passes here once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from lockllm.engines import Given, Model
from lockllm.engines.kernel.values import secret_name
from lockllm.facts.observation import Check, Raw, Reading, Unobserved

HIDDEN = "***"
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]{0,30}://)(?P<user>[^/@\s\"'<>]*@)?(?P<rest>[^\s\"'<>?#]*)(?P<query>[?#][^\s\"'<>]*)?"
)
_HEADER = re.compile(r"(?i)\b(authorization\s*[:=]\s*[\"']?|bearer\s+)(?:bearer\s+|basic\s+|token\s+)?[^\s\"',;}]{4,}")
_SHAPE = re.compile(
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
)
_PAIR = re.compile(
    r"(?P<head>(?P<quote>[\"']?)(?<![\w.-])(?P<name>[\w.-]+)(?P=quote)\s*[:=]\s*[\"']?)(?P<value>[^\"',;&\s}\])]+)"
)
"""A name begins where a word does, so that a long word is looked at once and not from each of its letters."""
_LONGEST_NAME = 61
_ENDS = re.compile(
    r"(?i)(?:.*[_.-])?(?:\w*api_?key|(?:access|private|secret|admin)_?key|keys?|\w*token|\w*secret|\w*passw(?:or)?d|passphrase"
    r"|credentials?|auth|authorization|cookie|dsn)\Z"
)
"""How a name ends under which a secret stands in a text: `token_embd=CPU` is none."""
# A digest, of which a checkpoint has thousands: none of the above is found in it.
_DIGITS = re.compile(r"[0-9a-f]{32,128}\Z")
_PLAIN = frozenset({"true", "false", "none", "null", "auto"})
_SHORTEST, _SHORT = 4, 8  # a shorter word is no secret to look for; up to the second one only a word of its own is one


def text(said: str, secrets: Iterable[str] = ()) -> str:
    """A sentence of ours without what is secret in the foreign words that it quotes."""
    for secret in secrets:
        if secret in said:
            said = _known(secret).sub(HIDDEN, said)
    if "://" in said:
        said = _URL.sub(_without_secrets, said)
    return _SHAPE.sub(HIDDEN, _HEADER.sub(rf"\g<1>{HIDDEN}", said))


def holds(said: str, secrets: Iterable[str]) -> bool:
    """Whether a text holds one of these: a short one only as a word of its own."""
    return any(secret in said and _known(secret).search(said) for secret in secrets)


def value(read: Any) -> Any:
    """A value that was read, without passwords and queries of URLs, tokens, and what stands under a secret's name."""
    if isinstance(read, str):
        if _DIGITS.match(read):
            return read
        return _PAIR.sub(_pair, text(read)) if len(read) < 100_000 else HIDDEN
    if isinstance(read, (list, tuple)):
        return tuple(value(each) for each in read)
    if isinstance(read, dict):
        return {name: HIDDEN if secret_name(str(name)) else value(held) for name, held in read.items()}
    return Raw(value(read.value)) if isinstance(read, Raw) else read


def readings(read: Iterable[Reading]) -> tuple[Reading, ...]:
    """Readings, those left out whose own key names a secret."""
    return tuple(_reading(each) for each in read if not _named_secret(each))


def gap(unseen: Unobserved, secrets: Iterable[str] = ()) -> Unobserved:
    """A gap whose reason and fix quote nothing secret."""
    known = tuple(secrets)
    return msgspec.structs.replace(unseen, reason=text(unseen.reason, known), fix=text(unseen.fix, known))


def given(told: Given, secrets: Iterable[str] = ()) -> Given:
    """What a command gives, cleaned through and through; where things lie on this host stays as it is."""
    known = (*secrets, *told.secrets)
    return msgspec.structs.replace(
        told,
        readings=readings(told.readings),
        env=readings(told.env),
        model=_model(told.model),
        tokenizer=_model(told.tokenizer),
        draft=_model(told.draft),
        adapters={name: model for name, each in told.adapters.items() if (model := _model(each)) is not None},
        paths=tuple(msgspec.structs.replace(each, path=text(each.path)) for each in told.paths),
        unread=tuple(gap(each, known) for each in told.unread),
        checks=checks(told.checks, known),
        warnings=tuple(text(each, known) for each in told.warnings),
    )


def checks(found: Sequence[Check], secrets: Iterable[str] = ()) -> tuple[Check, ...]:
    """Findings with the same verdicts and nothing secret in their words."""
    known = tuple(secrets)
    return tuple(
        msgspec.structs.replace(
            each, detail=text(each.detail, known), source=text(each.source, known), fix=text(each.fix, known)
        )
        for each in found
    )


def _known(secret: str) -> re.Pattern[str]:
    if len(secret) < _SHORTEST or secret.lower() in _PLAIN:
        return re.compile(r"(?!)")
    word = re.escape(secret)
    return re.compile(word if len(secret) >= _SHORT else rf"(?<!\w){word}(?!\w)")


def _model(named: Model | None) -> Model | None:
    if named is None:
        return None
    revision = text(named.revision) if named.revision is not None else None
    return msgspec.structs.replace(named, text=text(named.text), revision=revision)


def _reading(read: Reading) -> Reading:
    clean = value(read.value)
    return read if clean == read.value else msgspec.structs.replace(read, value=clean)


def _named_secret(read: Reading) -> bool:
    path = read.fact.path
    return path[0] in ("serve", "sampling") and any(secret_name(part) for part in path[2:])


def _without_secrets(found: re.Match[str]) -> str:
    return found["scheme"] + found["rest"]


def _pair(found: re.Match[str]) -> str:
    name = found["name"][-_LONGEST_NAME:].lstrip("0123456789.-")
    named = _ENDS.match(name) and secret_name(name.replace("-", "_"))
    if not named or found["value"].lower() in _PLAIN or found["value"].startswith(("$", "{")):
        return found.group()
    return found["head"] + HIDDEN
