"""Commands, environments, answers and logs that are spoiled in one place or everywhere: an engine reads them or leaves them out."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockllm.engines import Context, Given
from lockllm.facts import registry
from lockllm.facts.observation import Raw
from lockllm.observe.process import listeners, proc
from lockllm.observe.server.command_line import Plan, plan
from lockllm.prompt import live
from tests.abuse.material import (
    FOLDERS,
    answers,
    bodies,
    bounded,
    commands,
    engine,
    logs,
    seeds,
    spoiled,
    spoiled_line,
    texts,
    told,
    values,
)

NAMES = sorted(FOLDERS)
VERSIONS = (None, "", "0.11.0", "0.33.0", "99.0", "b6000", "b11434", "nonsense", "1!2.3+x", "0.5.23")
HOST: dict[tuple[str, ...], Any] = {
    ("host", "gpu"): "NVIDIA H100 80GB HBM3", ("host", "gpu_count"): 2, ("host", "platform"): "cuda",
    ("host", "compute_capability"): "9.0", ("host", "gpu_memory"): "80 GiB",
}  # fmt: skip
CHECKPOINT_KEYS = (
    "architecture", "dtype", "max_position_embeddings", "rope_type", "stop_token_ids", "format", "sliding_window", "repo",
)  # fmt: skip


def context(random: Random, odd: Any) -> Context:
    """Facts of a checkpoint and a host, one of them odd."""
    checkpoint = {("checkpoint", key): odd for key in CHECKPOINT_KEYS if random.random() < 0.4}
    checkpoint |= {
        ("checkpoint", "generation_config", key): odd for key in ("temperature", "top_k") if random.random() < 0.5
    }
    checkpoint[("quantization", "method")] = random.choice(["none", "fp8", "awq", odd])
    host = {key: odd if random.random() < 0.2 else value for key, value in HOST.items()}
    checkpoint, host = parsed(checkpoint), parsed(host)
    packages = {"transformers": random.choice(["5.0.0", "4.50", "x"])}
    env = {"VLLM_ATTENTION_BACKEND": str(odd), "CUDA_VISIBLE_DEVICES": str(odd)}
    return Context(
        version=random.choice(VERSIONS), checkpoint=checkpoint, host=host, packages=packages, env=env,
        env_whole=random.random() < 0.5,
    )  # fmt: skip


def parsed(facts: dict[tuple[str, ...], Any]) -> dict[tuple[str, ...], Any]:
    """Those that their types can parse: nothing else reaches a rule."""
    read = {path: registry.read(registry.find(path), raw) for path, raw in facts.items()}
    return {path: value for path, value in read.items() if not isinstance(value, Raw)}


@pytest.mark.parametrize("name", NAMES)
@bounded(40)
@given(seed=seeds, odd=texts, more=st.lists(texts, max_size=2))
def test_any_command_is_read_or_refused(name: str, seed: int, odd: str, more: list[str]) -> None:
    random = Random(seed)
    row = random.choice(commands(name))
    words = [*(row.get("run_as") or row["argv"])]
    for each in (odd, *more):
        words[random.randrange(len(words))] = each
        words.insert(random.randrange(len(words) + 1), spoiled_line(random.choice(words), random, each))
    env = {str(key): odd if random.random() < 0.5 else str(value) for key, value in (row.get("env") or {}).items()}
    found = plan(words, env, "/nowhere", random.choice(VERSIONS), lambda path: odd, live=random.random() < 0.5)
    follow(found, random, odd)


def follow(found: Plan, random: Random, odd: Any) -> None:
    """What is done with a command that was read: rules, findings, and the command that its facts make."""
    told((*found.readings, *found.checks))
    if found.given is None:
        return
    translator, around = engine(found.given.engine), context(random, odd)
    told(translator.effective(found.given, around))
    told(translator.checks(found.given, around))
    facts = {each.fact.path: each.value for each in found.given.readings}
    translator.command(facts, around)


@pytest.mark.parametrize("name", NAMES)
@bounded(40)
@given(seed=seeds, odd=values)
def test_rules_hold_over_any_facts(name: str, seed: int, odd: Any) -> None:
    random = Random(seed)
    around = context(random, odd)
    given_: Given | None = None
    if random.random() < 0.5:
        given_ = plan(random.choice(commands(name)).get("run_as") or [name], {}, "/nowhere").given
    told(engine(name).effective(given_, around))
    told(engine(name).checks(given_, around))


@pytest.mark.parametrize("name", NAMES)
@bounded(60)
@given(seed=seeds, odd=values)
def test_any_answer_is_read_or_left_out(name: str, seed: int, odd: Any) -> None:
    random = Random(seed)
    real = bodies(name)
    body = spoiled(random.choice(real), random, odd) if real and random.random() < 0.8 else odd
    said = answers(name, body, random)
    engine(name).detect(said)
    told(engine(name).from_http(said, context(random, odd)))


@pytest.mark.parametrize("name", NAMES)
@bounded(25)
@given(seed=seeds, odd=texts)
def test_any_log_is_read_or_left_out(name: str, seed: int, odd: str) -> None:
    random = Random(seed)
    lines = list(random.choice(logs(name) or [[odd]]))
    for _ in range(len(lines) // 3 + 1):
        at = random.randrange(len(lines))
        lines[at] = spoiled_line(lines[at], random, odd)
    told(engine(name).from_log(lines))


@bounded(60)
@given(seed=seeds, odd=values)
def test_any_answer_to_the_fixed_conversations_is_read_or_left_out(seed: int, odd: Any) -> None:
    import datetime as dt

    now = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    for name in NAMES:
        asked = live.requests(name)
        said = {
            key: answers(name, odd, Random(seed))[0] for key in asked if answers(name, odd, Random(seed))
        }  # one body for all
        if asked:
            told(live.readings(live.Served(engine=name, answers=said, silence="", began=now, ended=now), None))


@bounded(80)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_process_is_read(tmp_path_factory: pytest.TempPathFactory, cmdline: bytes, environ: bytes) -> None:
    root = tmp_path_factory.getbasetemp() / "proc"
    folder = root / "7"
    folder.mkdir(parents=True, exist_ok=True)
    for file, raw in {
        "cmdline": cmdline,
        "environ": environ,
        "stat": cmdline,
        "status": environ,
        "maps": environ,
    }.items():
        (folder / file).write_bytes(raw)
    (root / "net").mkdir(exist_ok=True)
    for file in ("tcp", "tcp6"):
        (root / "net" / file).write_bytes(cmdline)
        (folder / file).write_bytes(cmdline)
    try:
        found = proc.read(7, root)
    except proc.Gone:
        return
    proc.everything(lambda process: True, root)
    proc.mapped_files(7, root)
    listeners.listeners(8000, root)
    listeners.accepting("127.0.0.1", 8000, root)
    plan(found.argv, found.env, "/nowhere", live=True)
