"""vLLM's `--config FILE`: which file is read, what its settings become, and which of them are dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lockllm.engines import Form
from lockllm.engines.kernel.pyyaml import YamlError
from lockllm.engines.kernel.pyyaml import read as read_yaml
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.vllm.options import options

_ON_BY_DEFAULT = {
    "enable-prefix-caching": ("0.8.0", "--no-enable-prefix-caching"),
    "enable-chunked-prefill": ("0.8.0", "--no-enable-chunked-prefill"),
    "async-scheduling": ("0.14.0", "--no-async-scheduling"),
    "enable-flashinfer-autotune": ("0.16.0", "--no-enable-flashinfer-autotune"),
    "disable-cascade-attn": ("0.18.0", "--no-disable-cascade-attn"),
    "use-tqdm-on-load": ("0.8.0", "--no-use-tqdm-on-load"),
}
"""Switches that are on where nothing is said: first release, and the argument that switches them off."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a config file, as the arguments that they become."""

    name: str = ""
    arguments: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()  # what has no effect, and what to do instead
    warnings: tuple[str, ...] = ()
    unread: str = ""  # why nobody knows what it sets


def named(form: Form) -> Iterator[str]:
    """The file that `--config FILE` names. `--config=FILE` is taken by the parser and never read (0.12 to 0.33)."""
    for number, word in enumerate(form.args):
        if word == "--config" and number + 1 < len(form.args):
            yield form.args[number + 1]
            return


def config(form: Form, files: Mapping[str, str], release: str) -> Config:
    """The config file of a command, by the rules of a release."""
    glued = next((word.partition("=")[2] for word in form.args if word.startswith("--config=")), None)
    if glued is not None:
        detail = f"vLLM takes --config={glued} and does not read the file"
        return Config(name=glued, ignored=((detail, f"write it as two arguments: --config {glued}"),))
    name = next(named(form), None)
    if name is None:
        return Config()
    if name not in files:
        return Config(name=name, unread=f"{name} (argument --config) was not read")
    if name.rpartition(".")[2] not in ("yaml", "yml"):
        return Config(name=name, warnings=(f"{name} is not read: vLLM refuses a config file that is no .yaml or .yml",))
    try:
        read = read_yaml(files[name])
    except YamlError as why:
        told = f"{name} is not read ({why}): what it sets is unknown"
        return Config(name=name, warnings=(told,), unread=f"{name} (argument --config) cannot be read: {why}")
    settings = read.value
    if not isinstance(settings, dict):
        return Config(name=name, warnings=(f"{name} is not read: it holds no settings",))
    module = any("api_server" in word for word in form.program)
    arguments: list[str] = []
    ignored: list[tuple[str, str]] = []
    for key, value in settings.items():
        arguments += _arguments(str(key), value, release, module, ignored)
    notes = tuple(f"{name}: {note}" for note in read.notes)
    return Config(name=name, arguments=tuple(arguments), ignored=tuple(ignored), warnings=notes)


def _arguments(key: str, value: Any, release: str, module: bool, ignored: list[tuple[str, str]]) -> list[str]:
    flag = "--" + key
    if isinstance(value, bool) and not at_least(release, "0.6.4"):
        return [flag, str(value)]
    if value is True:
        return [flag]
    if value is False:
        if module and at_least(release, "0.28.0") and "--no-" + key in options(release).flags:
            return ["--no-" + key]
        first, off = _ON_BY_DEFAULT.get(key.replace("_", "-"), ("", ""))
        if first and at_least(release, first):
            ignored.append((f"`{key}: false` has no effect: vLLM drops it", f"pass {off} on the command line"))
        return []
    if isinstance(value, list) and at_least(release, "0.10.0"):
        return [flag, *map(str, value)] if value else []
    if isinstance(value, dict):
        return [flag, json.dumps(value) if at_least(release, "0.16.0") else str(value)]
    return [flag, str(value)]
