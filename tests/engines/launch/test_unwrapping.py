"""Wrappers come off one layer at a time, or it is said that they do not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lockllm.engines.launch import recognise, unwrap

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data" / "commands.jsonl").read_text().splitlines()]
SERVE = ("vllm", "serve", "m")
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}\Z")
"""A shell takes the default of a variable that is not set."""


def reached(argv: list[str], env: dict[str, str] | None = None, engine: str | None = None) -> Any:
    found = unwrap(argv, env or {}, engine)
    return None if found.opaque else recognise(found.argv)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_real_command_gives_its_engine_whole_or_says_why_not(row: dict[str, Any]) -> None:
    found = unwrap(row["argv"], {name: str(value) for name, value in (row.get("env") or {}).items()})
    form = None if found.opaque else recognise(found.argv)
    if row["reach"] in ("direct", "wrapped") and form is not None:
        assert form.engine == row["engine"]
    if form is None:
        assert found.warnings
        assert row["reach"] != "direct"
    elif row.get("engine_args") is not None and not found.host:
        assert list(form.args) == [DEFAULT.sub(r"\1", word) for word in row["engine_args"]]
    if row["reach"] == "no-engine":
        assert form is None


@pytest.mark.parametrize(
    "argv",
    [
        ["exec", "-a", "name", *SERVE],
        ["env", "-i", "-u", "A", "B=1", "-C", "/srv", *SERVE],
        ["env", "-S", "vllm serve m"],
        ["nohup", "nice", "-n", "5", "ionice", "-c2", "-n7", *SERVE],
        ["taskset", "-c", "0-3", *SERVE],
        ["timeout", "-k", "5", "600", *SERVE],
        ["numactl", "-N", "0", "-m", "0", "--", *SERVE],
        ["sudo", "-u", "llm", "-E", "A=1", *SERVE],
        ["uv", "run", "--with", "vllm", "--no-sync", *SERVE],
        ["uv", "run", "-m", "vllm.entrypoints.openai.api_server", "m"],
        ["uvx", "--from", "vllm==0.10", *SERVE],
        ["uvx", "vllm@0.10.2", "serve", "m"],
        ["uv", "run", "--no-binary-package", "x", "--torch-backend", "cu128", *SERVE],
        ["srun", "--multi-prog", "x", *SERVE],
        ["shifter", "--image=vllm/vllm-openai:v0.8.3", "--module=gpu", *SERVE],
        ["enroot", "start", "--rw", "-e", "A=1", "box", *SERVE],
        ["salloc", "-N1", *SERVE],
        ["proxychains4", "-q", *SERVE],
        ["/wheel/vllm/vllm-rs", "serve", "m"],
        ["podman", "run", "registry.local/rhaiis/vllm-cuda-rhel9:3.0.0", "m"],
        ["docker", "run", "someone/vllm-gh200-openai:v0.6.4", "m"],
        ["conda", "run", "--no-capture-output", "-n", "env", *SERVE],
        ["poetry", "run", *SERVE],
        ["dumb-init", "--", *SERVE],
        ["tini", "-g", "--", *SERVE],
        ["mpirun", "-n", "2", "-x", "NCCL_ALGO=Ring", *SERVE],
        ["lockllm", "exec", "--lock", "llm.lock", "--", *SERVE],
        ["python3", "-m", "lockllm", "exec", "--", *SERVE],
        ["/opt/nvidia/nvidia_entrypoint.sh", *SERVE],
        ["some-launcher", "--own", "flag", "--", *SERVE],
        ["sh", "-c", "exec vllm serve m"],
        ["bash", "-lc", "A=1 vllm serve 'm' 2>&1 >log"],
        ["busybox", "sh", "-c", "vllm serve m"],
        ["sh", "-c", 'exec vllm serve "$@"', "sh", "m"],
        ["docker", "run", "-it", "--rm", "-p8000:8000", "vllm/vllm-openai:v0.11.1", "m"],
        [
            "docker",
            "run",
            "--shm-size",
            "16g",
            "--dns-search",
            "x",
            "--memory-reservation",
            "4g",
            "vllm/vllm-openai",
            "m",
        ],
        ["docker", "run", "--health-interval", "5s", "--use-api-socket", "vllm/vllm-openai", "m"],
        ["singularity", "exec", "--pem-path", "x", "any.sif", *SERVE],
        ["podman", "run", "--entrypoint", "vllm", "registry.local/any:1", "serve", "m"],
        ["docker", "run", "--entrypoint=bash", "any", "-c", "vllm serve m"],
        ["singularity", "exec", "--nv", "-B", "/a:/b", "any.sif", *SERVE],
        ["/venv/bin/python", "/venv/bin/vllm", "serve", "m"],
        ["python3.11", "-u", "-X", "dev", "-m", "vllm.entrypoints.cli.main", "serve", "m"],
        ["python", "/lib/python3.11/site-packages/vllm/entrypoints/openai/api_server.py", "m"],
        ["/usr/local/bin/vllm", "serve", "m"],
    ],
    ids=lambda argv: " ".join(argv)[:40],
)
def test_a_wrapper_comes_off(argv: list[str]) -> None:
    form = reached(argv)
    assert form is not None
    assert form.engine == "vllm"
    assert form.args == ("m",)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["sh", "-c", "a || vllm serve m"], "outcome of another command"),
        (["sh", "-c", "vllm serve $(cat model)"], "another command"),
        (["sh", "-c", "vllm serve $MODEL"], "MODEL, which is not set here"),
        (["sh", "-c", "vllm serve ${MODEL:?}"], "MODEL, which is not set here"),
        (["sh", "-c", "vllm serve models/*"], "expands `*`"),
        (["sh", "-c", "eval vllm serve m"], "the shell's own"),
        (["sh", "-c", "vllm serve 'm"], "not closed"),
        (["bash", "/start.sh", "vllm", "serve"], "runs a script"),
        (["bash"], "elsewhere"),
        (["python", "vllm_serve.py", "--model", "m"], "no launch form"),
        (["vllm-wrapper", "serve", "m"], "no launch form"),
        (["vllm", "bench", "serve", "--model", "m"], "no launch form"),
        (["text-embeddings-router", "--model-id", "m"], "no launch form"),
        (["trtllm-serve", "disaggregated", "-c", "x.yaml"], "no launch form"),
        (["docker", "run", "-e", "MODEL=m", "vllm"], "no argument reaches"),
        (["docker", "run", "my/image", "--model", "m"], "entry point"),
        (["docker", "run", "nvcr.io/nim/meta/llama3:1.0"], "host (nim)"),
        (["docker", "ps"], "no launch form"),
        (["--model", "m"], "no program"),
        ([], "no program"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else value[:20],
)
def test_what_does_not_come_off_is_said(argv: list[str], why: str) -> None:
    found = unwrap(argv, {})
    assert found.opaque
    assert recognise(found.argv) is None
    assert why in " ".join(found.warnings)


def test_variables_reach_the_engine_as_the_wrapper_leaves_them() -> None:
    outer = {"KEEP": "1", "DROP": "2", "HF_TOKEN": "secret"}
    assert unwrap(["env", "-u", "DROP", "NEW=3", *SERVE], outer).env == {"KEEP": "1", "HF_TOKEN": "secret", "NEW": "3"}
    assert unwrap(["env", "-i", "NEW=3", *SERVE], outer).env == {"NEW": "3"}
    assert unwrap(["docker", "run", "-e", "KEEP", "--env", "A=b=c", "vllm/vllm-openai", "m"], outer).env == {
        "KEEP": "1",
        "A": "b=c",
    }
    assert unwrap(["sh", "-c", "A='x y' vllm serve $KEEP"], outer).env["A"] == "x y"


def test_the_shell_splits_unquoted_variables_and_no_others() -> None:
    env = {"ARGS": "--max-model-len 1024", "NAME": "a b"}
    form = reached(["sh", "-c", 'vllm serve m $ARGS --served-model-name "$NAME"'], env)
    assert form.args == ("m", "--max-model-len", "1024", "--served-model-name", "a b")


def test_a_hint_names_the_engine_of_bare_arguments() -> None:
    assert reached(["--model-id", "m"], engine="tgi").args == ("--model-id", "m")
    assert reached(["-m", "x.gguf"], engine="llama.cpp").engine == "llama.cpp"
    assert reached([], engine="tgi").args == ()


def test_an_image_of_vllm_takes_the_model_as_an_option_too() -> None:
    form = reached(["docker", "run", "vllm/vllm-openai:v0.8.5", "--model", "m", "-tp", "2"])
    assert form.program[1:] == ("-m", "vllm.entrypoints.openai.api_server")
    assert form.args == ("--model", "m", "-tp", "2")
    assert reached(["--model=m"], engine="vllm").program == form.program


def test_no_name_of_an_option_is_cut_at_the_end_of_a_line() -> None:
    import lockllm.engines

    cut = [
        f"{path.name}: {line.strip()}"
        for path in Path(lockllm.engines.__file__).parent.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r' "?--?[a-z-]+- "$', line)
    ]
    assert cut == []


def test_an_option_before_the_image_is_no_argument_of_the_server() -> None:
    found = unwrap(["docker", "run", "--tensor-parallel-size", "2", "vllm/vllm-openai", "--model", "m"], {})
    assert recognise(found.argv).args == ("--model", "m")  # type: ignore[union-attr]
    assert "--tensor-parallel-size stands before the image" in found.warnings[0]


def test_hosts_are_named() -> None:
    assert unwrap(["tritonserver", "--model-repository", "/m"], {}).host == "triton"
    assert unwrap(["python3", "-m", "dynamo.sglang", "--model-path", "m"], {}).host == "dynamo"
    assert unwrap(["python", "-m", "huggingfaceserver", "--model_id=m"], {}).host == "kserve"
    assert unwrap(["serve", "run", "app.yaml"], {}).host == "ray-serve"


def test_wrappers_without_end_are_given_up() -> None:
    found = unwrap([*(["nohup"] * 100), *SERVE], {})
    assert found.opaque
    assert "too many layers" in found.warnings[-1]


@pytest.mark.parametrize(
    "image, module",
    [
        ("vllm/vllm-openai:v0.10.2", True),
        ("docker.io/vllm/vllm-openai:v0.11.0", True),
        ("vllm/vllm-openai:v0.11.0-aarch64", True),
        ("vllm/vllm-openai:v0.11.1", False),
        ("vllm/vllm-openai:v0.11", True),
        ("vllm/vllm-openai:v0.32.0", False),
        ("vllm/vllm-openai:latest", False),
        ("vllm/vllm-openai", False),
        ("registry.example/vllm/vllm-openai:v0.9.2@sha256:" + "a" * 64, True),
    ],
)
def test_an_image_of_vllm_runs_what_its_release_ran(image: str, module: bool) -> None:
    taken = unwrap(("docker", "run", image, "org/m"), {})
    assert ("vllm.entrypoints.openai.api_server" in taken.argv) is module
    assert taken.argv[-1] == "org/m"
