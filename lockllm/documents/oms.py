"""The per-file table as OpenSSF Model Signing keeps it: an in-toto statement, v1 with predicate `signature/v1.0` (model_signing 1.1)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.documents.lock import Lock
from lockllm.errors import LockError, UsageError
from lockllm.facts.fact import Path
from lockllm.facts.registry import find
from lockllm.facts.registry import read as parsed

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://model_signing/signature/v1.0"
PAYLOAD = "application/vnd.in-toto+json"
_FILES = ("checkpoint", "files")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_TOLD = 5
_FIX = "name a statement that `lockllm lock --oms` or model_signing wrote"


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a model by their digests. Who says so is not part of it: a signature is checked elsewhere."""

    model: str
    files: Mapping[str, str]  # path -> sha256
    ignored: tuple[str, ...] = ()  # paths that the statement says nothing of, by its own word
    signed: bool = False  # it came in an envelope with signatures, which nobody checked here


class _Subject(msgspec.Struct):
    name: str
    digest: dict[str, str]


class _Resource(msgspec.Struct):
    name: str
    algorithm: str
    digest: str


class _Serialization(msgspec.Struct):
    method: str
    hash_type: str = "sha256"
    allow_symlinks: bool = False
    ignore_paths: list[str] = []


class _Predicate(msgspec.Struct):
    serialization: _Serialization
    resources: list[_Resource]


class _Document(msgspec.Struct):
    type_: str = msgspec.field(name="_type")
    predicateType: str  # noqa: N815 - as in-toto spells it
    subject: list[_Subject]
    predicate: _Predicate


def write(model: str, lock: Lock) -> str:
    """The unsigned statement of a lock's files. Raises UsageError where it holds no digests."""
    files = dict(_digests(lock))
    if not files:
        raise UsageError("the lock holds no digests of files", where="--oms", fix="lock a checkpoint")
    resources = [{"name": name, "algorithm": "sha256", "digest": files[name]} for name in sorted(files)]
    document = {
        "_type": STATEMENT,
        "subject": [{"name": model, "digest": {"sha256": _root(files[name] for name in sorted(files))}}],
        "predicateType": PREDICATE,
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": True},
            "resources": resources,
        },
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def read(data: bytes, where: str) -> Statement:
    """A statement, bare or in a DSSE envelope or Sigstore bundle. Raises UsageError for anything that is not exactly one."""
    payload, signed = _payload(data, where)
    try:
        document = msgspec.json.decode(payload, type=_Document)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(f"this is not an OMS statement: {error}", where=where, fix=_FIX) from error
    problem = next(_problems(document), None)
    if problem is not None:
        raise UsageError(problem, where=where, fix=_FIX)
    subject = document.subject[0]
    files = {subject.name if each.name == "." else each.name: each.digest for each in document.predicate.resources}
    return Statement(
        model=subject.name, files=files, ignored=tuple(document.predicate.serialization.ignore_paths), signed=signed
    )


def expected(statement: Statement, where: str) -> Lock:
    """A lock of nothing but the statement's files: closed, but for what the statement ignores."""
    ignored = [glob for each in statement.ignored for glob in (_plain(each), _plain(each) + "/")]
    return Lock(values=_values(statement), include=("*",), exclude=tuple(ignored), warnings=_warnings(statement, where))


def agreed(lock: Lock, statement: Statement, name: str, where: str) -> Lock:
    """The lock, with its files proven to be those of the statement. Raises LockError where one is not."""
    held = dict(_digests(lock))
    warnings = (*lock.warnings, *_warnings(statement, where))
    if not held:
        return msgspec.structs.replace(lock, values={**lock.values, **_values(statement)}, warnings=warnings)
    differ = [path for path, sha256 in sorted(held.items()) if statement.files.get(path) != sha256]
    if differ:
        more = f" and {len(differ) - _TOLD} more" if len(differ) > _TOLD else ""
        raise LockError(
            f"{where} does not hold the locked digest of {', '.join(differ[:_TOLD])}{more}",
            where=name,
            fix="lock the signed checkpoint, or ask for the statement of the locked one",
        )
    return msgspec.structs.replace(lock, warnings=warnings)


def _payload(data: bytes, where: str) -> tuple[bytes, bool]:
    """The statement's own bytes, and whether they came in an envelope."""
    try:
        outer: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}", where=where, fix=_FIX) from error
    envelope = outer.get("dsseEnvelope", outer) if isinstance(outer, dict) else None
    if not isinstance(envelope, dict):
        raise UsageError("this is not an OMS statement: it is not a JSON object", where=where, fix=_FIX)
    if "payload" not in envelope:
        return data, False
    if envelope.get("payloadType") != PAYLOAD:
        what = f"the envelope holds {envelope.get('payloadType')!r}, and no in-toto statement"
        raise UsageError(what, where=where, fix=_FIX)
    try:
        return base64.b64decode(envelope["payload"], validate=True), True
    except (binascii.Error, TypeError, ValueError) as error:
        raise UsageError(f"the payload of the envelope is not base64: {error}", where=where, fix=_FIX) from error


def _problems(document: _Document) -> Iterator[str]:
    if document.type_ != STATEMENT:
        yield f"_type must be {STATEMENT}, found {document.type_!r}"
    if document.predicateType != PREDICATE:
        yield f"predicateType must be {PREDICATE}, found {document.predicateType!r}"
    how = document.predicate.serialization
    if how.method != "files":
        yield f"the statement digests {how.method!r}: lockllm compares whole files"
    named: set[str] = set()
    for each in document.predicate.resources:
        if each.algorithm != "sha256" or not _SHA256.match(each.digest):
            yield f"{each.name!r} is digested by {each.algorithm!r}: lockllm compares sha256, in lower-case hex"
        if each.name in named:
            yield f"{each.name!r} appears there twice"
        if not _is_safe(each.name) and not (each.name == "." and len(document.predicate.resources) == 1):
            yield f"{each.name!r} is not a plain relative path"
        named.add(each.name)
    if not named:
        yield "the statement names no file"
    if len(document.subject) != 1:
        yield f"the statement must have one subject, found {len(document.subject)}"
    elif document.subject[0].digest.get("sha256") != _root(each.digest for each in document.predicate.resources):
        yield "the digest of the subject is not that of the files: the statement was edited"


def _root(digests: Iterator[str] | Any) -> str:
    """The sha256 over the digests themselves, in the order of the files."""
    return hashlib.sha256(b"".join(bytes.fromhex(each) for each in digests), usedforsecurity=False).hexdigest()


def _is_safe(name: str) -> bool:
    plain = name.isprintable() and "\\" not in name
    return plain and all(part not in ("", ".", "..") for part in name.split("/"))


def _digests(lock: Lock) -> Iterator[tuple[str, str]]:
    for path, value in lock.values.items():
        if path[:2] == _FILES and len(path) == 3 and isinstance(value, dict) and isinstance(value.get("sha256"), str):
            yield path[2], value["sha256"]


def _values(statement: Statement) -> dict[Path, Any]:
    return {
        (*_FILES, name): parsed(find((*_FILES, name)), {"sha256": sha256}) for name, sha256 in statement.files.items()
    }


def _warnings(statement: Statement, where: str) -> tuple[str, ...]:
    if not statement.signed:
        return ()
    return (f"the signature of {where} is not checked here: run model_signing verify",)


def _plain(path: str) -> str:
    """A path as a glob that means nothing but it."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)
