"""Acme, an engine that does not exist: what it is. A plugin needs this record and the translator that it names."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Prompts, Shape

IDENTITY = Identity(
    name="acme",
    label="Acme",
    module=f"{__name__}.engine",
    programs={"acme-serve": (Shape(),)},
    modules={"acme.server": (Shape(),)},
    starts=("acme-serve",),
    prompts=Prompts(rule="tokenizer"),
)
