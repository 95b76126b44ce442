"""JSON Schemas of everything that lockllm reads and prints, by name; checked in below `schemas/`."""

from __future__ import annotations

import json
from typing import Any

from lockllm import engines
from lockllm.documents import schema as documents
from lockllm.documents.schema import CHECK, DRAFT, READING, TEXT, TEXTS, UNOBSERVED
from lockllm.facts.fact import Kind, Policy, Stage
from lockllm.judge.diff import VERDICTS
from lockllm.judge.report import Status

NAMES = ("spec", "lock", "observation", "report", "diff", "inspect")
"""What `lockllm schema` takes."""
_KIND = {"enum": [kind.value for kind in Kind], "description": "What moves when the fact moves."}
_KEY = {**TEXT, "description": "A dotted key, spelled as in the lock."}
_BECAUSE = {"type": ["string", "null"], "description": "The key of the difference that this one follows from."}
_COUNT = {"type": "integer", "minimum": 0}


def of(name: str) -> dict[str, Any]:
    """The schema of that name. KeyError for another."""
    made = {
        "spec": lambda: documents.of_spec(engines.names()),
        "lock": documents.of_lock,
        "observation": documents.of_observation,
        "report": _report,
        "diff": _diff,
        "inspect": _inspect,
    }
    return made[name]()


def text(name: str) -> str:
    """The schema of that name, as it is checked in."""
    return json.dumps(of(name), indent=2, ensure_ascii=True) + "\n"


def _report() -> dict[str, Any]:
    counts = [status.value for status in Status] + ["pinned", "unpinned"]
    properties = {
        "report_version": {"const": 1},
        "status": {"enum": ["match", "mismatch", "unknown"]},
        "exit_code": {"enum": [0, 1, 3]},
        "stage": {"enum": [stage.value for stage in Stage]},
        "lock": {**TEXT, "description": "The lock that was judged, as it was named."},
        "subject": {**TEXT, "description": "What was looked at."},
        "host": TEXT,
        "engine": TEXT,
        "gate": {"enum": ["enforce", "warn", "off"]},
        "fingerprint": _record({"locked": TEXT, "observed": TEXT}),
        "counts": _record(dict.fromkeys(counts, _COUNT)),
        "results": {"type": "array", "items": _result()},
        "checks": {"type": "array", "items": _named_check()},
        "unpinned": {"type": "object", "additionalProperties": TEXT},
        "seen_not_pinned": {
            "description": "What a witness shows of facts that the lock does not hold.",
            "type": "object",
            "additionalProperties": _record({"value": {}, "source": TEXT}),
        },
        "others": TEXTS,
        "warnings": TEXTS,
    }
    return _document("report", "A lock judged against a host", properties)


def _result() -> dict[str, Any]:
    return _record(
        {
            "fact": _KEY,
            "status": {"enum": [status.value for status in Status]},
            "policy": {"enum": [policy.value for policy in Policy]},
            "expected": {"description": "The locked value; null: locked as absent."},
            "found": {"description": "The value in force; null: absent where `seen` is true, else not seen."},
            "seen": {"type": "boolean"},
            "readings": {"type": "array", "items": READING},
            "source": TEXT,
            "kind": _KIND,
            "effect": TEXT,
            "fix": TEXT,
            "because": _BECAUSE,
            "reason": TEXT,
            "blocking": {"type": "boolean", "description": "Whether it raises the exit code."},
        }
    )


def _diff() -> dict[str, Any]:
    change = _record(
        {
            "fact": _KEY,
            "before": {"description": "null: not held."},
            "after": {"description": "null: not held."},
            "change": {"enum": ["changed", "added", "removed"]},
            "kind": _KIND,
            "effect": TEXT,
            "because": _BECAUSE,
        }
    )
    change["properties"] |= {
        "moved_to": {**_KEY, "description": "The new name of a removed file whose bytes are there still."},
        "moved_from": {**_KEY, "description": "The former name of an added file."},
    }
    properties = {
        "diff_version": {"const": 1},
        "before": TEXT,
        "after": TEXT,
        "verdict": {"enum": list(VERDICTS)},
        "changes": {"type": "array", "items": change},
        "warnings": TEXTS,
    }
    return _document("diff", "What moved between two locks", properties)


def _inspect() -> dict[str, Any]:
    properties = {
        "facts": {"type": "object", "description": "By dotted key, one value each; null: looked for and not there."},
        "sources": {"type": "object", "description": "Where each was seen.", "additionalProperties": TEXT},
        "unobserved": UNOBSERVED,
        "checks": {"type": "array", "items": _named_check()},
    }
    return _document("inspect", "The facts and findings of one thing that was looked at", properties)


def _named_check() -> dict[str, Any]:
    return _record({"check": {**TEXT, "description": "A check.* row of the registry."}, **CHECK})


def _document(name: str, title: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DRAFT, "$id": f"urn:lockllm:{name}:1", "title": title, **_record(properties)}


def _record(properties: dict[str, Any]) -> dict[str, Any]:
    """An object that holds all of these; a later release may add more."""
    return {"type": "object", "required": list(properties), "properties": properties}
