"""llama-cpp-python's server (`python -m llama_cpp.server`): its own defaults over the llama.cpp inside; read at 0.3.36."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Command, Context, Form, Given, Model, Names, Probe
from lockllm.engines.kernel.argparse import Option, Take, Word, parse, table
from lockllm.engines.kernel.collect import Collect, source_of, truth
from lockllm.engines.kernel.command import Gathered, gather, nest
from lockllm.engines.kernel.values import Kind, convert, leaves, secret_name
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.llama_cpp_python import rules
from lockllm.engines.llama_cpp_python.rules import RULES, SAMPLING, SERVE
from lockllm.engines.shown.llama_lines import read, readings
from lockllm.engines.shown.served import Shows
from lockllm.facts.fact import Fact, Path
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading, Unobserved
from lockllm.facts.registry import dump, fact, find, row_of, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

name = "llama-cpp-python"
newest = rules.NEWEST
effective, omitted = rules.effective, rules.omitted
packages = ("llama-cpp-python", "jinja2", "numpy", "diskcache", "transformers", "tokenizers")
distributions = ("llama-cpp-python",)
probes = (Probe(path="/openapi.json"), Probe(path="/v1/models"))
serves = Shows(ids=True)

_TEXT, _WHOLE, _NUMBER = Kind.TEXT, Kind.INT, Kind.NUMBER
_SETTINGS: tuple[tuple[Kind, str, str], ...] = (
    (_TEXT, "model", "model"), (_TEXT, "model_alias", "operational"), (_WHOLE, "n_gpu_layers", "serve.gpu_layers"),
    (_WHOLE, "split_mode", "serve.split_mode"), (_WHOLE, "main_gpu", "kept"), (_TEXT, "tensor_split", "kept"),
    (_TEXT, "vocab_only", "switch"), (_TEXT, "use_mmap", "switch"), (_TEXT, "use_mlock", "switch"), (_TEXT, "kv_overrides", "kept"),
    (_TEXT, "rpc_servers", "kept"), (_WHOLE, "seed", "seed"), (_WHOLE, "n_ctx", "serve.max_model_len"),
    (_WHOLE, "n_batch", "serve.max_num_batched_tokens"), (_WHOLE, "n_ubatch", "serve.ubatch_size"), (_WHOLE, "n_threads", "kept"),
    (_WHOLE, "n_threads_batch", "kept"), (_WHOLE, "rope_scaling_type", "kept"), (_NUMBER, "rope_freq_base", "kept"),
    (_NUMBER, "rope_freq_scale", "kept"), (_NUMBER, "yarn_ext_factor", "kept"), (_NUMBER, "yarn_attn_factor", "kept"),
    (_NUMBER, "yarn_beta_fast", "kept"), (_NUMBER, "yarn_beta_slow", "kept"), (_WHOLE, "yarn_orig_ctx", "kept"),
    (_TEXT, "mul_mat_q", "switch"), (_TEXT, "logits_all", "switch"), (_TEXT, "embedding", "switch"), (_TEXT, "offload_kqv", "switch"),
    (_TEXT, "flash_attn", "serve.flash_attn"), (_WHOLE, "last_n_tokens_size", "kept"), (_TEXT, "lora_base", "path"),
    (_TEXT, "lora_path", "adapter"), (_TEXT, "numa", "switch"), (_TEXT, "chat_format", "template"),
    (Kind.STRICT_JSON, "chat_template_kwargs", "kwargs"), (_TEXT, "clip_model_path", "path"),
    (_TEXT, "cache", "switch"), (_TEXT, "cache_type", "kept"), (_WHOLE, "cache_size", "kept"), (_TEXT, "hf_tokenizer_config_path", "path"),
    (_TEXT, "hf_pretrained_model_name_or_path", "file_or_name"), (_TEXT, "hf_model_repo_id", "repo"),
    (_TEXT, "draft_model", "file_or_name"), (_WHOLE, "draft_model_num_pred_tokens", "kept"),
    (_WHOLE, "type_k", "type"), (_WHOLE, "type_v", "type"),
    (_TEXT, "verbose", "operational"), (_TEXT, "host", "operational"), (_WHOLE, "port", "port"), (_TEXT, "ssl_keyfile", "secret"),
    (_TEXT, "ssl_certfile", "operational"), (_TEXT, "api_key", "secret"), (_TEXT, "interrupt_requests", "switch"),
    (_TEXT, "disable_ping_events", "operational"), (_TEXT, "root_path", "operational"), (_TEXT, "config_file", "config"),
)  # fmt: skip
OPERATIONAL_BECAUSE = {
    "where and under which name it is reached": "model_alias host port root_path ssl_certfile",
    "what is written to logs and measured": "verbose",
    "how a stream of answers is kept open": "disable_ping_events",
    "the file of settings, whose settings are locked one by one": "config_file",
}
"""Reason -> settings that lock nothing, because they move no token."""
_ROLES = {setting: role for _, setting, role in _SETTINGS}
_KINDS = {setting: kind for kind, setting, _ in _SETTINGS}
named_files = {
    ("serve", "args", setting): Names(or_name=role == "file_or_name")
    for setting, role in _ROLES.items()
    if role in ("path", "file_or_name")
}
TABLE = table(
    tuple(Option(name=setting, flags=(f"--{setting}",), take=Take.ONE, kind=kind) for kind, setting, _ in _SETTINGS)
)
_TYPES = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl", 30: "bf16"}
_SPLIT = {0: "none", 1: "layer", 2: "row"}
_REQUEST: Mapping[str, FactKey] = {
    "temperature": "sampling.temperature", "top_p": "sampling.top_p", "min_p": "sampling.min_p", "top_k": "sampling.top_k",
    "repeat_penalty": "sampling.repetition_penalty", "presence_penalty": "sampling.presence_penalty",
    "frequency_penalty": "sampling.frequency_penalty", "mirostat_mode": "sampling.mirostat",
}  # fmt: skip
"""Field of a chat completion's body -> fact (`llama_cpp/server/types.py`)."""
_WITNESS = "look from the server's own host, where its command line and variables show"
_LOUD = ("MODEL", "SEED", "CACHE", "VERBOSE", "EMBEDDING", "NUMA")


def recognise(argv: Sequence[str]) -> Form | None:
    """`python -m llama_cpp.server …`."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterator[str]:
    """The config file: the variable CONFIG_FILE beats `--config_file`."""
    path = env.get("CONFIG_FILE") or _last(form, "config_file")
    if path:
        yield path


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """Flags over variables; a config file replaces both. Flags are the settings' names, with underscores."""
    into = Collect(name, live)
    parsed = parse(form.args, TABLE)
    into.refuse(parsed.problems, rules.is_release(version), f"llama-cpp-python {version}")
    into.repeated(parsed.repeated)
    told: dict[str, tuple[Any, str]] = {
        setting: (_typed(setting, env[setting.upper()]), f"variable {setting.upper()}")
        for setting in _ROLES
        if setting.upper() in env
    }
    told.update({word.name: (word.value, source_of(word)) for word in parsed.last().values()})
    path = env.get("CONFIG_FILE") or _last(form, "config_file")
    if path:
        told = dict(_from_file(files.get(path), path, into))
    elif loud := [each for each in _LOUD if each in env and each.lower() in told]:
        into.warnings.append(f"{', '.join(loud)} of the environment are settings of this server")
    for setting, (value, source) in told.items():
        _one(setting, value, source, into)
    for variable, text in env.items():
        if is_common(variable) or variable in ("TZ", "LLAMA_ATTN_ROT_DISABLE"):
            into.variable(variable, text)
    return into.given()


def detect(answers: Sequence[Answer]) -> bool:
    """The title of its OpenAPI document, or the owner of its model entry."""
    for answer in answers:
        body = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
        info = body.get("info")
        if isinstance(info, dict) and "llama.cpp Python API" in str(info.get("title")):
            return True
        data = body.get("data")
        first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
        if first.get("owned_by") == "me" and "permissions" in first:
            return True
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterator[Reading | Unobserved]:
    """The package's version, and what its request model fills in for a chat completion; nothing else shows."""
    yield seen("engine.name", name, "GET /openapi.json", By.ENDPOINT)
    for answer in answers:
        body = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
        info = body.get("info")
        if answer.probe.path == "/openapi.json" and isinstance(info, dict) and isinstance(info.get("version"), str):
            yield seen("engine.version", info["version"], f"{answer.source}: info.version", By.ENDPOINT)
        if answer.probe.path == "/openapi.json":
            yield from _filled_in(body, answer.source)
    reason = "no endpoint of llama-cpp-python's server shows it"
    for key in (*SERVE, "chat_template.sha256"):
        yield Unobserved(row_of(key).path, reason, _WITNESS)
    yield Unobserved(("sampling",), reason, _WITNESS)


def _filled_in(body: Mapping[str, Any], source: str) -> Iterator[Reading]:
    """The defaults in the schema of a chat completion's body: the server hands them on as if they were sent."""
    found: Any = body
    for key in ("components", "schemas", "CreateChatCompletionRequest", "properties"):
        found = found.get(key) if isinstance(found, dict) else None
    for setting, key in _REQUEST.items():
        field = found.get(setting) if isinstance(found, dict) else None
        default = field.get("default") if isinstance(field, dict) else None
        if isinstance(default, (int, float)) and not isinstance(default, bool):
            yield seen(key, default, f"{source}: default of {setting}", By.ENDPOINT)


def from_log(lines: Sequence[str]) -> Iterator[Reading | Unobserved]:
    """llama.cpp's own lines; no line names the version or the model's path."""
    state = read(lines)
    if not state.facts:
        return
    yield seen("engine.name", name, "log", By.LOG)
    yield from (each for each in readings(state) if each.fact.path != ("quantization", "scheme"))
    reason = "the log of llama-cpp-python does not say it"
    yield Unobserved(("engine", "version"), reason, "read the package's metadata")
    yield Unobserved(fact("chat_template.sha256").path, reason, _WITNESS)
    yield Unobserved(("sampling",), reason, _WITNESS)


def checks(given: Given | None, context: Context) -> Iterator[Check]:
    """GGUF sampling keys that llama-server would apply and this package does not read."""
    declared = [path[2] for path, value in context.checkpoint.items() if path[:2] == ("checkpoint", "generation_config")
                and len(path) == 3 and value is not ABSENT and path[2] in SAMPLING]  # fmt: skip
    if declared:
        detail = f"the GGUF sets {', '.join(sorted(declared)[:6])}, and llama-cpp-python reads no general.sampling keys"
        yield Check(
            "check.settings_take_effect",
            CheckStatus.FAIL,
            detail,
            "GGUF general.sampling",
            "send them with each request",
        )


_SETTING_OF = {role: setting for setting, role in _ROLES.items() if role.startswith("serve.")}
_IMPLIED = ("serve.max_num_seqs", "serve.cache_type_k", "serve.cache_type_v")


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """`python3 -m llama_cpp.server --model …`."""
    dumped = {path: dump(find(path), value) for path, value in facts.items() if value not in (ABSENT, None)}
    told = gather(dumped, "llama-cpp-python", {}, _special, noted=("serve", "sampling"))
    model: dict[str, Any] = {}
    if path := dumped.get(("checkpoint", "path")):
        model = {"model": path}
    elif repo := dumped.get(("checkpoint", "repo")):
        model = {"hf_model_repo_id": repo, "model": "*.gguf"}
    typed = [word for name, value in {**model, **told.args}.items() for word in (f"--{name}", _text(value))]
    return Command(argv=("python3", "-m", "llama_cpp.server", *typed), env=told.env, notes=tuple(told.notes))


def _special(path: Path, key: str, value: Any, into: Gathered) -> bool:
    if path[:2] == ("serve", "chat_template_kwargs"):
        nest(into.args, path[1:], value)
    elif key == "serve.kv_cache_dtype":
        into.args |= _types(str(value))
    elif key == "serve.seed":
        into.args["seed"] = value
    elif key in _SETTING_OF:
        into.args[_SETTING_OF[key]] = _backwards(key, value)
    else:
        return key in _IMPLIED or path[0] == "checkpoint"
    return True


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def where(row: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how a fact is set, defaulted and seen."""
    key, told = row.key, dict[str, str]()
    if key in _SETTING_OF:
        told = {
            "set_by": f"--{_SETTING_OF[key]}, variable {_SETTING_OF[key].upper()}",
            "seen_at": "the process's command line",
        }
    if row.group == "sampling" and row.path[-1] in SAMPLING:
        told["set_by"] = "each request alone"
    if key in SERVE or row.path[-1] in SAMPLING:
        told |= {"default": text} if (text := RULES.default_text(key)) else {}
    if key == "engine.version":
        told["seen_at"] = "GET /openapi.json: info.version"
    elif told:
        told["unknown"] = "not exposed by any endpoint"
    return told


def _one(setting: str, value: Any, source: str, into: Collect) -> None:
    role = _ROLES.get(setting, "kept")
    if role == "secret" or (role == "kept" and secret_name(setting)):
        into.secret(value)
    elif role in ("operational", "port", "config"):
        into.operational.append(setting)
        into.port = value if role == "port" and isinstance(value, int) else into.port
    elif role == "model":
        into.model = Model(text=str(value), source=source, file=into.model.file if into.model else None)
    elif role == "repo":
        into.set("checkpoint.repo", value, source)
        into.model = Model(text=str(value), source=source, file=into.model.text if into.model else None)
    elif role in ("path", "file_or_name"):
        into.path(f"serve.args.{setting}", str(value), source, or_name=role == "file_or_name")
    elif role == "adapter":
        stem = str(value).rsplit("/", 1)[-1].removesuffix(".gguf") or "adapter"
        into.adapters[stem] = Model(text=str(value), source=source)
        into.set(("adapters", stem, "scale"), 1.0, source)
    elif role == "template":
        into.set("serve.chat_template", value, source)
        into.set("chat_template.source", f"--chat_format {value}", source)
    elif role == "seed":
        into.set("serve.seed", ABSENT if value in (-1, 4294967295) else value, source)
    elif role == "type":
        _type(setting, value, source, into)
    elif setting == "split_mode":
        into.set(role, _SPLIT.get(value, value), source)
    elif setting == "n_ctx" and value == 0:
        into.auto.add(row_of(role).path)
    elif role == "kwargs":
        _kwargs(value, source, into)
    elif role == "switch":
        on = truth(value) if isinstance(value, str) else None
        into.kept(setting, value if on is None else on, source)
    elif role == "kept":
        into.kept(setting, value, source)
    else:
        into.set(role, value, source)


def _kwargs(value: Any, source: str, into: Collect) -> None:
    """Arguments of the chat template: JSON on the command line, an object in the config file."""
    if not isinstance(value, dict):
        into.finding("check.flags_accepted", CheckStatus.FAIL, f"{source} is not a JSON object", source)
        return
    for path, leaf in leaves(value):
        into.set(("serve", "chat_template_kwargs", *path), leaf, source)


def _type(setting: str, value: Any, source: str, into: Collect) -> None:
    """`--type_k 8` is q8_0: ggml's numbers. Both make one fact; the other is f16 until it is given."""
    into.set(f"serve.cache_{setting}", _TYPES.get(value, str(value)), source)
    held = [into.readings.get(("serve", f"cache_type_{letter}")) for letter in "kv"]
    kinds = [each.value if each else "f16" for each in held]
    into.set("serve.kv_cache_dtype", kinds[0] if kinds[0] == kinds[1] else "/".join(kinds), source)


def _types(value: str) -> dict[str, str]:
    key, _, other = value.partition("/")
    numbers = {kind: number for number, kind in _TYPES.items()} | {"float16": 1, "float32": 0, "bfloat16": 30}
    return {name: str(numbers.get(kind, kind)) for name, kind in (("type_k", key), ("type_v", other or key))}


def _backwards(key: str, value: Any) -> Any:
    if key == "serve.split_mode":
        return {word: number for number, word in _SPLIT.items()}.get(value, value)
    if key == "serve.flash_attn":
        return str(value).lower() in ("on", "true", "1", "enabled")
    return value


def _typed(setting: str, text: str) -> Any:
    kind = _KINDS[setting]
    try:
        return convert(kind, text)
    except ValueError:
        return text


def _from_file(text: str | None, path: str, into: Collect) -> Iterable[tuple[str, tuple[Any, str]]]:
    """The server's own settings, and those of its first model."""
    if text is None:
        into.warnings.append(f"{path} replaces flags and variables, and was not read")
        reason = f"{path} replaces flags and variables, and was not read"
        into.unreadable(("serve", "sampling"), reason, "look where that file is, or check the server's mounts")
        return
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        from lockllm.engines.kernel.pyyaml import YamlError
        from lockllm.engines.kernel.pyyaml import read as read_yaml

        try:
            whole = read_yaml(text)
            body = whole.value
            into.warnings += [f"{path}: {note}" for note in whole.notes]
        except YamlError:
            body = None
    if not isinstance(body, dict):
        into.finding("check.flags_accepted", CheckStatus.FAIL, f"{path} is neither JSON nor YAML of an object", path)
        return
    models = body.get("models")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    if isinstance(models, list) and len(models) > 1:
        into.warnings.append(f"{path} lists {len(models)} models: the facts are those of the first")
    for where, settings in (("", body), ("models[0].", first)):
        for setting, value in settings.items():
            if setting != "models":
                yield str(setting), (value, f"{path}: {where}{setting}")


def _last(form: Form, setting: str) -> str | None:
    word: Word | None = parse(form.args, TABLE).last().get(setting)
    return str(word.value) if word is not None else None
