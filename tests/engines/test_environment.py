"""Every variable of the catalogue, set or unset after locking: a match only where its class says that nothing moves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lockllm import engines
from lockllm.documents.lock import Lock
from lockllm.facts import registry, variables
from lockllm.facts.observation import By, Observation, Reading
from lockllm.facts.variables import Class, Variable
from lockllm.judge.report import Report
from lockllm.judge.verify import verify

COMMANDS: Mapping[str, list[str]] = {
    "vllm": ["vllm", "serve", "m"],
    "sglang": ["python", "-m", "sglang.launch_server", "--model-path", "m"],
    "llama.cpp": ["llama-server", "-m", "m.gguf"],
    "ollama": ["ollama", "serve"],
    "tgi": ["text-generation-launcher", "--model-id", "m"],
    "tensorrt-llm": ["trtllm-serve", "m"],
    "lmdeploy": ["lmdeploy", "serve", "api_server", "m"],
    "transformers": ["transformers", "serve", "m"],
    "llama-cpp-python": ["python", "-m", "llama_cpp.server", "--model", "m.gguf"],
}
SILENT = {
    Class.NOISE: "it moves nothing",
    Class.PLACEMENT: "it is resolved into host.*",
    Class.SECRET: "its value is nobody's business",
}
"""Why a variable of that class may be set or unset without a word."""
ENGINE = registry.fact("engine.name")


def rows() -> list[tuple[str, Variable]]:
    """Each variable with an engine that may read it: its own, or vLLM for the libraries below."""
    named = {(row.engine or "vllm", row.name): row for engine in ("", *COMMANDS) for row in variables.rows(engine)}
    return [(engine, row) for (engine, _), row in sorted(named.items())]


def observed(engine: str, env: Mapping[str, str]) -> Observation:
    module = engines.load(engine)
    form = module.recognise(COMMANDS[engine])
    assert form is not None
    given = module.given(form, env, {}, module.newest, False)
    named = {each.fact.path for each in given.env}
    others = tuple(each for each in given.readings if each.fact.group == "env" and each.fact.path not in named)
    steady = Reading(ENGINE, engine, "GET /version", By.ENDPOINT)
    return Observation(readings=(steady, *given.env, *others), complete=frozenset({("env",)}))


def locked(engine: str, env: Mapping[str, str]) -> Lock:
    seen = observed(engine, env)
    return Lock(values={each.fact.path: each.value for each in seen.readings}, edition=2)


def name_of(row: Variable) -> str:
    return row.name.replace("*", "WHATEVER")


def reason(engine: str, row: Variable) -> str:
    """Why a change of the variable may pass; empty where it must not."""
    found = variables.find(name_of(row), engine)
    assert found is not None
    if found.kind in SILENT:
        return SILENT[found.kind]
    if found.resolved:
        return "it is resolved into other facts"
    if found.content:
        return "its file's content is compared"
    if found.until:
        return f"the newest release does not read it: {found.until} was the last"
    from lockllm.facts.env import is_secret

    return "its name is that of a secret" if is_secret(name_of(row)) else ""


@pytest.mark.parametrize(
    ("engine", "row"), [pytest.param(engine, row, id=f"{engine} {row.name}") for engine, row in rows()]
)
def test_a_variable_that_moves_output_is_set_or_unset_in_the_open(engine: str, row: Variable) -> None:
    name = name_of(row)
    fact = registry.find(("env", name))
    bare, set_, other = ({}, {name: "1"}, {name: "0"})
    reports: dict[str, Report] = {
        "set": verify(locked(engine, bare), observed(engine, set_)),
        "unset": verify(locked(engine, set_), observed(engine, bare)),
        "changed": verify(locked(engine, set_), observed(engine, other)),
    }
    for env in (bare, set_, other):
        assert verify(locked(engine, env), observed(engine, env)).exit_code == 0
    told = {how for how, report in reports.items() if report.exit_code == 1}
    if reason(engine, row):
        assert told <= {"set", "unset", "changed"}
    else:
        assert told == {"set", "unset", "changed"}, f"{name}: {row.kind.value}, {row.effect}"
        result = next(each for each in reports["set"].results if each.fact.path == fact.path)
        assert (result.expected, result.found) == (None, "1")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "NCCL_ALGO", "VLLM_USE_V1"])
def test_an_older_lock_denies_no_variable_that_it_does_not_hold(name: str) -> None:
    lock = Lock(values={ENGINE.path: "vllm"})
    assert verify(lock, observed("vllm", {name: "1"})).exit_code == 0


def test_a_variable_that_the_spec_opens_may_differ() -> None:
    env = {"NCCL_ALGO": "Ring", "LD_LIBRARY_PATH": "/a"}
    opened = Lock(values=locked("vllm", env).values, edition=2, env_open=("NCCL_*",))
    assert verify(opened, observed("vllm", {**env, "NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"})).exit_code == 0
    assert verify(opened, observed("vllm", {"LD_LIBRARY_PATH": "/a"})).exit_code == 0
    assert verify(opened, observed("vllm", {**env, "LD_LIBRARY_PATH": "/b"})).exit_code == 1


@pytest.mark.parametrize(
    "name",
    ["VLLM_SERVICE_HOST", "VLLM_PORT_8000_TCP_ADDR", "HOSTNAME", "POD_IP", "KUBERNETES_PORT", "TERM", "LANG", "PATH", "HOME",
     "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "VLLM_LOGGING_LEVEL", "CUDA_VERSION", "NCCL_DEBUG", "HF_TOKEN"],
)  # fmt: skip
def test_names_of_hosts_services_and_logs_move_nothing(name: str) -> None:
    lock = locked("vllm", {})
    assert verify(lock, observed("vllm", {name: "1"})).exit_code == 0
