"""Variables: which values are read, which names are told, and what must never appear."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockllm import engines
from lockllm.facts import variables
from lockllm.facts.env import is_secret
from lockllm.facts.fact import Kind
from lockllm.facts.registry import fact
from lockllm.facts.variables import Class
from lockllm.observe.server import command_line, variable_readings

LAUNCH = {
    "vllm": ("vllm", "serve", "org/name"),
    "sglang": ("python", "-m", "sglang.launch_server", "--model-path", "org/name"),
    "llama.cpp": ("llama-server", "-m", "m.gguf"),
    "tgi": ("text-generation-launcher", "--model-id", "org/name"),
    "ollama": ("ollama", "serve"),
    "tensorrt-llm": ("trtllm-serve", "serve", "org/name"),
    "lmdeploy": ("lmdeploy", "serve", "api_server", "org/name"),
    "transformers": ("transformers", "serve"),
    "llama-cpp-python": ("python", "-m", "llama_cpp.server", "--model", "m.gguf"),
}
SECRETS = (
    "HF_TOKEN", "VLLM_API_KEY", "SGLANG_API_KEY", "API_KEY", "AWS_SECRET_ACCESS_KEY", "NGC_API_KEY", "DATABASE_URL", "SENTRY_DSN",
    "KUBECONFIG", "OTEL_EXPORTER_OTLP_HEADERS", "NGROK_AUTHTOKEN", "S3_ACCESS_KEY_ID", "MY_PASSWORD", "GH_TOKEN", "SESSION_COOKIE",
)  # fmt: skip


def read(engine: str, env: dict[str, str]) -> command_line.Plan:
    return command_line.plan(LAUNCH[engine], env, "/", {"vllm": "0.33.0", "sglang": "0.5.23"}.get(engine))


@pytest.mark.parametrize("engine", engines.available())
def test_every_engine_reads_the_variables_below_it_and_its_own(engine: str) -> None:
    own = sorted(row.name for row in variables.rows(engine) if row.recorded and not row.until and row.name[-1] != "*")[
        :1
    ]
    env = {"NCCL_ALGO": "Ring", "NVIDIA_TF32_OVERRIDE": "0", "UNKNOWN_SETTING": "7", **dict.fromkeys(own, "1")}
    told = {
        reading.fact.path[1]: reading.value for reading in read(engine, env).readings if reading.fact.path[0] == "env"
    }
    assert {name: told.get(name) for name in ("NCCL_ALGO", "NVIDIA_TF32_OVERRIDE", *own)} == {
        "NCCL_ALGO": "Ring", "NVIDIA_TF32_OVERRIDE": "0", **dict.fromkeys(own, "1"),
    }  # fmt: skip
    assert "UNKNOWN_SETTING" not in told


@pytest.mark.parametrize("engine", engines.available())
def test_no_secret_is_read_of_any_engine(engine: str) -> None:
    env = {name: f"hidden-{number}" for number, name in enumerate(SECRETS)}
    found = read(engine, env)
    kept = (*found.readings, *found.checks, *found.warnings, *(found.given.readings if found.given else ()))
    assert "hidden-" not in repr(kept)
    assert all(map(is_secret, SECRETS))


def test_a_name_of_the_catalogue_is_no_secret_for_a_word_in_it() -> None:
    told = read("sglang", {"SGLANG_MAX_NEW_TOKENS_LIMIT": "512", "SGLANG_SOME_TOKEN": "x"})
    assert {each.fact.path[1] for each in told.readings if each.fact.path[0] == "env"} == {
        "SGLANG_MAX_NEW_TOKENS_LIMIT"
    }


@pytest.mark.parametrize(
    "engine, name, status",
    [
        ("vllm", "VLLM_ATTENTION_BACKEND", "fail"),
        ("vllm", "VLLM_USE_V1", "fail"),
        ("vllm", "VLLM_NO_SUCH_THING", "fail"),
        ("vllm", "VLLM_USE_DEEP_GEMM", "pass"),
        ("sglang", "SGLANG_CUTLASS_MOE", "fail"),
        ("sglang", "SGLANG_USE_AITER", None),
        ("ollama", "OLLAMA_NO_SUCH_THING", "fail"),
        ("llama.cpp", "LLAMA_ARG_NO_SUCH_THING", "fail"),
    ],
)
def test_a_variable_that_the_installed_release_does_not_read_is_a_finding(
    engine: str, name: str, status: str | None
) -> None:
    found = read(engine, {name: "1"})
    assert found.given is not None
    context = engines.Context(version={"vllm": "0.33.0", "sglang": "0.5.23"}.get(engine), env={name: "1"})
    checks = [*found.checks, *engines.load(engine).checks(found.given, context)]
    told = {check.status.value: check.detail for check in checks if check.name == "check.variables_known"}
    if status is None:
        assert not told
    else:
        assert status == "pass" or name in told[status]
        assert status in told
    if status == "fail":
        values = {each.fact.path for each in found.readings}
        assert ("env", name) not in values


@pytest.mark.parametrize(
    "engine, env, told",
    [
        ("vllm", {"VLLM_KIMI_K3_GEMM_AR": "secret-looking"}, "VLLM_KIMI_K3_GEMM_AR"),
        ("sglang", {"SGLANG_NEW_SWITCH": "1", "SGLANG_LOG_MS": "1"}, "SGLANG_NEW_SWITCH"),
        ("vllm", {"FLASHINFER_NEW_SWITCH": "1"}, "FLASHINFER_NEW_SWITCH"),
        ("vllm", {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_PORT": "1", "VLLM_SERVICE_HOST": "10.0.0.1"}, None),
        ("tgi", {"NCCL_BRAND_NEW": "1"}, "NCCL_BRAND_NEW"),
    ],
)
def test_what_nobody_classified_is_told_by_name_alone(engine: str, env: dict[str, str], told: str | None) -> None:
    warnings = [text for text in read(engine, env).warnings if "not classified" in text]
    assert warnings == ([f"set, but not classified by this release: {told}"] if told else [])


def test_what_no_server_should_have_set_is_told() -> None:
    env = {"HSA_OVERRIDE_GFX_VERSION": "11.0.0", "NVIDIA_DISABLE_REQUIRE": "1", "TRITON_INTERPRET": "0"}
    assert [text for text in read("sglang", env).warnings if " is set: " in text] == [
        "HSA_OVERRIDE_GFX_VERSION is set: ROCm treats the GPU as another model",
        "NVIDIA_DISABLE_REQUIRE is set: a driver that is too old for the image is accepted",
    ]


def test_a_variable_that_names_a_file_is_its_content() -> None:
    given = read("tgi", {"NCCL_TOPO_FILE": "/etc/topo.xml", "CUDNN_ERRATA_JSON_FILE": "off"}).given
    assert given is not None
    assert [(each.fact.key, each.path, each.or_name) for each in given.paths] == [
        ("env.CUDNN_ERRATA_JSON_FILE", "off", True),
        ("env.NCCL_TOPO_FILE", "/etc/topo.xml", False),
    ]
    for engine, name in (("vllm", "VLLM_TUNED_CONFIG_FOLDER"), ("sglang", "SGLANG_MOE_CONFIG_DIR")):
        given = read(engine, {name: "/srv/tuned"}).given
        assert given is not None
        assert [(each.fact.key, each.path) for each in given.paths] == [(f"env.{name}", "/srv/tuned")]


def test_nccl_reads_files_beside_the_environment(tmp_path: Path) -> None:
    first, home = tmp_path / "nccl.conf", tmp_path / ".nccl.conf"
    first.write_text("# tuned\nNCCL_ALGO = Tree\nNCCL_PROTO=LL\nNCCL_DEBUG=INFO\nHF_TOKEN=x\n")
    home.write_text("NCCL_NTHREADS=64\n")

    def told(env: dict[str, str]) -> dict[str, object]:
        reader = lambda path: command_line.read_file(path) if path.startswith(str(tmp_path)) else ""  # noqa: E731
        return {each.fact.path[1]: each.value for each in variable_readings.of_nccl(env, reader)}

    assert told({"NCCL_CONF_FILE": str(first), "NCCL_PROTO": "Simple"}) == {"NCCL_ALGO": "Tree"}
    assert told({"HOME": str(tmp_path)}) == {"NCCL_NTHREADS": "64"}
    assert told({"NCCL_CONF_FILE": str(tmp_path / "gone")}) == {}


@pytest.mark.parametrize(
    "name, kind",
    [
        ("NCCL_ALGO", Kind.NOISE), ("VLLM_SYSTEM_START_DATE", Kind.STEP), ("SGLANG_DEFAULT_THINKING", Kind.STEP),
        ("OLLAMA_CONTEXT_LENGTH", Kind.STEP), ("HSA_OVERRIDE_GFX_VERSION", Kind.STEP), ("OMP_NUM_THREADS", Kind.NOISE),
    ],
)  # fmt: skip
def test_what_a_variable_moves_is_its_own(name: str, kind: Kind) -> None:
    row = fact(f"env.{name}")
    assert row.kind is kind
    assert row.effect != fact("env.NOT_IN_THE_CATALOGUE").effect


def test_the_catalogue_is_data_that_holds_together() -> None:
    for engine in ("", *engines.available()):
        rows = variables.rows(engine)
        assert len({row.name for row in rows}) == len(rows)
        for row in rows:
            assert row.effect or row.kind in (Class.NOISE, Class.PLACEMENT, Class.SECRET, Class.OPEN, Class.IDENTITY), (
                row.name
            )
            assert not row.effect.endswith("."), row.name
            assert row.kind is not Class.SECRET or is_secret(row.name)
    assert len(variables.rows("vllm")) > 400


STDBUF = "/usr/libexec/coreutils/libstdbuf.so"


@pytest.mark.parametrize(("value", "told"), [
    (STDBUF, None), (f"/a.so:{STDBUF}", "/a.so"), (f"/a.so:{STDBUF}:/b.so", "/a.so:/b.so"), ("/a.so", "/a.so"),
    ("/usr/lib/x86_64-linux-gnu/coreutils/libstdbuf.so", None), ("/usr/lib/coreutils/libstdbuf.so", None),
    ("/lib64/coreutils/libstdbuf.so", None), ("/home/u/coreutils/libstdbuf.so", "/home/u/coreutils/libstdbuf.so"),
    ("/tmp/libstdbuf.so", "/tmp/libstdbuf.so"), ("/usr/lib/../../tmp/coreutils/libstdbuf.so",) * 2,
    ("libstdbuf.so", "libstdbuf.so"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_the_library_that_stdbuf_preloads_is_no_difference(engine: str, value: str, told: str | None) -> None:
    found = read(engine, {"LD_PRELOAD": value})
    values = [each.value for each in found.readings if each.fact.path == ("env", "LD_PRELOAD")]
    assert values == ([told] if told is not None else [])
