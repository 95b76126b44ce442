"""Every option of the newest tables, added and removed after locking: a match only where its class says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import pytest

from lockllm import engines
from lockllm.documents.lock import EDITION, Lock
from lockllm.engines import Context, Given
from lockllm.engines.kernel.argparse import Option, Take
from lockllm.engines.kernel.rules import Rules
from lockllm.engines.kernel.typed import typed
from lockllm.engines.kernel.values import Kind, secret_name
from lockllm.engines.llama_cpp_python import engine as llamacpp_python
from lockllm.engines.llamacpp import options as llamacpp
from lockllm.engines.lmdeploy import options as lmdeploy
from lockllm.engines.sglang import options as sglang
from lockllm.engines.tensorrt_llm import options as tensorrt_llm
from lockllm.engines.tensorrt_llm import rules as tensorrt_llm_rules
from lockllm.engines.tgi import options as tgi
from lockllm.engines.transformers import engine as transformers
from lockllm.engines.vllm import options as vllm
from lockllm.facts import registry
from lockllm.facts.fact import Path, Stage
from lockllm.facts.keys import parse
from lockllm.facts.observation import ABSENT, TYPED_WHOLE, By, Observation, Reading, values
from lockllm.judge.verify import verify

COMMANDS = {
    "vllm": ("vllm", "serve", "m"),
    "sglang": ("python3", "-m", "sglang.launch_server", "--model-path", "m"),
    "llama.cpp": ("llama-server", "-m", "m.gguf"),
    "lmdeploy": ("lmdeploy", "serve", "api_server", "m"),
    "tgi": ("text-generation-launcher", "--model-id", "m"),
    "tensorrt-llm": ("trtllm-serve", "m"),
    "transformers": ("transformers", "serve", "m"),
    "llama-cpp-python": ("python3", "-m", "llama_cpp.server", "--model", "m.gguf"),
}
NAMES = {
    "vllm": {"config", "model", "lora_modules"},
    "llama.cpp": {each.name for each in llamacpp.OPTIONS if each.role == "model"},
    "tgi": {"tokenizer_name"},
    "llama-cpp-python": {"model", "hf_model_repo_id"},
}
"""Options that name what is looked at by itself: another place of the model, adapters, the file of more options."""
VALUES = {
    Kind.INT: "3", Kind.NUMBER: "0.3", Kind.HUMAN: "3", Kind.HUMAN_AUTO: "3", Kind.SI: "3", Kind.JSON: '{"odd": 3}',
    Kind.STRICT_JSON: '{"odd": 3}', Kind.JSON_OR_TEXT: '{"odd": 3}', Kind.LOOSE: "3", Kind.TEXT: "odd",
}  # fmt: skip


def words(option: Option) -> list[tuple[str, ...]]:
    """The option as it is typed: both ways where it has two."""
    if option.take in (Take.SWITCH, Take.BOTH):
        return [(option.flags[0],), *([(option.off[0],)] if option.off else [])]
    if option.take is Take.BOOLEAN:
        return [(option.flags[0], "true"), (option.flags[0], "false")]
    return [(option.flags[0], VALUES[option.kind])]


def llamacpp_words(option: llamacpp.Option) -> list[tuple[str, ...]]:
    flag = option.flags[0]
    kind = option.kind
    if kind in (llamacpp.Kind.FLAG, llamacpp.Kind.SWITCH):
        return [(flag,), *([(option.off[0],)] if option.off else [])]
    if kind is llamacpp.Kind.PAIR:
        return [(flag, "3", "4")]
    texts = (llamacpp.Kind.TEXT, llamacpp.Kind.LOOSE, llamacpp.Kind.LIST, llamacpp.Kind.LIST1, llamacpp.Kind.PATH)
    return [(flag, "on" if kind is llamacpp.Kind.FLASH else "odd" if kind in texts else "3")]


NEWEST: dict[str, tuple[str, list[tuple[str, tuple[str, ...]]]]] = {
    "vllm": (vllm.NEWEST, [(each.name, typed) for each in vllm.options(vllm.NEWEST).options for typed in words(each)]),
    "sglang": (
        sglang.NEWEST,
        [(each.name, typed) for each in sglang.of(sglang.NEWEST).options for typed in words(each)],
    ),
    "llama.cpp": (
        engines.load("llama.cpp").newest,
        [
            (each.name, typed)
            for each in llamacpp.OPTIONS
            for typed in llamacpp_words(each)
            if typed[0] not in llamacpp.GONE and not set(each.flags) <= llamacpp.GONE
        ],
    ),
    "lmdeploy": ("0.18.0", [(each.name, typed) for each in lmdeploy.TABLE.options for typed in words(each)]),
    "tgi": ("3.3.7", [(each.name, typed) for each in tgi.TABLE.options for typed in words(each)]),
    "tensorrt-llm": ("1.3", [(each.name, typed) for each in tensorrt_llm.TABLE.options for typed in words(each)]),
    "transformers": (
        transformers.newest,
        [
            (each.name, typed)
            for each in transformers.TABLE.options
            for typed in words(each)
            if each.name not in transformers.GONE
        ],
    ),
    "llama-cpp-python": (
        llamacpp_python.newest,
        [(each.name, typed) for each in llamacpp_python.TABLE.options for typed in words(each)],
    ),
}


def given(engine: str, *more: str) -> Given:
    module = engines.load(engine)
    form = module.recognise([*COMMANDS[engine], *more])
    assert form is not None
    return module.given(form, {}, {}, NEWEST[engine][0], False)


def host(engine: str, said: Given) -> Observation:
    """A host whose command line is read, before the server starts."""
    version = NEWEST[engine][0]
    told = engines.load(engine).effective(said, Context(version=version))
    who = (
        registry.seen("engine.name", engine, "dist-info", By.PACKAGE),
        registry.seen("engine.version", version, "dist-info", By.PACKAGE),
    )
    return Observation(
        readings=(*who, *said.readings, *(each for each in told if isinstance(each, Reading))),
        complete=frozenset({("env",), ("serve", "args"), ("serve", "chat_template_kwargs"), TYPED_WHOLE}),
        asked=tuple(typed(said)), stage=Stage.PREFLIGHT,
    )  # fmt: skip


def ruled(engine: str) -> dict[Path, Reading]:
    """What the engine's rules tell of settings that nobody types."""
    told = engines.load(engine).effective(given(engine), Context(version=NEWEST[engine][0]))
    return {each.fact.path: each for each in told if isinstance(each, Reading)}


def locked(engine: str, seen: Observation) -> Lock:
    """What a lock holds that was made of that host: facts in force, what is absent, and what only the typing tells."""
    held = {path: value for path, value in values(seen.readings).items() if registry.find(path).lockable}
    absent = frozenset(path for path, value in held.items() if value is ABSENT)
    known = {path: value for path, value in held.items() if value is not ABSENT}
    told = ruled(engine)
    only_typed = [each for each in seen.asked if each.fact.path not in told or each.fact.path not in held]
    asked = {each.fact.path: registry.dump(each.fact, each.value) for each in only_typed}
    return Lock(values=known, absent=absent, asked=asked, edition=EDITION)


def named(said: Given, plain: Given) -> bool:
    """Whether the option names a checkpoint, an adapter or a file: what is found there is compared, not the name."""
    sides = [(each.model, each.tokenizer, each.draft, each.adapters, each.paths) for each in (said, plain)]
    return sides[0] != sides[1]


def operational(engine: str) -> Callable[[str], bool]:
    tables: dict[str, Any] = {
        "vllm": vllm.OPERATIONAL_BECAUSE, "sglang": sglang.OPERATIONAL_BECAUSE, "llama.cpp": llamacpp.OPERATIONAL_BECAUSE,
        "lmdeploy": lmdeploy.OPERATIONAL_BECAUSE, "tgi": tgi.OPERATIONAL_BECAUSE,
        "tensorrt-llm": tensorrt_llm.OPERATIONAL_BECAUSE, "transformers": transformers.OPERATIONAL_BECAUSE,
        "llama-cpp-python": llamacpp_python.OPERATIONAL_BECAUSE,
    }  # fmt: skip
    names = " ".join(tables[engine].values()).split()
    return lambda name: any(re.fullmatch(each, name) for each in names)


def why_silent(engine: str, name: str, said: Given, plain: Given) -> str:
    """The class that lets an option come and go without a word; empty where none does."""
    if operational(engine)(name):
        return "operational"
    if name in said.per_node and ("serve", "args", name) not in {each.fact.path for each in said.readings}:
        return "per node"
    if set(said.secrets) - set(plain.secrets) or secret_name(name):
        return "secret"
    if named(said, plain) or name in NAMES.get(engine, ()):
        return "named"
    if not registry.find(("serve", "args", name)).verified:
        return "moves no token"
    facts = {("engine", "version"): NEWEST[engine][0]}
    before = {each.fact.path for each in plain.readings}
    new = [each for each in said.readings if each.fact.path not in before]
    ruled = {
        each.fact.path: each
        for each in engines.load(engine).effective(plain, Context(version=NEWEST[engine][0]))
        if isinstance(each, Reading)
    }
    return "default" if new and all(_is_default(engine, each, facts, ruled) for each in new) else ""


def _is_default(engine: str, reading: Reading, facts: Any, by_rule: dict[Path, Reading]) -> bool:
    same = by_rule.get(reading.fact.path)
    if same is not None and registry.same(reading.fact, same.value, reading.value):
        return True
    told = engines.load(engine).omitted(reading.fact.path, facts)
    return any(registry.same(reading.fact, reading.value, registry.read(reading.fact, each)) for each in told)


def silent(engine: str, rows: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
    """The spellings that leave a verdict at match, added or removed, though no class of theirs says why."""
    plain = given(engine)
    base = host(engine, plain)
    lock = locked(engine, base)
    assert verify(lock, base).status == "match"
    wrong: dict[str, str] = {}
    for name, spelled in rows:
        said = given(engine, *spelled)
        more = host(engine, said)
        assert verify(locked(engine, more), more).status == "match", spelled
        ends = {"added": verify(lock, more).status, "removed": verify(locked(engine, more), base).status}
        reason = why_silent(engine, name, said, plain)
        for word, status in ends.items():
            if (status != "mismatch" and not reason) or (
                status == "mismatch" and reason in ("operational", "per node", "default")
            ):
                wrong[f"{' '.join(spelled)} {word}"] = f"{status} {reason}"
    return wrong


@pytest.mark.parametrize("engine", COMMANDS)
def test_no_option_comes_or_goes_in_silence_without_a_reason(engine: str) -> None:
    assert silent(engine, NEWEST[engine][1]) == {}


@pytest.mark.parametrize("engine", COMMANDS)
def test_every_operational_option_of_the_tables_has_its_reason(engine: str) -> None:
    plain = given(engine)
    reached = {
        name
        for name, spelled in NEWEST[engine][1]
        if name in given(engine, *spelled).operational and name not in plain.operational
    }
    assert {name for name in reached if not operational(engine)(name)} == set()


def kept_constants(rules: Rules) -> dict[str, Any]:
    """The constants of kept options among an engine's rows."""
    return {row.fact.removeprefix("serve.args."): row.value for row in rules.rows if row.fact.startswith("serve.args.")}


def constants(engine: str, table: Any, omitted: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Kept options whose default is a constant, each typed with that very value."""
    options = {option.name: option for option in table.options}
    return [
        (engine, typed) for name, value in omitted.items() if name in options for typed in _with(options[name], value)
    ]


def _with(option: Option, value: Any) -> list[tuple[str, ...]]:
    if option.take in (Take.SWITCH, Take.BOTH):
        return [(option.off[0],)] if option.off and value is False else []
    return [(option.flags[0], str(value)), (f"{option.flags[0]}={value}",)]


@pytest.mark.parametrize(
    ("engine", "typed"),
    [
        *constants("llama-cpp-python", llamacpp_python.TABLE, kept_constants(llamacpp_python.RULES)),
        *constants("transformers", transformers.TABLE, kept_constants(transformers.rules.RULES)),
        *constants("tensorrt-llm", tensorrt_llm.TABLE, kept_constants(tensorrt_llm_rules.RULES)),
    ],
)
def test_a_kept_option_typed_with_its_constant_default_is_no_difference(engine: str, typed: tuple[str, ...]) -> None:
    plain, more = host(engine, given(engine)), host(engine, given(engine, *typed))
    assert verify(locked(engine, plain), more).status == "match"
    assert verify(locked(engine, more), plain).status == "match"
    if len(typed) == 2:
        moved = host(engine, given(engine, typed[0], "7"))
        assert verify(locked(engine, plain), moved).status == "mismatch"


@pytest.mark.parametrize(
    ("version", "name", "value"),
    [
        ("0.33.0", "num_keep", 4),
        ("0.33.0", "num_gpu", -1),
        ("0.8.9", "mirostat_tau", 5.0),
        ("0.9.0", "mirostat_tau", None),
        ("0.8.9", "penalize_newline", True),
        ("0.40.0", "num_keep", None),
        (None, "num_keep", None),
    ],
)
def test_a_parameter_of_a_modelfile_has_its_release_s_constant(version: str | None, name: str, value: Any) -> None:
    known = {} if version is None else {("engine", "version"): version}
    told = engines.load("ollama").omitted(("serve", "args", name), known)
    assert told == (() if value is None else (value,))


@pytest.mark.parametrize("engine", ["lmdeploy", "llama-cpp-python", "ollama", "tensorrt-llm", "tgi", "transformers"])
def test_every_row_of_a_rule_names_a_fact_and_says_what_it_comes_to(engine: str) -> None:
    rules = import_module(engines.identity(engine).module.removesuffix("engine") + "rules").RULES
    assert [row.fact for row in rules.rows if not registry.find(parse(row.fact)).known] == []
    told = {row.fact: rules.default_text(row.fact) for row in rules.rows if not row.only_omitted}
    silent = {"chat_template.source", "chat_template.sha256", "engine.bundled.llama_cpp"}
    silent |= {"serve.max_num_seqs", "serve.max_num_batched_tokens", "serve.max_model_len", "serve.kv_cache_dtype"}
    assert {key for key, text in told.items() if not text} <= silent
