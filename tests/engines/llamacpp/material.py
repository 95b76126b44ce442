"""What real llama.cpp servers showed, and how a running one is asked."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lockllm.engines import Answer, Probe
from lockllm.facts.keys import dotted
from lockllm.facts.observation import ABSENT, Reading, Unobserved
from lockllm.facts.registry import dump
from tests.servers.start import Server

DATA = Path(__file__).parent / "data"
NAMES = {
    "/props": "get-props",
    "/v1/models": "get-v1-models",
    "/slots": "get-slots",
    "/lora-adapters": "get-lora-adapters",
    "/health": "get-health",
    "/openapi.json": "get-openapi",
}


def captured(folder: Path, probes: Iterable[Probe]) -> list[Answer]:
    """The answers of a capture to an engine's probes."""
    found = []
    for probe in probes:
        path = folder / f"{NAMES[probe.path]}.json"
        if path.exists():
            held = json.loads(path.read_text())
            body = held["body_json"]
            if isinstance(body, dict) and "paths_and_methods_only" in body:
                body = {**body, "paths": body["paths_and_methods_only"]}
            text = json.dumps(body)
            found.append(
                Answer(probe=probe, status=held["status"], headers=held["headers"], text=text, json=json.loads(text))
            )
    return found


def command_line(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of a captured server."""
    process = json.loads((folder / "_proc.json").read_text())[0]
    return process["cmdline"], process["environ"]


def ask(server: Server, probes: Iterable[Probe], key: str = "") -> list[Answer]:
    """What a running server answers."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    found = []
    for probe in probes:
        request = urllib.request.Request(server.url + probe.path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, told, body = reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            with error:
                status, told, body = error.code, dict(error.headers), error.read()
        text = body.decode()
        try:
            parsed: Any = json.loads(text)
        except ValueError:
            parsed = None
        lower = {name.lower(): value for name, value in told.items()}
        found.append(Answer(probe=probe, status=status, headers=lower, text=text, json=parsed))
    return found


def facts(readings: Iterable[Any]) -> dict[str, Any]:
    """Key -> value as documents hold it; the best witness's, None where it is absent."""
    best: dict[str, Reading] = {}
    for reading in readings:
        if isinstance(reading, Reading):
            key = dotted(reading.fact.path)
            if key not in best or reading.by < best[key].by:
                best[key] = reading
    return {key: None if each.value is ABSENT else dump(each.fact, each.value) for key, each in best.items()}


def unseen(readings: Iterable[Any]) -> set[str]:
    """The keys that are said to be unknown."""
    return {dotted(each.path) for each in readings if isinstance(each, Unobserved)}
