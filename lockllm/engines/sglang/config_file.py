"""The YAML file of `--config FILE` (0.5.3 and newer, `srt/utils/server_args_config_parser.py`) as arguments.

They are placed before the command line, which therefore wins. A key becomes `--KEY` as it is spelled, so one with
underscores is an option that no release has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from lockllm.engines.kernel.argparse import Option, Take
from lockllm.engines.kernel.collect import Collect
from lockllm.engines.kernel.pyyaml import YamlError, read
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.sglang.options import Release
from lockllm.facts.observation import CheckStatus

SINCE = "0.5.3"
_EXACT_SINCE = (
    "0.5.8"  # since then `false` is left out of switches alone, and actions that it does not know are refused
)
_JSON_SINCE = "0.5.14"  # since then an object is written as JSON, before as Python writes it


class Named(msgspec.Struct, frozen=True):
    """How a command line names its file."""

    path: str | None  # the file that is read
    problem: str = ""  # why none is


def named(words: Sequence[str]) -> Named:
    """The file that `--config FILE` names: two words, once, and the name of a YAML file."""
    at = [place for place, word in enumerate(words) if word == "--config"]
    if not at:
        ignored = any(word.startswith("--config=") for word in words)
        why = "--config=FILE is accepted and ignored: the file is read where --config and its name are two arguments"
        return Named(None, why if ignored else "")
    if len(at) > 1:
        return Named(None, "--config is given twice, and SGLang refuses to start")
    if at[0] == len(words) - 1:
        return Named(None, "--config names no file, and SGLang refuses to start")
    path = words[at[0] + 1]
    if not path.lower().endswith((".yaml", ".yml")) and "$" not in path:
        return Named(None, "--config takes a file whose name ends in .yaml or .yml, and SGLang refuses to start")
    return Named(path)


def without_config(words: Sequence[str]) -> tuple[str, ...]:
    """The command line without `--config FILE`."""
    at = list(words).index("--config")
    return (*words[:at], *words[at + 2 :])


def arguments(name: str, text: str, release: Release, told: Collect) -> tuple[str, ...]:
    """The file's arguments; what SGLang drops or refuses is a finding."""
    try:
        settings = read(text)
    except YamlError as why:
        told.warnings.append(f"{name} cannot be read as YAML ({why}): what it sets is unknown")
        told.config_unread(f"{name} (argument --config) cannot be read: {why}")
        return ()
    told.warnings += [f"{name}: {note}" for note in settings.notes]
    value = settings.value
    if value is None:
        return ()
    if not isinstance(value, dict):
        told.warnings.append(f"{name} holds no mapping: what it sets is unknown")
        return ()
    found: list[str] = []
    for key, inner in value.items():
        found += _words(str(key), inner, release, name, told)
    return tuple(found)


def _words(key: str, value: Any, release: Release, name: str, told: Collect) -> Iterator[str]:
    flag = "--" + key.replace("_", "-")
    option, _ = release.table.flags.get(flag, (None, True))
    if option is None:
        flag = "--" + key
    if why := _unsupported(option, release):
        _refused(told, name, f"{key}: {why}", f"give {flag} on the command line")
    if isinstance(value, bool):
        words = _switch(key, flag, value, option, release, name, told)
    elif isinstance(value, list):
        words = [flag, *map(_text, value)] if value else []
    elif isinstance(value, dict):
        words = [flag, json.dumps(value) if at_least(release.version, _JSON_SINCE) else _text(value)]
    else:
        words = [flag, _text(value)]
    if words and flag != "--" + key:
        _refused(told, name, f"{key}: a key is an option as it is spelled, and --{key} is none", f"write {flag[2:]}")
    yield from words


def _switch(
    key: str, flag: str, value: bool, option: Option | None, release: Release, name: str, told: Collect
) -> list[str]:
    switch = option is not None and option.take in (Take.SWITCH, Take.BOTH)
    if not switch and at_least(release.version, _EXACT_SINCE):
        return [flag, str(value).lower()]
    if value:
        return [flag]
    told.finding(
        "check.settings_take_effect", CheckStatus.FAIL,
        f"{key}: false is dropped: the option can only be switched on", name, f"remove {key} from {name}",
    )  # fmt: skip
    return []


def _unsupported(option: Option | None, release: Release) -> str:
    """Why a key of that option stops the start: the file takes switches and plain values alone."""
    if option is None or not at_least(release.version, _EXACT_SINCE):
        return ""
    odd = release.standing.get(option.name) or ("list" if option.name == "lora_paths" else "")
    if option.take is Take.BOTH or odd:
        return "SGLang refuses it in the file"
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _refused(told: Collect, name: str, detail: str, fix: str) -> None:
    told.finding("check.flags_accepted", CheckStatus.FAIL, detail, name, fix)
