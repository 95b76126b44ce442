"""The command that realizes a lock, for a shell, for docker and for Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lockllm import engines
from lockllm.documents.lock import Lock
from lockllm.engines import Command
from lockllm.facts.observation import Raw

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

KINDS = ("shell", "docker", "kubernetes")
INSIDE = "/models"


def mounts(paths: Iterable[str]) -> dict[str, str]:
    """Where each file or folder of this machine stands in a container."""
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        name = path.rstrip("/").rpartition("/")[2] or "model"
        number, free = 2, f"{INSIDE}/{name}"
        while free in found.values():
            number, free = number + 1, f"{INSIDE}/{number}-{name}"
        found[path] = free
    return found


def write(command: Command, lock: Lock, kind: str, mounted: Mapping[str, str] = {}) -> str:
    """The command as text of that kind; what no flag can put in force is said in comments."""
    if kind == "shell":
        return _shell(command)
    image = engines.identity(lock.get("engine.name")).image
    outside = image.own_machine_only and "--host" not in command.argv
    argv = (*command.argv, "--host", "0.0.0.0") if outside else command.argv
    notes = [*command.notes]
    if lock.get("host.platform") == "cpu" and _text(lock, "engine.image") is None and not image.for_cpu:
        notes.append(f"there is no known CPU image of {_text(lock, 'engine.name') or ''}: use your own")
    told = Command(argv=argv, env=command.env, notes=tuple(notes))
    return {"docker": _docker, "kubernetes": _kubernetes}[kind](told, lock, mounted)


def _notes(command: Command) -> list[str]:
    return [f"# {_plain(note)}" for note in command.notes]


def _shell(command: Command) -> str:
    words = [*(f"{name}={shlex.quote(value)}" for name, value in command.env.items()), *map(shlex.quote, command.argv)]
    return "\n".join([*_notes(command), _folded(words, " \\\n  ")]) + "\n"


def _docker(command: Command, lock: Lock, mounted: Mapping[str, str]) -> str:
    port = engines.identity(lock.get("engine.name")).image.port
    words = ["docker run --rm --ipc=host", *_gpus(lock), f"-p {port if port > 1024 else 8080}:{port}"]
    words += [f"-v {shlex.quote(f'{host}:{inside}:ro')}" for host, inside in mounted.items()]
    words += [f"-e {shlex.quote(f'{name}={value}')}" for name, value in command.env.items()]
    words += [
        f"--entrypoint {shlex.quote(command.argv[0])}",
        shlex.quote(_image(lock)),
        *map(shlex.quote, command.argv[1:]),
    ]
    return "\n".join([*_notes(command), _folded(words, " \\\n  ")]) + "\n"


def _kubernetes(command: Command, lock: Lock, mounted: Mapping[str, str]) -> str:
    lines = [
        *_notes(command),
        "apiVersion: apps/v1",
        "kind: Deployment",
        "metadata:",
        "  name: llm",
        "spec:",
        "  replicas: 1",
        "  selector: {matchLabels: {app: llm}}",
        "  template:",
        "    metadata: {labels: {app: llm}}",
        "    spec:",
        "      containers:",
        "        - name: server",
        f"          image: {_quoted(_image(lock))}",
        "          command:",
        *(
            f"            - {_quoted(word)}"
            for word in ("lockllm", "exec", "--lock", "/etc/lockllm/llm.lock", "--", *command.argv)
        ),
    ]
    lines += [
        "          ports:",
        f"            - {{containerPort: {engines.identity(lock.get('engine.name')).image.port}}}",
    ]
    if command.env:
        lines.append("          env:")
        for name, value in command.env.items():
            lines += [f"            - name: {_quoted(name)}", f"              value: {_quoted(value)}"]
    count = lock.get("host.gpu_count")
    if isinstance(count, int) and count:
        lines += ["          resources:", f"            limits: {{nvidia.com/gpu: {count}}}"]
    lines += [
        "          volumeMounts:",
        "            - {name: lock, mountPath: /etc/lockllm, readOnly: true}",
        *(
            f"            - {{name: files-{at}, mountPath: {_quoted(inside)}, readOnly: true}}"
            for at, inside in enumerate(mounted.values(), 1)
        ),
        "      volumes:",
        "        - name: lock",
        "          configMap: {name: llm-lock}",
    ]
    for at, host in enumerate(mounted, 1):
        lines += [
            f"        - name: files-{at}",
            f"          hostPath: {{path: {_quoted(host)}}}  # where each node has it",
        ]
    return "\n".join(lines) + "\n"


def _image(lock: Lock) -> str:
    image, digest = _text(lock, "engine.image"), _text(lock, "engine.image_digest")
    if image is None:
        name = _text(lock, "engine.name") or "IMAGE"
        version = _text(lock, "engine.version") or "latest"
        own = engines.identity(name).image
        form = (own.for_cpu or "IMAGE") if lock.get("host.platform") == "cpu" else own.name or f"{name}:{{}}"
        image = form.replace("{}", version)
    if digest is None:
        return image
    return f"{re.sub(r':[^:/@]+$', '', image.partition('@')[0])}@{digest.rpartition('@')[2]}"


def _gpus(lock: Lock) -> list[str]:
    count = lock.get("host.gpu_count")
    if isinstance(count, int) and count:
        return [f"--gpus {count}"]
    return [] if lock.get("host.platform") == "cpu" else ["--gpus all"]


def _text(lock: Lock, key: FactKey) -> str | None:
    value: Any = lock.get(key)
    return value if isinstance(value, str) and not isinstance(value, Raw) else None


def _folded(words: list[str], joint: str) -> str:
    """Options stand a line each with their value; a command that fits stays on one line."""
    whole = " ".join(words)
    if len(whole) <= 100:
        return whole
    lines: list[str] = []
    for word in words:
        if (
            lines
            and (not word.startswith("-") or re.fullmatch(r"-?\d+(\.\d+)?", word))
            and lines[-1].startswith("-")
            and " " not in lines[-1]
        ):
            lines[-1] += f" {word}"
        elif lines and not lines[0].startswith("-") and len(lines) == 1 and not word.startswith("-"):
            lines[0] += f" {word}"
        else:
            lines.append(word)
    return joint.join(lines)


def _quoted(word: str) -> str:
    return json.dumps(word)


def _plain(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)
