"""Programs that host an engine and hand options on to it: KServe's Hugging Face server, and Ray Serve LLM.

Sources: KServe `python/huggingfaceserver/huggingfaceserver/__main__.py`; Ray 2.60 `ray.serve.llm` (`LLMConfig`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lockllm.engines import Form
from lockllm.engines.kernel.pyyaml import YamlError
from lockllm.engines.kernel.pyyaml import read as read_yaml

_OF_KSERVE = frozenset(
    """
    model-name model-dir model-id backend task http-port grpc-port workers max-threads max-asyncio-workers enable-grpc
    enable-docs-url enable-latency-logging configure-logging log-config-file access-log-format predictor-host
    predictor-protocol predictor-use-ssl predictor-request-timeout-seconds predictor-request-retries protocol
    disable-lower-case disable-special-tokens return-token-type-ids return-probabilities return-raw-logits
    disable-log-requests enable-predictor-health-check transformer-name
    """.split()
)
"""Options that KServe keeps for itself; the others reach vLLM's own parser."""
_RENAMED = {"model-revision": "revision", "max-length": "max-model-len"}


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own launch form behind a host, and what of it cannot be read."""

    form: Form | None = None
    reason: str = ""


def wants(host: str, args: Sequence[str]) -> str | None:
    """The file that holds the options, where the command names one."""
    if host != "ray-serve":
        return None
    return next(
        (word for word in args if word.rpartition(".")[2] in ("yaml", "yml") and not word.startswith("-")), None
    )


def form(host: str, program: Sequence[str], args: Sequence[str], text: str | None = None) -> Hosted:
    """What that host starts. `text`: of the file that `wants` named."""
    if host == "kserve":
        return _kserve(program, args)
    if host == "ray-serve" and text is not None:
        return _ray(program, text)
    return Hosted()


def _kserve(program: Sequence[str], args: Sequence[str]) -> Hosted:
    """`--backend vllm` passes what KServe does not know to vLLM. Without it the server chooses between two engines."""
    options = list(_options(args))
    said = dict(options)
    if said.get("backend") != "vllm":
        reason = "KServe chooses the backend at start, and only vLLM's options can be read: pass --backend=vllm"
        return Hosted(reason=reason) if said.get("backend", "auto") == "auto" else Hosted()
    model = said.get("model-id") or said.get("model-dir") or "/mnt/models"
    words = [model]
    for name, value in options:
        if name not in _OF_KSERVE:
            words += [f"--{_RENAMED.get(name, name)}", *(() if value is None else (value,))]
    return Hosted(form=Form(engine="vllm", args=tuple(words), program=tuple(program), subcommand="serve"))


def _options(args: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("_", "-")
        if equals:
            yield name, value
        elif at < len(args) and not args[at].startswith("--"):
            yield name, args[at]
            at += 1
        else:
            yield name, None


def _ray(program: Sequence[str], text: str) -> Hosted:
    """The one model that the applications of a Serve file describe, as vLLM's arguments."""
    try:
        value = read_yaml(text).value
    except YamlError as why:
        return Hosted(reason=f"the Serve file is no YAML: {why}")
    found = [each for application in _list(value, "applications") for each in _configs(application)]
    if not found:
        return Hosted(reason="no application of the Serve file has llm_configs: what it serves is not read")
    if len(found) > 1:
        return Hosted(reason=f"the Serve file describes {len(found)} models: lock each with a file of its own")
    config = found[0]
    if not isinstance(config, Mapping):
        return Hosted(reason=f"llm_configs names another file, {config}, which is not read")
    loading = config.get("model_loading_config")
    loading = loading if isinstance(loading, Mapping) else {}
    source = loading.get("model_source") or loading.get("model_id")
    if not isinstance(source, str):
        return Hosted(reason="model_loading_config names no model that can be read")
    if config.get("llm_engine", "vLLM") not in ("vLLM", "vllm"):
        return Hosted(reason=f"the engine {config['llm_engine']} of the Serve file is not read")
    kwargs = config.get("engine_kwargs")
    words = [source, *(word for pair in (kwargs or {}).items() for word in _words(*pair))]
    return Hosted(form=Form(engine="vllm", args=tuple(words), program=tuple(program), subcommand="serve"))


def _configs(application: Any) -> list[Any]:
    return _list(application.get("args"), "llm_configs") if isinstance(application, Mapping) else []


def _list(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _words(name: Any, value: Any) -> list[str]:
    """One keyword argument of the engine as vLLM's command line spells it."""
    flag = str(name).replace("_", "-")
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, Mapping):
        return [f"--{flag}", json.dumps(value)]
    if isinstance(value, list):
        return [f"--{flag}", *map(str, value)]
    return [f"--{flag}", str(value)]
