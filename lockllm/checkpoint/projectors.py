"""Projectors beside a GGUF model: whether one fits, and which one is meant. Read: llama.cpp b11549 `tools/mtmd/mtmd.cpp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.checkpoint import gguf, weights
from lockllm.checkpoint.bounded import Malformed
from lockllm.checkpoint.findings import Findings
from lockllm.checkpoint.folder import Entry

_KEYS = ("clip.vision.projection_dim", "clip.audio.projection_dim", "clip.projection_dim")


def judge(files: Mapping[str, Entry], names: tuple[str, ...], model: Mapping[str, Any], findings: Findings) -> None:
    """The server refuses a projector whose output is not as wide as the model's embeddings."""
    width = model.get(f"{model.get('general.architecture')}.embedding_length")
    for name in names:
        if name not in files or not files[name].real:
            continue
        try:
            held = gguf.read(files[name].real).metadata
        except Malformed as error:
            weights.unreadable(name, str(error), findings)
            continue
        if held.get("general.type") != "mmproj":
            continue  # older converters wrote the width of CLIP's own projection under this key
        wide = next((held[key] for key in _KEYS if isinstance(held.get(key), int) and held[key] > 0), None)
        if wide is None or not isinstance(width, int):
            continue
        if wide != width:
            detail = f"{name} projects to {wide:,} numbers, the model's embeddings have {width:,}"
            findings.wrong("projector_fits", detail, name, "take the projector that belongs to this model")
        else:
            findings.right("projector_fits", f"{name} projects to {wide:,} numbers, as wide as the embeddings", name)
    if len(names) > 1:
        detail = f"{len(names)} projectors lie here: {', '.join(names[:4])}"
        findings.wrong("one_projector", detail, names[0], "name the one that is served: --mmproj FILE")
