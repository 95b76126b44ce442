"""JSON Schemas of the documents that are read: spec, lock and observation, made from the fact registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lockllm.documents import lock, observation
from lockllm.facts import registry
from lockllm.facts.fact import Fact, Family, Path, Policy, Stage
from lockllm.facts.observation import By, CheckStatus

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
READING: dict[str, Any] = {
    "type": "object",
    "description": "One witness's word on a fact; a null value: looked for and not there.",
    "required": ["value"],
    "properties": {
        "value": {},
        "source": {**TEXT, "description": "What a person would open."},
        "by": {"enum": [by.word for by in By], "description": "The witness, best first."},
        "evidence": {"enum": ["computed", "cached", "claimed"], "description": "How a digest is known."},
    },
}
CHECK: dict[str, Any] = {
    "status": {"enum": [status.value for status in CheckStatus]},
    "detail": TEXT,
    "source": TEXT,
    "fix": TEXT,
}
_GLOBS = {**TEXTS, "items": {**TEXT, "minLength": 1}}
_ENV_OPEN = {**_GLOBS, "description": "Globs over names of variables that may differ between hosts."}
_AUTO = ("serve", "tokenizer", "chat_template")
_WAIVERS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["fact", "found", "reason"],
        "properties": {
            "fact": {**TEXT, "description": "The key of the fact."},
            "found": {"description": "The value that is accepted."},
            "reason": {**TEXT, "minLength": 1},
            "until": {**TEXT, "format": "date", "description": "The last day."},
        },
    },
}
_POLICY: dict[str, Any] = {
    "type": "object",
    "description": "How differences are judged, by key or glob.",
    "additionalProperties": {
        "anyOf": [
            {"enum": [policy.value for policy in Policy]},
            {"type": "object", "description": "a dotted key, written without quotes"},
        ]
    },
}


def of_spec(engines: Sequence[str]) -> dict[str, Any]:
    """llm.toml as data. Strict: what is not named here is an error. `engines`: what `engine.name` may be."""
    tables = _tables(
        [row for row in registry.ROWS if row.settable and row.lockable and row.group != "checkpoint"],
        [each for each in registry.FAMILIES if each.row.settable and each.path[0] != "checkpoint"],
        _in_spec,
        closed=True,
    )
    tables["engine"]["properties"]["name"] = {"enum": list(engines), "description": "The engine."}
    tables["tokenizer"]["properties"]["path"] = {**TEXT, "description": "A directory, relative to this file."}
    tables["checkpoint"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "repo": {**TEXT, "description": "A Hub repository, OWNER/NAME."},
            "path": {**TEXT, "description": "A directory or a .gguf file, relative to this file."},
            "revision": {**TEXT, "description": "A branch, tag or commit."},
            "include": {**_GLOBS, "description": "Globs over file names."},
            "exclude": {**_GLOBS, "description": "Globs over file names."},
        },
    }
    tables = {name: tables[name] for name in registry.GROUP if name in tables}
    settings = {"policy": _POLICY, "waive": _WAIVERS, "env_open": _ENV_OPEN}
    overlay = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"$ref": f"#/properties/{name}"} for name in (*tables, *settings)},
    }
    variant = {
        "type": "object",
        "description": "Overlays: each makes a lock of its own, llm.NAME.lock.",
        "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
        "additionalProperties": overlay,
    }
    return {
        "$schema": DRAFT,
        "$id": "urn:lockllm:spec:1",
        "title": "llm.toml: what is to be locked",
        "type": "object",
        "additionalProperties": False,
        "required": ["checkpoint", "engine"],
        "properties": {**tables, **settings, "variant": variant},
    }


def of_lock() -> dict[str, Any]:
    """llm.lock as data. Open where a newer release may add facts."""
    tables = _tables(
        [row for row in registry.ROWS if row.lockable],
        [each for each in registry.FAMILIES if each.row.lockable],
        lambda row: row.type.schema,
        closed=False,
    )
    tables["checkpoint"]["properties"] |= {"include": _GLOBS, "exclude": _GLOBS}
    reasons = {"type": "object", "additionalProperties": TEXT}
    return {
        "$schema": DRAFT,
        "$id": f"urn:lockllm:lock:{lock.VERSION}",
        "title": "llm.lock: what identifies one serving system",
        "type": "object",
        "required": ["lock_version"],
        "properties": {
            "lock_version": {"const": lock.VERSION},
            "edition": {
                "type": "integer",
                "minimum": 1,
                "maximum": lock.EDITION,
                "description": "The rules that the lock is judged by; 1 where it is not there.",
            },
            "spec": {**TEXT, "minLength": 1, "description": "The spec's file name, beside the lock."},
            "facts": {
                "type": "integer",
                "minimum": 0,
                "description": "How many facts the lock holds, absent and asked ones too.",
            },
            "accepted": {**TEXTS, "description": "Facts taken from a host where the spec resolves to another value."},
            "env_open": _ENV_OPEN,
            "unpinned": {**reasons, "description": "Facts that are not held, and why."},
            **tables,
            "absent": {
                "type": "object",
                "description": "Facts that were looked for and not there, by table.",
                "additionalProperties": TEXTS,
            },
            "asked": {
                "type": "object",
                "description": "What was typed when the lock was made, by key, as it was typed.",
            },
            "requires": {**reasons, "description": "Ranges of the spec, for policy compatible."},
            "policy": _POLICY,
            "waive": _WAIVERS,
        },
        "additionalProperties": {"type": "object"},
    }


def of_observation() -> dict[str, Any]:
    """What `observe` writes and `verify --observation` reads."""
    return {
        "$schema": DRAFT,
        "$id": f"urn:lockllm:observation:{observation.VERSION}",
        "title": "What was seen on one host",
        "type": "object",
        "additionalProperties": False,
        "required": ["observation_version", "facts"],
        "properties": {
            "observation_version": {"const": observation.VERSION},
            "observed_at": {**TEXT, "description": "RFC 3339, UTC."},
            "host": TEXT,
            "stage": {"enum": [stage.value for stage in Stage]},
            "complete": {**TEXTS, "description": "Families that were seen whole: what is not read is not there."},
            "facts": {
                "type": "object",
                "description": "By dotted key; the best witness first.",
                "additionalProperties": {"type": "array", "items": {**READING, "additionalProperties": False}},
            },
            "asked": {
                "type": "object",
                "description": "What was typed, as it was typed, by dotted key: arguments, config files, variables.",
                "additionalProperties": {"type": "array", "items": {**READING, "additionalProperties": False}},
            },
            "unobserved": UNOBSERVED,
            "checks": {
                "type": "object",
                "description": "Findings that need no lock.",
                "additionalProperties": {"type": "object", "required": ["status"], "properties": CHECK},
            },
            "warnings": TEXTS,
        },
    }


UNOBSERVED: dict[str, Any] = {
    "type": "object",
    "description": "What could not be seen, why, and what would show it.",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"reason": TEXT, "fix": TEXT, "due": {"enum": [stage.value for stage in Stage]}},
    },
}


def _in_spec(row: Fact[Any]) -> dict[str, Any]:
    shape = row.type.schema
    if row.group in _AUTO and shape and "string" not in _types(shape):
        return {"anyOf": [shape, {"const": "auto"}]}
    return shape


def _types(shape: dict[str, Any]) -> tuple[str, ...]:
    named = shape.get("type", ())
    return (named,) if isinstance(named, str) else tuple(named)


def _tables(rows: Iterable[Fact[Any]], families: Iterable[Family[Any]], shape: Any, *, closed: bool) -> dict[str, Any]:
    """The rows as nested tables, in registry order. A closed table holds its rows and families alone."""
    root: dict[str, Any] = {"properties": {}}
    for row in rows:
        _place(root, row.path, {**shape(row), "description": row.about}, closed)
    for family in families:
        member = shape(family.row) if family.depth == 1 else {}
        table = _open(root, family.path, closed)
        held = table.get("additionalProperties")
        table["additionalProperties"] = member if held is None or held is False else {}
    tables: dict[str, Any] = root["properties"]
    return {name: tables[name] for name in registry.GROUP if name in tables}


def _place(root: dict[str, Any], path: Path, leaf: dict[str, Any], closed: bool) -> None:
    tables = _open(root, path[:-1], closed)["properties"]
    if path[-1] in tables:  # a table of its own facts that may also be one value
        tables[path[-1]] = {"description": leaf["description"]}
    else:
        tables[path[-1]] = leaf


def _open(root: dict[str, Any], path: Path, closed: bool) -> dict[str, Any]:
    """The table at a path, made where there is none."""
    table = root
    for depth, part in enumerate(path, 1):
        group = registry.GROUP.get(part) if depth == 1 else None
        fresh: dict[str, Any] = {"type": "object", **({"description": group.about} if group else {}), "properties": {}}
        if closed:
            fresh["additionalProperties"] = False
        table = table["properties"].setdefault(part, fresh)
        table.setdefault("properties", {})
    return table
