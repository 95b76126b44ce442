"""`transformers serve`: its command line, defaults and the little it shows; read and run at 5.24.0, 4.57.1 for its flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lockllm.engines import Answer, Command, Context, Form, Given, Model, Names, Probe
from lockllm.engines.kernel.argparse import Option, Take, Word, parse, table
from lockllm.engines.kernel.collect import Collect, is_path, source_of
from lockllm.engines.kernel.command import Gathered, gather, nest, words
from lockllm.engines.kernel.packages import besides
from lockllm.engines.kernel.values import Kind, leaves
from lockllm.engines.kernel.variables import is_common
from lockllm.engines.launch import recognise as _recognise
from lockllm.engines.shown.served import Shows
from lockllm.engines.transformers import rules
from lockllm.facts.env import is_secret
from lockllm.facts.fact import Fact, Path, Stage
from lockllm.facts.observation import ABSENT, By, Check, CheckStatus, Reading, Unobserved, values
from lockllm.facts.registry import dump, fact, find, row_of, seen

if TYPE_CHECKING:
    from lockllm.facts.fact_keys import FactKey

name = "transformers"
newest, oldest = rules.NEWEST, rules.OLDEST
effective, omitted = rules.effective, rules.omitted
packages = besides(
    "torch", "transformers", "tokenizers", "safetensors", "accelerate", "kernels", "flash-attn", "bitsandbytes", "triton",
    "jinja2", "gguf", "compressed-tensors", "torchao", "optimum", "mistral-common", "sentencepiece", "tiktoken",
)  # fmt: skip
distributions = ("transformers",)
probes = (Probe(path="/v1/models"), Probe(path="/health"), Probe(path="/openapi.json"))
serves = Shows(ids=True, loaded=True)

_TEXT, _WHOLE, _NUMBER = Kind.TEXT, Kind.INT, Kind.NUMBER
_NOW = (
    ("attn-implementation", _TEXT, "serve.attention_backend"), ("quantization", _TEXT, "serve.quantization"),
    ("dtype", _TEXT, "serve.dtype"), ("device", _TEXT, "kept"), ("reasoning", _TEXT, "kept"),
    ("chat-template-kwargs", Kind.STRICT_JSON, "kwargs"), ("decision-config", _TEXT, "path"), ("model-timeout", _WHOLE, "kept"),
    ("cb-block-size", _WHOLE, "kept"), ("cb-num-blocks", _WHOLE, "kept"), ("cb-max-batch-tokens", _WHOLE, "kept"),
    ("cb-max-memory-percent", _NUMBER, "kept"), ("default-seed", _WHOLE, "serve.seed"), ("host", _TEXT, "operational"),
    ("port", _WHOLE, "port"), ("log-level", _TEXT, "operational"),
)  # fmt: skip
_NOW_SWITCHES = (
    ("continuous-batching", "serve.continuous_batching"), ("compile", "kept"), ("trust-remote-code", "serve.trust_remote_code"),
    ("cb-use-cuda-graph", "kept"), ("enable-cors", "operational"), ("non-blocking", "operational"),
)  # fmt: skip
_BEFORE = (
    ("force-model", _TEXT, "model"), ("torch-dtype", _TEXT, "serve.dtype"), ("model-revision", _TEXT, "revision"),
    ("bnb-4bit-quant-type", _TEXT, "kept"),
)  # fmt: skip
_BEFORE_SWITCHES = (
    ("load-in-4bit", "kept"), ("load-in-8bit", "kept"), ("use-bnb-nested-quant", "kept"), ("input-validation", "operational"),
)  # fmt: skip
OPERATIONAL_BECAUSE = {
    "where it is reached": "host port",
    "who may ask": "enable_cors",
    "what is written to logs and measured": "log_level",
    "how requests are received": "non_blocking input_validation",
}
"""Reason -> options that lock nothing, because they move no token."""
_ROLES = {each[0].replace("-", "_"): each[-1] for each in (*_NOW, *_NOW_SWITCHES, *_BEFORE, *_BEFORE_SWITCHES)}
named_files = {("serve", "args", option): Names() for option, role in _ROLES.items() if role == "path"}
GONE = frozenset(each[0].replace("-", "_") for each in (*_BEFORE, *_BEFORE_SWITCHES))
_HIDDEN: tuple[FactKey, ...] = (
    "engine.version", "serve.dtype", "serve.quantization", "serve.attention_backend", "serve.continuous_batching",
    "chat_template.sha256",
)  # fmt: skip
_WITNESS = "look from the server's own host, where its command line, files and packages show"


def _options() -> Iterator[Option]:
    for text, kind, _ in (*_NOW, *_BEFORE):
        yield Option(name=text.replace("-", "_"), flags=(f"--{text}",), take=Take.ONE, kind=kind)
    for text, _ in (*_NOW_SWITCHES, *_BEFORE_SWITCHES):
        yield Option(name=text.replace("-", "_"), flags=(f"--{text}",), off=(f"--no-{text}",), take=Take.BOTH)


TABLE = table(tuple(_options()))


def recognise(argv: Sequence[str]) -> Form | None:
    """`transformers serve …`."""
    return _recognise(argv, name)


def wants_files(form: Form, env: Mapping[str, str]) -> Iterable[str]:
    """It reads no config file."""
    return ()


def given(form: Form, env: Mapping[str, str], files: Mapping[str, str], version: str | None, live: bool) -> Given:
    """What the command says: a positional model from 5.x on, `--force-model` before; `_` and `-` alike."""
    into = Collect(name, live)
    parsed = parse(form.args, TABLE, underscores=True)
    read = rules.is_read(version)
    problems = [problem for problem in parsed.problems if problem.flag.lstrip("-").replace("-", "_") not in GONE]
    into.refuse(problems, read, f"transformers {version}")
    into.repeated(parsed.repeated)
    revision = None
    for word in parsed.last().values():
        if word.name == "model_revision":
            revision = str(word.value)
        else:
            _one(word, into)
        if word.name in GONE and read:
            detail = f"{word.flag}: no such option in this release"
            fix = (
                "name the model as the first argument"
                if word.name == "force_model"
                else "use --quantization or --dtype"
            )
            into.finding("check.flags_accepted", CheckStatus.FAIL, detail, f"transformers {version}", fix)
    for variable in sorted(env):
        if is_common(variable):
            into.variable(variable, env[variable])
        elif is_secret(variable):
            into.secret(env[variable])
    if parsed.positionals:
        _model(parsed.positionals[0], revision, "argument MODEL", into)
    if into.model is None:
        into.warnings.append("no model is pinned: every request chooses its own, from main of its repository")
    return into.given()


def detect(answers: Sequence[Answer]) -> bool:
    """Only its own routes tell: /load_model and /reset stand in /openapi.json; a model entry has a `status.value`."""
    for answer in answers:
        body = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
        if answer.probe.path == "/openapi.json":
            routes = body.get("paths", {})
            if isinstance(routes, dict) and {"/load_model", "/reset", "/v1/chat/completions"} <= set(routes):
                return True
        if answer.probe.path == "/v1/models" and any("value" in (_dict(each.get("status"))) for each in _entries(body)):
            return answer.headers.get("server", "").lower() != "llama.cpp"
    return False


def from_http(answers: Sequence[Answer], context: Context) -> Iterator[Reading | Unobserved]:
    """The model's name, and that nothing else shows."""
    for answer in answers:
        if answer.probe.path == "/v1/models" and answer.status == 200:
            yield seen("engine.name", name, answer.source, By.ENDPOINT)
            yield from _served(answer)
    for key in _HIDDEN:
        yield Unobserved(row_of(key).path, "no endpoint of transformers serve shows it", _WITNESS)
    yield Unobserved(("sampling",), "no endpoint of transformers serve shows it", _WITNESS)


def from_log(lines: Sequence[str]) -> Iterator[Reading | Unobserved]:
    """The model's name; continuous batching only where a request or a dropped processor tells."""
    found: dict[FactKey, tuple[Any, int]] = {}
    for number, line in enumerate(lines[:50_000], 1):
        text = line[:2000]
        if "[transformers] Loading " in text:
            found["checkpoint.path"] = (text.partition("[transformers] Loading ")[2].strip(), number)
        elif "ContinuousBatchingLogger" in text or text.rstrip().endswith("CB: True"):
            found["serve.continuous_batching"] = (True, number)
    if not found and not any("[transformers]" in line for line in lines[:50_000]):
        return
    yield seen("engine.name", name, "log", By.LOG)
    for key, (value, number) in found.items():
        yield seen(key, value, f"log line {number}", By.LOG)
    for key in _HIDDEN:
        if key not in found:
            yield Unobserved(row_of(key).path, "the log of transformers serve does not say it", _WITNESS)
    yield Unobserved(("sampling",), "the log of transformers serve does not say it", _WITNESS)


def checks(given: Given | None, context: Context) -> Iterator[Check]:
    """Penalties that continuous batching drops in silence (run, 5.24.0: the text changes and nothing shows it)."""
    held = values(given.readings) if given else {}
    if held.get(fact("serve.continuous_batching").path) is not True:
        return
    declared = rules.declared(context, "repetition_penalty")
    if isinstance(declared, (int, float)) and declared != 1:
        detail = f"generation_config.json sets repetition_penalty {declared}, and continuous batching drops it"
        fix = "start without --continuous-batching, or remove the penalty"
        yield Check("check.settings_take_effect", CheckStatus.FAIL, detail, "argument --continuous-batching", fix)


_FLAGS = {role: option for option, role in _ROLES.items() if option not in GONE}
_IMPLIED = ("serve.max_num_seqs", "serve.enable_prefix_caching")
_SCHEMES = {"bitsandbytes-4bit": "bnb-4bit", "bitsandbytes-8bit": "bnb-8bit"}


def command(facts: Mapping[Path, Any], context: Context) -> Command:
    """`transformers serve MODEL …`."""
    dumped = {path: dump(find(path), value) for path, value in facts.items() if value not in (ABSENT, None)}
    told = gather(dumped, "transformers serve", _FLAGS, _special, noted=("serve", "sampling"))
    commit = dumped.get(("checkpoint", "commit")) if ("checkpoint", "path") not in dumped else None
    model = [f"{told.model}@{commit}" if commit else told.model] if told.model else []
    typed = [word for name, value in told.args.items() for word in words(name, value)]
    return Command(argv=("transformers", "serve", *model, *typed), env=told.env, notes=tuple(told.notes))


def _special(path: Path, key: str, value: Any, into: Gathered) -> bool:
    if path[:2] == ("serve", "chat_template_kwargs"):
        nest(into.args, path[1:], value)
    elif path == ("checkpoint", "path"):
        into.model = str(value)
    elif key == "serve.quantization":
        into.args["quantization"] = _SCHEMES.get(str(value), value)
    else:
        return key in _IMPLIED or path == ("checkpoint", "commit")
    return True


def where(row: Fact[Any]) -> Mapping[str, str]:
    """For `explain`: how a fact is set, defaulted and seen."""
    key = row.key
    told: dict[str, str] = {}
    option = _FLAGS.get(key) or (row.path[2] if row.path[:2] == ("serve", "args") and row.path[2] in _ROLES else None)
    if option:
        told["set_by"] = f"--{option.replace('_', '-')}"
        told["seen_at"] = "the process's command line"
        told["unknown"] = "not exposed by any endpoint"
    if row.group == "sampling":
        told["set_by"] = "generation_config.json of the checkpoint"
        told["seen_at"] = "the file, by the engine's rule"
        told["unknown"] = "not exposed by any endpoint"
    if text := rules.RULES.default_text(key):
        told["default"] = text
    return told


def _one(word: Word, into: Collect) -> None:
    role = _ROLES.get(word.name, "kept")
    source = source_of(word)
    if role == "operational":
        into.operational.append(word.name)
    elif role == "port":
        into.operational.append(word.name)
        into.port = word.value if isinstance(word.value, int) else None
    elif role == "model":
        _model(str(word.value), None, source, into)
    elif role == "path":
        into.path(f"serve.args.{word.name}", str(word.value), source)
    elif role == "kwargs":
        _kwargs(word.value, source, into)
    elif role == "kept":
        into.kept(word.name, word.value, source)
    elif role == "serve.quantization":
        into.set(
            role, {"bnb-4bit": "bitsandbytes-4bit", "bnb-8bit": "bitsandbytes-8bit"}.get(word.value, word.value), source
        )
    else:
        into.set(role, word.value, source)


def _model(text: str, revision: str | None, source: str, into: Collect) -> None:
    """`repo@revision`, `repo:file.gguf`, or a folder."""
    file = None
    if not is_path(text):
        text, _, asked = text.partition("@")
        text, _, file = text.partition(":")
        revision = asked or revision
        if "/" in text:
            into.set("checkpoint.repo", text, source)
        if revision:
            into.set("checkpoint.revision", revision, source)
    into.model = Model(text=text, source=source, revision=revision, file=file or None)


def _kwargs(value: Any, source: str, into: Collect) -> None:
    if not isinstance(value, dict):
        into.finding("check.flags_accepted", CheckStatus.FAIL, "--chat-template-kwargs is no JSON object", source)
        return
    for path, leaf in leaves(value):
        into.set(("serve", "chat_template_kwargs", *path), leaf, source)


def _served(answer: Answer) -> Iterator[Reading | Unobserved]:
    loaded = [each for each in _entries(_dict(answer.json)) if _dict(each.get("status")).get("value") == "loaded"]
    ids = [each["id"] for each in loaded if isinstance(each.get("id"), str)]
    if len(ids) == 1:
        text, _, revision = ids[0].partition("@")
        key: FactKey = "checkpoint.path" if is_path(text) or "/" not in text else "checkpoint.repo"
        yield seen(key, text, f"{answer.source}: id", By.ENDPOINT)
        if revision:
            yield seen("checkpoint.revision", revision, f"{answer.source}: id", By.ENDPOINT)
    elif not ids:
        fix = "start it with a model: transformers serve MODEL"
        yield Unobserved(("checkpoint",), "no model is loaded: each request chooses its own", fix, Stage.LIVE)


def _entries(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = body.get("data")
    return [each for each in data[:1000] if isinstance(each, dict)] if isinstance(data, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
