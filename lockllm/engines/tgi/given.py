"""What a TGI command line and its environment give: launcher, router or shard; a flag wins over its variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockllm.engines import Form, Given, Model
from lockllm.engines.kernel.argparse import Option, Problem, Take, parse
from lockllm.engines.kernel.collect import Collect, exact, pairs, source_of, truth
from lockllm.engines.kernel.values import convert, secret_name, unresolved
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.tgi import options
from lockllm.facts.env import is_secret
from lockllm.facts.observation import By, CheckStatus
from lockllm.facts.types import whole

NAME = "tgi"
FLAG = "--tokenizer-config-path"
_RESOLVED = {"ATTENTION": "serve.attention_backend"}
_SWITCHES = {"PREFIX_CACHING": "serve.enable_prefix_caching", "PREFILL_CHUNKING": "serve.enable_chunked_prefill"}


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says."""
    told = Collect(NAME, live)
    worker = form.subcommand == "shard"
    if worker and live:
        told.by = By.WORKER
    parsed = parse(form.args, options.TABLE)
    told.refuse(exact(parsed, options.TABLE), True, "text-generation-launcher")
    told.repeated(parsed.repeated)
    named = {word.name for word in parsed.words}
    for name in sorted(env):
        option = options.BY_VARIABLE.get(name)
        if option is None or option.name in named or name in ("HOSTNAME", "ENV"):
            continue
        if not (worker and option.name in ("model_id", "num_shard")):
            _option(told, option, _of_variable(told, option, name, env[name]), f"variable {name}")
    for word in parsed.words:
        option = next((each for each in options.TABLE.options if each.name == word.name), None)
        if option is None:
            _unknown(told, word.name, word.value, source_of(word))
        else:
            _option(told, option, word.value, source_of(word))
    _positionals(told, parsed.positionals, worker)
    _variables(told, env, worker)
    return told.given()


def _of_variable(told: Collect, option: Option, name: str, text: str) -> Any:
    if option.take is Take.SWITCH:
        told_ = truth(text)
        return True if told_ is None else told_
    try:
        return convert(option.kind, text)
    except ValueError as why:
        if not unresolved(text):
            told.refuse([Problem(flag=name, reason=f"its value is not {why}")], True, "text-generation-launcher")
        return text


def _positionals(told: Collect, words: tuple[str, ...], worker: bool) -> None:
    rest = words
    if worker and words:
        told.model = Model(text=words[0], source="argument", revision=told.model.revision if told.model else None)
        rest = words[1:]
    if rest:
        told.finding(
            "check.flags_accepted", CheckStatus.FAIL, f"{len(rest)} argument(s) belong to no option",
            "text-generation-launcher", "remove them",
        )  # fmt: skip


def _unknown(told: Collect, name: str, value: Any, source: str) -> None:
    for each in value if isinstance(value, tuple) else (value,):
        text = str(each)
        if secret_name(text.partition("=")[0]):
            told.secret(text.partition("=")[2])
            return
    if secret_name(name):
        told.secret(value)
    else:
        told.kept(name, value, source)


def _option(told: Collect, option: Option, value: Any, source: str) -> None:
    name = option.name
    if name in options.SECRETS:
        told.secret(value)
    elif name in ("model_id", "tokenizer_name"):
        if name == "model_id" or told.model is None or not told.model.text:
            told.model = Model(text=str(value), source=source, revision=told.model.revision if told.model else None)
    elif name == "revision":
        text, where = (told.model.text, told.model.source) if told.model else ("", source)
        told.model = Model(text=text, source=where, revision=str(value))
    elif name == "lora_adapters":
        _adapters(told, str(value), source)
    elif name == "tokenizer_config_path" and not unresolved(str(value)):
        told.path("serve.args.tokenizer_config_path", str(value), source)
        told.set("chat_template.source", FLAG, source)
        reason = f"the template stands in {value} ({source})"
        told.unreadable(
            ("chat_template", "prompt_probes"), reason, "put it into the checkpoint's tokenizer_config.json"
        )
    elif name == "cuda_graphs":
        _graphs(told, str(value), source)
    elif name == "sharded":
        told.kept(name, value, source)
        if str(value).lower() == "false":
            told.set("serve.tensor_parallel_size", 1, source)
    elif name in options.FACTS:
        told.set(options.FACTS[name], value, source)
    elif name in options.OPERATIONAL:
        told.operational.append(name)
        if name == "port" and isinstance(value, int):
            told.port = value
    else:
        told.kept(name, value, source)
        if name in options.BOTH:
            told.set(options.BOTH[name], value, source)


def _graphs(told: Collect, text: str, source: str) -> None:
    sizes: list[Any] = [
        number if (number := whole(part.strip())) is not None else part.strip() for part in text.split(",")
    ]
    told.kept("cuda_graphs", sizes[0] if len(sizes) == 1 else sizes, source)
    if all(isinstance(size, int) for size in sizes):
        told.set("serve.enforce_eager", sizes == [0], source)


def _adapters(told: Collect, text: str, source: str) -> None:
    """`id`, `name=path` or `id@revision`, with commas between."""
    told.adapters.clear()
    for name, path in pairs([part.strip() for part in text.split(",") if part.strip()]):
        text_, at, revision = path.partition("@")
        told.adapters[name.partition("@")[0]] = Model(text=text_, source=source, revision=revision if at else None)


def _variables(told: Collect, env: Mapping[str, str], worker: bool) -> None:
    for name in sorted(env):
        if is_secret(name):
            continue
        if name in options.VARIABLES or is_common(name):
            told.variable(name, env[name])
        source = f"variable {name}"
        if name in _RESOLVED:
            told.set(_RESOLVED[name], env[name], source)
        elif name in _SWITCHES:
            value = truth(env[name])
            if value is not None:
                told.set(_SWITCHES[name], value, source)
        elif worker and name == "WORLD_SIZE" and (world := whole(env[name])) is not None:
            told.set("serve.tensor_parallel_size", world, source)
        elif worker and name == "RANK":
            told.per_node["rank"] = env[name]
