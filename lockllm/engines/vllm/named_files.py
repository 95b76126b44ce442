"""Files that a vLLM command names: its chat template, and the folder of its generation config."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from lockllm.engines import MayBeMissing, Template
from lockllm.engines.kernel.argparse import Word
from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.values import unresolved
from lockllm.engines.vllm.spread import SAMPLING_KEYS
from lockllm.facts.fact import Path
from lockllm.facts.keys import parse
from lockllm.facts.observation import By
from lockllm.facts.registry import seen

FLAG = "--chat-template"
_FILE = "generation_config.json"
_JINJA = "{}\n"
_AMBIGUOUS = ("top_k", 50)
"""What transformers 4 leaves out as its own default and transformers 5 keeps: no value of it is told here."""


def wanted(words: Mapping[str, Word]) -> Iterator[str]:
    """The names of the files, as the command spells them. A template may be text, or the name of a built-in one."""
    template = words.get("chat_template")
    if template is not None and _is_file(template.value):
        yield MayBeMissing(template.value)
    folder = words.get("generation_config")
    if folder is not None and folder.value not in ("auto", "vllm") and _is_file(folder.value):
        yield MayBeMissing(_inside(folder.value))


def chat_template(found: Collect, word: Word, source: str, files: Mapping[str, str]) -> None:
    """The template that `--chat-template` puts in force: a file's text, or what was typed if it looks like Jinja."""
    text = word.value
    if not isinstance(text, str):
        return
    if text in files:
        found.explicit(FLAG, explicit_template(files[text]), source, text)
    elif any(char in text for char in _JINJA) and not unresolved(text.replace("{{", "").replace("}}", "")):
        found.explicit(FLAG, Template(text=text, value=_digest(text)), source)
    else:
        found.template_elsewhere(FLAG, text, source)


def explicit_template(text: str) -> Template:
    """The text of a template's file as vLLM reads it: with one kind of line end."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return Template(text=plain, value=_digest(plain))


def generation_config(
    found: Collect, folder: str, source: str, files: Mapping[str, str], typed: Mapping[str, Any]
) -> None:
    """`--generation-config FOLDER`: its file's digest, and the sampling defaults that stand in it."""
    text = files.get(_inside(folder))
    if text is None:
        found.path("serve.generation_config", folder, source, or_name=True, inside=_FILE)
        return
    found.set("serve.generation_config", _digest(text), source)
    found.read_from["serve", "generation_config"] = folder
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        found.warnings.append(f"{_inside(folder)} is no JSON")
        return
    for key, value in told.items() if isinstance(told, dict) else ():
        path = parse(f"sampling.{'max_tokens' if key == 'max_new_tokens' else key}")
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if key in SAMPLING_KEYS and number and key not in typed and (key, value) != _AMBIGUOUS:
            found.readings[path] = seen(path, value, f"{_inside(folder)}: {key}", By.RULE)


def explicit_generation(text: str, typed: Mapping[str, Any]) -> dict[Path, Any]:
    """What the generation_config.json of `--generation-config FOLDER` puts in force; `typed`: keys that something overrides."""
    found = Collect("vllm", False)
    generation_config(found, ".", "", {_inside("."): text}, typed)
    return {path: reading.value for path, reading in found.readings.items()}


def _is_file(text: Any) -> bool:
    return isinstance(text, str) and bool(text) and not any(char in text for char in _JINJA) and not unresolved(text)


def _inside(folder: str) -> str:
    return f"{folder.rstrip('/')}/{_FILE}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
