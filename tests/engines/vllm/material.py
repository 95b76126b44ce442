"""What real vLLM servers showed, and short ways to ask the engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lockllm import engines
from lockllm.engines import Answer, Context, Form, Given
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Check, Reading, Unobserved
from lockllm.facts.registry import dump

DATA = Path(__file__).parent / "data"
VLLM = engines.load("vllm")
NAMES = {
    "/version": "get-version.json",
    "/v1/models": "get-v1-models.json",
    "/metrics": "get-metrics.txt",
    "/server_info?config_format=json": "get-server_info-json.json",
    "/tokenize": "post-tokenize-prompt.json",
    "/tokenizer_info": "get-tokenizer_info.json",
    "/v1/chat/completions/render": "post-v1-chat-render.json",
}


def form(*args: str, module: bool = False) -> Form:
    """The launch form of `vllm serve ARGS`, or of the API server's module."""
    program = ["python3", "-m", "vllm.entrypoints.openai.api_server"] if module else ["vllm", "serve"]
    found = VLLM.recognise([*program, *args])
    assert found is not None
    return found


def given(
    *args: str,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    version: str | None = "0.32.0",
    module: bool = False,
) -> Given:
    """What a command says."""
    return VLLM.given(form(*args, module=module), env or {}, files or {}, version, False)


def facts(found: Iterable[Reading | Unobserved]) -> dict[str, Any]:
    """Values by key, as documents hold them; what could not be seen stands as None."""
    told: dict[str, Any] = {}
    for each in found:
        if isinstance(each, Reading):
            told[each.fact.key] = "absent" if each.value is ABSENT else dump(each.fact, each.value)
        else:
            told.setdefault(dotted(each.path), None)
    return told


def failing(checks: Iterable[Check]) -> dict[str, str]:
    """The findings that do not pass: name -> detail."""
    return {check.name: check.detail for check in checks if check.status.value != "pass"}


def effective(*args: str, version: str | None, context: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The values in force that rules and defaults tell over a command, by key."""
    from lockllm.facts.keys import parse

    checkpoint = {parse(key): value for key, value in (context or {}).items() if not key.startswith("host.")}
    host = {parse(key): value for key, value in (context or {}).items() if key.startswith("host.")}
    said = given(*args, version=version, env=more.get("env"), files=more.get("files"))
    about = Context(
        version=version, checkpoint=checkpoint, host=host, packages=more.get("packages", {}), env=more.get("env") or {}
    )
    return {**facts(VLLM.effective(said, about)), **facts(said.readings)}


def captured(folder: str) -> list[Answer]:
    """The answers of a capture to the probes."""
    found = []
    for probe in VLLM.probes:
        path = DATA / "captures" / folder / NAMES.get(probe.path, "-")
        if not path.exists():
            continue
        text = path.read_text()
        if path.suffix == ".txt":
            found.append(Answer(probe=probe, status=200, headers={}, text=text))
        else:
            held = json.loads(text)
            body = held["body_json"]
            found.append(
                Answer(probe=probe, status=held["status"], headers=held["headers"], text=json.dumps(body), json=body)
            )
    return found
