"""The server that a spec plans, as an engine's rules read a command line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lockllm import engines
from lockllm.documents.spec import Spec
from lockllm.engines import Given, Model
from lockllm.facts import registry
from lockllm.facts.fact import Path
from lockllm.facts.observation import ABSENT, By, Reading, Unobserved

SPEC = "llm.toml"


def planned(spec: Spec, taken: Iterable[Reading] = ()) -> Given:
    """The spec, and what was taken from a host in its place, as an engine's rules read a command line."""
    values = {**spec.values, **{each.fact.path: each.value for each in taken}}
    readings = tuple(
        Reading(registry.find(path), value, SPEC, By.PLAN)
        for path, value in values.items()
        if path[0] in ("serve", "sampling", "tokenizer", "chat_template", "env", "draft") and value is not ABSENT
    )
    template, unread = _template(spec, values)
    return Given(
        engine=spec.engine or "", readings=(*readings, *template), auto=spec.auto, template=spec.template, unread=unread,
        adapters={prefix[1]: model for prefix, model in _companions(spec) if prefix[0] == "adapters"},
        draft=next((model for prefix, model in _companions(spec) if prefix[0] == "draft"), None),
    )  # fmt: skip


def _companions(spec: Spec) -> Iterator[tuple[Path, Model]]:
    """The other models that the spec names: tokenizer, draft, adapters."""
    repos = {path[:-1]: str(value) for path, value in spec.values.items() if path[-1] == "repo"}
    return ((prefix, Model(text=text, source=SPEC)) for prefix, text in {**repos, **spec.paths}.items())


def _template(spec: Spec, values: Mapping[Path, Any]) -> tuple[tuple[Reading, ...], tuple[Unobserved, ...]]:
    """What a template that an option gives says of the prompt: all where its text is here, else that it is in force."""
    flags: Mapping[Path, str] = getattr(engines.load(spec.engine or ""), "template_flags", {})
    path = next((each for each in flags if each in values), None)
    value = values[path] if path is not None else None
    if path is None or not spec.template_flag or not isinstance(value, str):
        return (), ()
    named = Reading(registry.fact("chat_template.source"), spec.template_flag, SPEC, By.PLAN)
    if spec.template is not None:
        digest = hashlib.sha256(spec.template.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
        return (named, Reading(registry.fact("chat_template.sha256"), digest, SPEC, By.PLAN)), ()
    if len(value.removeprefix("sha256:")) != 64:
        return (), ()  # a built-in name
    reason = f"{spec.template_flag} puts a template in force whose text is not here"
    gaps = tuple(Unobserved((group,), reason) for group in ("chat_template", "prompt_probes"))
    return (named,), gaps
