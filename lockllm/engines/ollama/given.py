"""What an Ollama command and its environment give: the server, a runner, or a Modelfile that makes a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from lockllm.engines import Form, Given, Model
from lockllm.engines.kernel import renderers
from lockllm.engines.kernel.argparse import parse
from lockllm.engines.kernel.collect import Collect, source_of, truth
from lockllm.engines.kernel.releases import at_least
from lockllm.engines.kernel.values import unresolved
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.ollama import modelfile, options
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, CheckStatus
from lockllm.facts.types import whole

NAME = "ollama"
_WORKERS = ("runner", "llama-server")


def wants_files(form: Form) -> Iterable[str]:
    """The Modelfile of `ollama create NAME -f FILE`."""
    if form.subcommand != "create":
        return ()
    return (_file(form.args),)


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says."""
    told = Collect(NAME, live)
    if form.subcommand in _WORKERS:
        _runner(told, form, live)
    elif form.subcommand == "create":
        _create(told, form, files, version)
    else:
        _serve(told, form)
        _variables(told, env)
    return told.given()


def _serve(told: Collect, form: Form) -> None:
    flags = [word.partition("=")[0] for word in form.args if word not in ("-h", "--help")]
    for flag in flags:
        if flag.startswith("-"):
            told.finding(
                "check.flags_accepted", CheckStatus.FAIL, f"`ollama serve` takes no option {flag}", "ollama serve",
                "set the variable of that name: OLLAMA_…",
            )  # fmt: skip


def _variables(told: Collect, env: Mapping[str, str]) -> None:
    for name in sorted(env):
        if is_secret(name):
            continue
        value = env[name].strip().strip("\"'")
        if name in options.READ or is_common(name):
            told.variable(name, value)
        elif name.startswith("OLLAMA_") and name not in options.NOISE:
            told.finding(
                "check.variables_known", CheckStatus.FAIL, f"{name} is no variable of Ollama", f"variable {name}",
                "set it as a PARAMETER of the Modelfile, or remove it",
            )  # fmt: skip
        if name in options.VARIABLES:
            _variable(told, name, value)
        elif name == "OLLAMA_HOST":
            told.port = _port(value)


def _port(host: str) -> int | None:
    """The port of `OLLAMA_HOST` (`envconfig/config.go: Host`): by scheme where it is left out; None for Ollama's own."""
    scheme, slashes, rest = host.rpartition("://")
    text = rest.partition("/")[0].rpartition(":")[2] if ":" in rest.partition("/")[0].rpartition("]")[2] else ""
    number = whole(text)
    if number is not None and 0 <= number < 65_536:
        return number
    return {"http": 80, "https": 443}.get(scheme.lower()) if slashes else None


def _variable(told: Collect, name: str, value: str) -> None:
    key, source = options.VARIABLES[name], f"variable {name}"
    if name == "OLLAMA_FLASH_ATTENTION":
        on = truth(value) if value else None
        if on is not None:
            told.set(key, "on" if on else "off", source)
    elif name == "OLLAMA_KV_CACHE_TYPE":
        if value:
            told.set(key, value.lower(), source)
    elif (number := whole(value)) is not None:
        if number:
            told.set(key, number, source)
    elif unresolved(value):
        told.set(key, value, source)


def _runner(told: Collect, form: Form, live: bool) -> None:
    """A runner's own words: what the server resolved for one model; the context is that of all slots together."""
    if live:
        told.by = By.WORKER
    parsed = parse(form.args, options.RUNNER)
    words = {word.name: word for word in parsed.words}

    def value(name: str) -> Any:
        return words[name].value if name in words else None

    if value("model") is not None:
        told.model = Model(text=str(value("model")), source=source_of(words["model"]))
    slots, context = value("parallel"), value("ctx_size")
    if isinstance(slots, int):
        told.set("serve.max_num_seqs", slots, source_of(words["parallel"]))
    if isinstance(context, int):
        each = context // slots if isinstance(slots, int) and slots > 0 else context
        told.set("serve.max_model_len", each, source_of(words["ctx_size"]))
    keys = [value("cache_type_k") or value("cache_type"), value("cache_type_v") or value("cache_type")]
    if all(keys):
        told.set("serve.cache_type_k", keys[0], "argument --cache-type-k")
        told.set("serve.cache_type_v", keys[1], "argument --cache-type-v")
        told.set("serve.kv_cache_dtype", keys[0] if keys[0] == keys[1] else f"{keys[0]}/{keys[1]}", "argument")
    for name in ("flash_attn", "ubatch_size", "gpu_layers", "split_mode"):
        if name in words:
            told.set(f"serve.{name}", value(name), source_of(words[name]))
    bundled = any(word.rsplit("/", 1)[-1] == "llama-server" for word in form.program)
    if "flash_attn" not in words and "batch_size" in words and not bundled:  # such a line names all that is on
        told.set("serve.flash_attn", "off", "no --flash-attn among the runner's arguments")
    if "batch_size" in words:
        told.set("serve.max_num_batched_tokens", value("batch_size"), source_of(words["batch_size"]))
    if "spec_type" in words:
        told.set("serve.speculative.method", value("spec_type"), source_of(words["spec_type"]))
    for number, path in enumerate(value("lora") or ()):
        told.adapters[f"adapter{number}"] = Model(text=str(path), source="argument --lora")
    port = value("port")
    told.port = port if isinstance(port, int) else None


def _create(told: Collect, form: Form, files: Mapping[str, str], version: str | None) -> None:
    name = _file(form.args)
    text = files.get(name)
    if text is None:
        told.warnings.append(f"{name} was not read: what it sets is unknown")
        return
    parsed = modelfile.read(text)
    if parsed.base:
        told.model = base(parsed.base, f"{name}: FROM")
    stops: list[str] = []
    for key, value in parsed.parameters:
        source = f"{name}: PARAMETER {key}"
        if key == "stop":
            stops.append(str(value))
        elif (fact := options.parameter(key))[:2] != ("serve", "args"):
            told.set(fact, value, source)
        else:
            told.kept(key, value, source)
        gone = options.GONE.get(key)
        if gone and at_least(version, gone):
            told.finding(
                "check.settings_take_effect", CheckStatus.FAIL, f"Ollama {version} does not know the parameter {key}", source,
                f"remove it (gone since {gone})",
            )  # fmt: skip
    if stops:
        told.set("sampling.stop", stops, f"{name}: PARAMETER stop")
    if parsed.renderer:
        _rendered(told, parsed, name, version)
    elif parsed.template is not None:
        told.set("chat_template.sha256", sha256(parsed.template.encode()).hexdigest(), f"{name}: TEMPLATE")
        told.set("chat_template.source", "Modelfile", f"{name}: TEMPLATE")
    if parsed.system is not None:
        told.set(("serve", "args", "system"), sha256(parsed.system.encode()).hexdigest(), f"{name}: SYSTEM")
    for key in ("renderer", "parser"):
        chosen = getattr(parsed, key)
        if chosen:
            told.kept(key, chosen, f"{name}: {key.upper()}")
    for number, path in enumerate(parsed.adapters):
        told.adapters[f"adapter{number}"] = Model(text=path, source=f"{name}: ADAPTER")
    if parsed.draft:
        told.draft = Model(text=parsed.draft, source=f"{name}: DRAFT")


def _rendered(told: Collect, parsed: modelfile.Modelfile, name: str, version: str | None) -> None:
    """A renderer is Ollama's own code, and wins over any template: `server/images.go`."""
    code = renderers.shown(str(parsed.renderer), NAME, version)
    told.set("chat_template.source", code, f"{name}: RENDERER")
    if parsed.template is not None:
        told.finding(
            "check.one_template", CheckStatus.FAIL, f"{code} is in force: Ollama does not use the TEMPLATE of {name}",
            f"{name}: RENDERER", "remove TEMPLATE, or remove RENDERER",
        )  # fmt: skip


def base(text: str, source: str) -> Model:
    """The model that `FROM` names: a file, a repository of the Hub, or a name of Ollama's own registry."""
    for host in ("hf.co/", "huggingface.co/", "https://huggingface.co/", "https://hf.co/"):
        if text.startswith(host):
            repo, _, quant = text[len(host) :].partition(":")
            return Model(text=repo, source=source, file=quant or None)
    if text.startswith(("/", ".", "~")) or text.endswith(".gguf"):
        return Model(text=text, source=source)
    return Model(text=text if ":" in text else f"{text}:latest", source=source)


def _file(args: tuple[str, ...]) -> str:
    for at, word in enumerate(args):
        if word in ("-f", "--file") and at + 1 < len(args):
            return args[at + 1]
        if word.startswith("--file="):
            return word.partition("=")[2]
    return "Modelfile"
