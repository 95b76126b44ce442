"""docs/engines.md is written from the code, and what its cells say is held against the engines themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Context, Engine, Given
from lockllm.facts import registry
from lockllm.facts.fact import Fact
from lockllm.facts.observation import Reading
from lockllm.facts.types import BOOL, COUNT, DTYPE, INT, KV_DTYPE, NUMBER
from tests.conftest import ROOT
from tests.engines import replay

HEAD = """\
# How each engine sets, defaults, and shows facts

Generated from the code (`pytest tests/docs --update-golden`); `lockllm explain FACT` prints the same for one fact. An empty cell
means that the engine has no such option, rule, or witness. *Seen at* lists where a running server shows the value. If nothing shows
it, *unknown because* says why, and `verify` reports the fact as unknown unless the command line or a rule determines it.

For a release of vLLM or SGLang that is not in the tables, lockllm reads the source of the installed package (parsed, never imported):
its options, what they take, and constant defaults. Values that only that release's rules determine stay unpinned, with the reason.
"""
COLUMNS = ("set_by", "default", "seen_at", "unknown")
SAMPLES: dict[int, Any] = {
    id(BOOL): True, id(COUNT): 2, id(INT): 4, id(NUMBER): 0.5, id(DTYPE): "float16", id(KV_DTYPE): "fp8_e5m2",
}  # fmt: skip
CHECKPOINT = {
    ("checkpoint", "dtype"): "bfloat16", ("checkpoint", "architecture"): "LlamaForCausalLM", ("checkpoint", "format"): "safetensors",
    ("checkpoint", "max_position_embeddings"): 4096, ("quantization", "method"): "none",
    ("checkpoint", "generation_config", "temperature"): 0.6,
}  # fmt: skip
HOST = {
    ("host", "platform"): "cuda", ("host", "gpu"): "NVIDIA H100 80GB HBM3", ("host", "gpu_memory"): "80 GiB",
    ("host", "compute_capability"): "9.0", ("host", "gpu_count"): 1,
}  # fmt: skip


def cells() -> list[tuple[str, Engine, Fact[Any], dict[str, str]]]:
    """Every engine's word on every row."""
    found = []
    for name in engines.available():
        engine = engines.load(name)
        for row in registry.ROWS:
            words = {word: text for word, text in engine.where(row).items() if text}
            if words:
                found.append((name, engine, row, words))
    return found


CELLS = cells()


def document() -> str:
    """The text of docs/engines.md."""
    parts = [HEAD]
    for name in engines.available():
        engine = engines.load(name)
        since = f"from {engine.oldest} " if hasattr(engine, "oldest") else "up "
        parts.append(f"\n## {name}\n\nRules read {since}to {engine.newest}.\n")
        parts.append("| fact | set by | default | seen at | unknown because |\n|---|---|---|---|---|")
        for engine, _, row, words in CELLS:
            if engine == name:
                parts.append(
                    "| " + " | ".join([f"`{row.key}`", *(_cell(words.get(column, "")) for column in COLUMNS)]) + " |"
                )
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return re.sub(
        r"(?<![\w`-])(--?[A-Za-z][\w-]*|[A-Z]{2,}_[A-Z0-9_*]+|GET /\S*[\w/]|POST /\S*[\w/])", r"`\1`", text
    ).replace("|", "\\|")


def test_the_table_of_engines_is_the_code_s(golden: Callable[[Any, str], None]) -> None:
    golden(ROOT / "docs" / "engines.md", document())


def test_every_engine_has_a_word_on_every_row_that_matters_most() -> None:
    told = {(name, row.key) for name, _, row, _ in CELLS}
    for name in engines.available():
        assert sum(1 for engine, key in told if engine == name) >= 15
        assert any(engine == name and key.startswith("sampling.") for engine, key in told)


@pytest.mark.parametrize(
    ("name", "engine", "row", "words"), CELLS, ids=[f"{name}-{row.key}" for name, _, row, _ in CELLS]
)
def test_an_endpoint_that_a_cell_names_is_asked(
    name: str, engine: Engine, row: Fact[Any], words: dict[str, str]
) -> None:
    asked = {probe.path.partition("?")[0] for probe in engine.probes}
    named = set(re.findall(r"(?:GET|POST) (/[\w/.]*\w)", words.get("seen_at", "")))
    informational = {
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/chat/completions/render",
        "/tokenizer_info",
        "/tokenize",
        "/chat_tokenize",
    }
    assert named - asked <= informational


def samples(row: Fact[Any]) -> list[Any]:
    """Values that a fact can have."""
    if row.type is BOOL:
        return [True, False]
    special = {"serve.rope_scaling": {"rope_type": "linear", "factor": 2.0}, "serve.generation_config": "auto"}
    return [special.get(row.key, SAMPLES.get(id(row.type), "x"))]


FLAGGED = [
    cell for cell in CELLS
    if cell[2].group == "serve" and cell[2].lockable and re.search(r"(?<!\w)--?[a-z]", cell[3].get("set_by", ""))
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "engine", "row", "words"), FLAGGED, ids=[f"{name}-{row.key}" for name, _, row, _ in FLAGGED]
)
def test_a_fact_that_a_flag_sets_comes_back_from_the_command_that_realizes_it(
    name: str, engine: Engine, row: Fact[Any], words: dict[str, str]
) -> None:
    context = Context(version=engine.newest, checkpoint=CHECKPOINT, host=HOST)
    base = {
        ("checkpoint", "path"): "model",
        ("engine", "name"): name,
        ("engine", "version"): engine.newest,
        ("serve", "max_num_seqs"): 1,
    }
    plain = engine.command(base, context)
    for value in samples(row):
        command = engine.command({**base, row.path: value}, context)
        form = engine.recognise(command.argv)
        if form is None or set(command.notes) - set(plain.notes):
            assert command.notes, f"{name} gives no command for {row.key}, and says nothing"
            continue
        given = engine.given(form, command.env, {}, engine.newest, False)
        seen = {reading.fact.path: reading.value for reading in given.readings}
        seen |= {
            reading.fact.path: reading.value
            for reading in engine.effective(given, context)
            if isinstance(reading, Reading) and reading.fact.path not in seen
        }
        by_path = any(each.fact.path == row.path for each in given.paths)
        assert by_path or row.path in given.auto or row.path in seen, (
            f"{' '.join(command.argv)} gives {sorted('.'.join(path) for path in seen)}"
        )
        assert by_path or row.path in given.auto or registry.same(row, value, seen[row.path]) or command != plain


DEFAULTED = [cell for cell in CELLS if cell[2].group in ("serve", "sampling") and cell[3].get("default")]


@pytest.mark.parametrize(
    ("name", "engine", "row", "words"), DEFAULTED, ids=[f"{name}-{row.key}" for name, _, row, _ in DEFAULTED]
)
def test_a_default_that_a_cell_names_is_resolved_or_said_to_be_unknown(
    name: str, engine: Engine, row: Fact[Any], words: dict[str, str]
) -> None:
    context = Context(version=engine.newest, checkpoint=CHECKPOINT, host=HOST, packages={"transformers": "5.20.0"})
    told = list(engine.effective(Given(engine=name), context))
    paths = [each.fact.path if hasattr(each, "fact") else each.path for each in told]
    assert any(row.path[: len(path)] == path for path in paths)


LOGS = {"llama.cpp": "llamacpp", "tensorrt-llm": "tensorrt_llm", "llama-cpp-python": "llamacpp"}
"""Engine -> the folder of its start logs, where it is not the engine's own name."""
LOGGED = [cell for cell in CELLS if re.search(r"\b(start )?log\b(?! with)", cell[3].get("seen_at", ""))]
LINES = {
    "vllm": ["WARNING 01-01 00:00:00 [x.py:1] VLLM_BATCH_INVARIANT is enabled and no attention backend was specified."]
}
"""A line that no log at hand has."""
ENGINES = ROOT / "tests" / "engines"


@lru_cache
def logged(name: str) -> frozenset[tuple[str, ...]]:
    """The facts that the start logs of an engine show."""
    engine = engines.load(name)
    texts = [path.read_text(errors="replace").splitlines() for path in replay.logs(ENGINES / LOGS.get(name, name))]
    texts.append(LINES.get(name, []))
    return frozenset(each.fact.path for lines in texts for each in engine.from_log(lines) if isinstance(each, Reading))


@pytest.mark.parametrize(
    ("name", "engine", "row", "words"), LOGGED, ids=[f"{name}-{row.key}" for name, _, row, _ in LOGGED]
)
def test_a_fact_that_a_start_log_shows_is_read_from_one(
    name: str, engine: Engine, row: Fact[Any], words: dict[str, str]
) -> None:
    assert any(path[: len(row.path)] == row.path for path in logged(name))


OPEN = [
    cell
    for cell in CELLS
    if cell[3].get("unknown") and not cell[3].get("default") and cell[3]["unknown"] != "not exposed by any endpoint"
]


@pytest.mark.parametrize(
    ("name", "engine", "row", "words"), OPEN, ids=[f"{name}-{row.key}" for name, _, row, _ in OPEN]
)
def test_what_a_cell_calls_unknown_no_rule_tells(
    name: str, engine: Engine, row: Fact[Any], words: dict[str, str]
) -> None:
    context = Context(version=engine.newest, checkpoint=CHECKPOINT, host=HOST, packages={"transformers": "5.20.0"})
    told = [each for each in engine.effective(Given(engine=name), context) if isinstance(each, Reading)]
    assert row.path not in {each.fact.path for each in told}
