"""The prompt of the server that is looked at: its template, explicit or of the checkpoint, resolved and probed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lockllm.checkpoint import Look
from lockllm.engines import Context, Engine
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Check, Reading, Unobserved
from lockllm.observe.serving import Serving
from lockllm.prompt import readings
from lockllm.prompt.templates import Candidate

_GGUF = "tokenizer.chat_template"


def observe(
    serving: Serving, engine: Engine | None, look: Look, context: Context, held: Mapping[Path, Any],
    keep: Callable[[str], None] | None = None,
) -> Iterator[Reading | Unobserved | Check]:  # fmt: skip
    """Template, context and probes; what the server itself has said of them stands before it. `keep` gets the text in force."""
    if look.format == "gguf" and not look.gguf:
        for group in ("chat_template", "prompt_probes"):
            yield Unobserved((group,), "no header of a GGUF was read", "name one GGUF file that is here")
        return
    name = engine.name if engine else None
    setup = readings.Setup(
        engine=name,
        version=context.version,
        explicit=_explicit(serving, held),
        transformers=context.packages.get("transformers"),
        tokenizer_mode=_text(held.get(("tokenizer", "mode"))),
        content_format=_text(held.get(("chat_template", "content_format"))),
        arguments=_arguments(held),
        model=_model(serving),
    )
    keys = {key: str(value) for key, value in look.gguf.items() if key.startswith(_GGUF) and isinstance(value, str)}
    tokenizer = os.path.join(look.layout.root, "tokenizer.json")
    found = readings.observe(
        look.read,
        look.names,
        setup,
        gguf=keys if look.gguf else None,
        gguf_tokens=dict(look.special_tokens) or None,
        tokenizer_json=tokenizer if os.path.isfile(tokenizer) else None,
        by=By.FILE,
    )
    winner = found.resolution.winner
    if keep is not None and winner is not None and winner.text is not None:
        keep(winner.text)
    yield from found.readings
    yield from found.unobserved
    yield from found.checks


def _explicit(serving: Serving, held: Mapping[Path, Any]) -> Candidate | None:
    """The text that a flag puts in force: one of the files or words of the command, by its digest."""
    plan = serving.plan
    source, digest = held.get(("chat_template", "source")), held.get(("chat_template", "sha256"))
    if plan is None or not isinstance(source, str) or not source.startswith("-") or not isinstance(digest, str):
        return None
    for text in (*plan.files.values(), *(plan.form.args if plan.form else ()), *plan.env.values()):
        for plain in (text, text.replace("\r\n", "\n").replace("\r", "\n"), text.rstrip("\n")):
            if hashlib.sha256(plain.encode("utf-8", "surrogateescape")).hexdigest() == digest:
                return Candidate(plain, source)
    return None


def _arguments(held: Mapping[Path, Any]) -> dict[str, Any]:
    """The server's default `chat_template_kwargs`: one leaf a fact, put together again."""
    base = ("serve", "chat_template_kwargs")
    found: dict[str, Any] = {}
    for path, value in held.items():
        if path[: len(base)] != base or value is ABSENT:
            continue
        if len(path) == len(base) and isinstance(value, Mapping):
            found.update(value)
            continue
        at = found
        for part in path[len(base) : -1]:
            at = at.setdefault(part, {})
        if len(path) > len(base):
            at[path[-1]] = value
    return found


def _model(serving: Serving) -> str:
    given = serving.plan.given if serving.plan else None
    return given.model.text if given and given.model else ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
