"""Observations as JSON: read strictly, so that what was seen on one host can be judged on another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lockllm.documents import toml
from lockllm.errors import ObservationError
from lockllm.facts import keys, registry
from lockllm.facts.checkpoint import MOST_FILES
from lockllm.facts.fact import Path, Stage
from lockllm.facts.observation import By, Check, CheckStatus, Observation, Reading, Unobserved

VERSION = 1
_FIELDS = (
    "observation_version",
    "observed_at",
    "host",
    "stage",
    "complete",
    "facts",
    "asked",
    "unobserved",
    "checks",
    "warnings",
)
_MOST_VALUES = 1_000_000  # a checkpoint of 50,000 files has up to 900,000
_MOST_READINGS = 40_000  # besides those of files: twice as many as a lock holds facts
_MOST = 20_000  # entries of each other part, gaps of files apart
_FILES = "checkpoint.files."
_FORMER_FIX = "mend"  # the name of `fix` in observations written before lock edition 2; still read
_PARTS = ("unobserved", "checks", "complete", "warnings")
_READING = ("value", "source", "by", "evidence")
_BY = {by.word: by for by in By}
_CONTAINERS = (dict, list)
_EVIDENCE = ("computed", "cached", "claimed")


def read(data: bytes, name: str = "observation.json") -> Observation:
    """The observation that a file holds. Raises ObservationError for what is none."""
    raw = load(data, name)
    if not isinstance(raw, dict):
        raise ObservationError(
            "an observation is a JSON object", where=name, fix="write one with `lockllm observe -o FILE`"
        )
    _version(raw, name)
    if unknown := sorted(set(raw) - set(_FIELDS)):
        meant = registry.nearest(unknown[0], list(_FIELDS))
        raise ObservationError(
            f"an observation has no key {unknown[0]!r}",
            where=name,
            fix=f"did you mean {meant}?" if meant else "remove it",
        )
    facts = raw.get("facts")
    if not isinstance(facts, dict):
        raise ObservationError(
            "facts must be an object of readings", where=name, fix="write one with `lockllm observe -o FILE`"
        )
    _bounded(raw, name)
    asked = raw.get("asked", {})
    if not isinstance(asked, dict):
        raise ObservationError(
            "asked must be an object of readings", where=name, fix="write one with `lockllm observe -o FILE`"
        )
    return Observation(
        readings=tuple(_readings(facts, name)),
        asked=tuple(_readings(asked, name)),
        unobserved=tuple(_unobserved(raw.get("unobserved", {}), name)),
        checks=tuple(_checks(raw.get("checks", {}), name)),
        complete=frozenset(_key(key, name) for key in _texts(raw.get("complete", []), "complete", name)),
        stage=_stage(raw.get("stage", "all"), name),
        observed_at=_text(raw.get("observed_at", ""), "observed_at", name),
        host=_text(raw.get("host", ""), "host", name),
        warnings=tuple(_texts(raw.get("warnings", []), "warnings", name)),
    )


def _readings(facts: dict[str, Any], name: str) -> Iterable[Reading]:
    for key, listed in facts.items():
        try:
            yield from _quickly(key, listed)
        except (TypeError, ValueError, KeyError):  # no list, or an odd reading: said in words
            yield from _checked(_key(key, name), key, listed, name)


def dump(observation: Observation) -> dict[str, Any]:
    """An observation as JSON data, facts in registry order, best witness first."""
    grouped = observation.by_path()
    data: dict[str, Any] = {
        "observation_version": VERSION,
        "observed_at": observation.observed_at,
        "host": observation.host,
        "stage": observation.stage.value,
        "complete": sorted(keys.dotted(path) for path in observation.complete),
        "facts": {
            keys.dotted(path): [dump_reading(reading) for reading in grouped[path]]
            for path in sorted(grouped, key=registry.position)
        },
        "unobserved": {
            keys.dotted(each.path): {
                "reason": each.reason, "fix": each.fix, **({"due": each.due.value} if each.due is not Stage.PREFLIGHT else {})
            }
            for each in sorted(observation.unobserved, key=lambda each: registry.position(each.path))
        },
        "checks": {
            each.name: {"status": each.status.value, "detail": each.detail, "source": each.source, "fix": each.fix}
            for each in sorted(observation.checks, key=lambda each: each.name)
        },
    }  # fmt: skip
    if observation.asked:
        asked: dict[str, list[dict[str, Any]]] = {}
        for reading in sorted(observation.asked, key=lambda each: registry.position(each.fact.path)):
            asked.setdefault(reading.fact.key, []).append(dump_reading(reading))
        data["asked"] = asked
    if observation.warnings:
        data["warnings"] = list(observation.warnings)
    return data


def write(observation: Observation) -> str:
    """An observation as text."""
    return json.dumps(dump(observation), indent=1, ensure_ascii=True, default=str) + "\n"


def dump_reading(reading: Reading) -> dict[str, Any]:
    """One reading as JSON data."""
    data = {"value": registry.dump(reading.fact, reading.value), "source": reading.source, "by": reading.by.word}
    if reading.evidence != "computed":
        data["evidence"] = reading.evidence
    return data


def load(data: bytes, name: str) -> Any:
    """The data of a JSON document; a key that appears twice is refused. Raises ObservationError."""
    text = toml.decode(data, name, ObservationError)
    if sum(map(text.count, ",:[{")) > _MOST_VALUES:
        what = f"the file holds more than {_MOST_VALUES:,} values"
        raise ObservationError(what, where=name, fix="check that it is the right file")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as cause:
        raise ObservationError(
            f"this is not JSON: {cause.msg[:1].lower()}{cause.msg[1:]}", where=f"{name}, line {cause.lineno}",
            fix="write it again with `lockllm observe -o FILE`",
        ) from cause  # fmt: skip
    except (RecursionError, ValueError) as cause:
        what = (
            str(cause) if isinstance(cause, _Twice) else "this JSON is nested too deeply or holds an impossible number"
        )
        raise ObservationError(what, where=name, fix="write it again with `lockllm observe -o FILE`") from cause


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(f"the key {key!r} appears twice")
            seen.add(key)
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _version(raw: dict[str, Any], name: str) -> None:
    version = raw.get("observation_version")
    if version is None:
        raise ObservationError(
            "the file holds no observation_version", where=name, fix="write one with `lockllm observe -o FILE`"
        )
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ObservationError(
            f"observation_version is {version!r}", where=name, fix="write one with `lockllm observe -o FILE`"
        )
    if version > VERSION:
        raise ObservationError(
            f"observation_version {version} is newer than this lockllm reads ({VERSION})",
            where=name,
            fix="upgrade lockllm here",
        )


def _bounded(raw: dict[str, Any], name: str) -> None:
    """Raises ObservationError for more than any host shows: each is judged, and told in every format."""
    readings, files = 0, 0
    typed = raw.get("asked")
    for key, listed in [*raw["facts"].items(), *(typed.items() if isinstance(typed, dict) else ())]:
        count = len(listed) if isinstance(listed, list) else 1
        if key.startswith(_FILES):
            files += count
        else:
            readings += count
    parts = {key: raw[key] for key in _PARTS if isinstance(raw.get(key), (dict, list))}
    if isinstance(gaps := parts.get("unobserved"), dict):
        parts["unobserved"] = [key for key in gaps if not key.startswith(_FILES)]
        files = max(files, len(gaps) - len(parts["unobserved"]))
    for count, most, of in (
        (files, MOST_FILES, "readings or gaps of files"),
        (readings, _MOST_READINGS, "readings besides those of files"),
        *((len(part), _MOST, f"entries in {key}") for key, part in parts.items()),
    ):
        if count > most:
            what = f"the file holds {count:,} {of}, at most {most:,} are read"
            raise ObservationError(what, where=name, fix="check that it is the right file")


def _key(key: str, name: str) -> Path:
    try:
        return registry.current(keys.parse(key))
    except ValueError as cause:
        raise ObservationError(
            f"{key!r} is not the key of a fact", where=name, fix="write it as a TOML dotted key"
        ) from cause


def _quickly(key: str, listed: Any) -> list[Reading]:
    if listed.__class__ is not list or not listed:
        raise TypeError(key)
    return [(_new if each["value"].__class__ in _CONTAINERS else _reading)(key, **each) for each in listed]


@lru_cache(maxsize=20_000, typed=True)  # the hosts of a fleet show the same values again and again
def _reading(key: str, value: Any, source: str = "", by: str = "endpoint", evidence: str = "computed") -> Reading:
    """One reading. Raises TypeError or ValueError where anything is odd; `_checked` then says what."""
    if source.__class__ is not str or by not in _BY or evidence not in _EVIDENCE:
        raise ValueError(key)
    row = registry.find(registry.current(keys.parse(key)))
    return Reading(row, registry.read(row, value), source, _BY[by], evidence)


_new = _reading.__wrapped__  # a list or table cannot be kept by its value


def _checked(path: Path, key: str, listed: Any, name: str) -> Iterable[Reading]:
    if not isinstance(listed, list) or not all(isinstance(each, dict) and "value" in each for each in listed):
        raise ObservationError(
            f"{key} must be a list of readings",
            where=name,
            fix='write [{"value": …, "source": "…", "by": "endpoint"}]',
        )
    row = registry.find(path)
    for each in listed:
        if unknown := sorted(set(each) - set(_READING)):
            raise ObservationError(
                f"a reading of {key} has no key {unknown[0]!r}", where=name, fix=f"write {', '.join(_READING)}"
            )
        word, evidence = each.get("by", "endpoint"), each.get("evidence", "computed")
        if not isinstance(word, str) or word not in _BY:
            raise ObservationError(
                f"a reading of {key} is by {word!r}", where=name, fix=f"write one of {', '.join(_BY)}"
            )
        if evidence not in _EVIDENCE:
            raise ObservationError(
                f"the evidence of {key} is {evidence!r}", where=name, fix=f"write one of {', '.join(_EVIDENCE)}"
            )
        source = _text(each.get("source", ""), f"source of {key}", name)
        yield Reading(row, registry.read(row, each["value"]), source, _BY[word], evidence)


def _unobserved(raw: Any, name: str) -> Iterable[Unobserved]:
    if not isinstance(raw, dict):
        raise ObservationError(
            "unobserved must be an object", where=name, fix='write {"KEY": {"reason": "…", "fix": "…"}}'
        )
    for key, each in raw.items():
        if not isinstance(each, dict) or set(each) - {"reason", "fix", _FORMER_FIX, "due"}:
            raise ObservationError(f"unobserved {key} must hold reason and fix", where=name, fix="write both as texts")
        reason, fix = (
            _text(each.get("reason", ""), f"reason of {key}", name),
            _text(each.get("fix", each.get(_FORMER_FIX, "")), f"fix of {key}", name),
        )
        yield Unobserved(_key(key, name), reason, fix, _stage(each.get("due", "preflight"), name))


def _checks(raw: Any, name: str) -> Iterable[Check]:
    if not isinstance(raw, dict):
        raise ObservationError("checks must be an object", where=name, fix='write {"check.NAME": {"status": "pass"}}')
    words = {status.value: status for status in CheckStatus}
    for key, each in raw.items():
        if not isinstance(each, dict) or not isinstance(each.get("status"), str) or each["status"] not in words:
            raise ObservationError(f"{key} has no status", where=name, fix=f"write one of {', '.join(words)}")
        values = {**each, "fix": each.get("fix", each.get(_FORMER_FIX, ""))}
        texts = [_text(values.get(field, ""), f"{field} of {key}", name) for field in ("detail", "source", "fix")]
        yield Check(key, words[each["status"]], *texts)


def _stage(raw: Any, name: str) -> Stage:
    try:
        return Stage(raw)
    except ValueError as cause:
        words = ", ".join(stage.value for stage in Stage)
        raise ObservationError(f"stage is {raw!r}", where=name, fix=f"write one of {words}") from cause


def _text(raw: Any, what: str, name: str) -> str:
    if not isinstance(raw, str):
        raise ObservationError(f"{what} must be a text", where=name, fix="write it in quotes")
    return raw


def _texts(raw: Any, what: str, name: str) -> list[str]:
    if not isinstance(raw, list) or not all(isinstance(each, str) for each in raw):
        raise ObservationError(f"{what} must be a list of texts", where=name, fix='write ["…"]')
    return raw
