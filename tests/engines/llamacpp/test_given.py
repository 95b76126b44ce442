"""llama-server's command lines, variables and config files, as people write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Form, Given
from lockllm.facts.observation import CheckStatus
from tests.engines.llamacpp.material import DATA, facts

LLAMA = engines.load("llama.cpp")
ROWS = [json.loads(line) for line in (DATA / "commands.jsonl").read_text().splitlines()]


def given(
    *args: str,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    version: str | None = "b11549",
) -> Given:
    form = LLAMA.recognise(["llama-server", *args])
    assert form is not None
    return LLAMA.given(form, env or {}, files or {}, version, False)


def told(*args: str, env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> dict[str, Any]:
    return facts(given(*args, env=env, files=files).readings)


def same(expected: Any, found: Any) -> bool:
    if isinstance(expected, list):
        return list(map(str, expected)) == list(map(str, found or ()))
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return abs(expected - found) < 1e-6
    return str(expected).lower() == str(found).lower()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_published_command_gives_its_facts_and_no_others(row: dict[str, Any]) -> None:
    engine = engines.load(row["expected"]["engine.name"])
    form = engine.recognise(row["argv"])
    assert isinstance(form, Form)
    read = engine.given(form, row.get("env", {}), row.get("files", {}), row.get("version"), False)
    failed = [check for check in read.checks if check.status is CheckStatus.FAIL]
    if "refused" in row:
        assert failed
        return
    found = {"engine.name": form.engine, **facts(read.readings)}
    for key, value in row["expected"].items():
        spellings = [(key, value), *map(tuple, row.get("also", {}).get(key, ()))]
        spellings += [(f"serve.{key.removeprefix('serve.args.')}", value)] if key.startswith("serve.args.") else []
        assert any(name in found and same(wanted, found[name]) for name, wanted in spellings), (key, value, found)
    arguments = " ".join(row["argv"]).replace("-", "_")
    for key in found:
        if key.startswith("serve.args."):
            name = key.removeprefix("serve.args.").partition(".")[0]
            assert any(flag.lstrip("-").replace("-", "_") in arguments for flag in spelled(name)), key
    for secret in row.get("secrets", ()):
        assert secret not in repr([(each.value, each.source) for each in read.readings])
        assert secret not in repr((read.model, read.checks, read.warnings, read.env))
        assert secret in read.secrets


def spelled(name: str) -> Sequence[str]:
    from lockllm.engines.llamacpp.options import BY_NAME

    return (*BY_NAME[name].flags, *BY_NAME[name].off) if name in BY_NAME else (name,)


def test_the_command_line_outranks_variables_and_these_the_config_files() -> None:
    files = {
        "/etc/llama.cpp/config.ini": "[*]\ntemp = 0.1\ntop-k = 1\ntop-p = 0.1\nmin-p = 0.5\n",
        "/home/u/.config/llama.cpp/config.ini": "[default]\ntop-k = 2\ntop-p = 0.2\n[other]\nmin-p = 0.9\n",
    }
    env = {"HOME": "/home/u", "LLAMA_ARG_TOP_P": "0.3"}
    found = told("--top-p", "0.4", env=env, files=files)
    assert (found["sampling.temperature"], found["sampling.top_k"]) == (0.1, 2)
    assert (found["sampling.top_p"], found["sampling.min_p"]) == (0.4, 0.5)
    assert told(env=env, files=files)["sampling.top_p"] == 0.3


def test_the_config_files_are_the_servers_own_and_may_be_missing() -> None:
    form = LLAMA.recognise(["llama-server", "--chat-template-file", "t.jinja"])
    assert form is not None
    names = list(LLAMA.wants_files(form, {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}))
    assert names == ["/etc/llama.cpp/config.ini", "/x/llama.cpp/config.ini", "t.jinja"]
    assert [isinstance(each, engines.MayBeMissing) for each in names] == [True, True, False]


def test_a_build_that_reads_no_config_file_is_told_of_one() -> None:
    files = {"/etc/llama.cpp/config.ini": "[*]\ntemp = 0.1\n"}
    read = given(files=files, version="b9538")
    assert "sampling.temperature" not in facts(read.readings)
    assert [check.name for check in read.checks] == ["check.settings_take_effect"]


@pytest.mark.parametrize(
    ("args", "env", "expected"),
    [
        (("--top_k", "7"), {}, {"sampling.top_k": 7}),
        (("--temp", "0.2", "--temp", "0.3"), {}, {"sampling.temperature": 0.3}),
        (("-fa",), {}, {"serve.flash_attn": True}),
        (("-fa", "1"), {}, {"serve.flash_attn": 1}),
        (("-fa", "auto"), {}, {}),
        (("-np", "-1"), {}, {}),
        (("-np", "2"), {}, {"serve.max_num_seqs": 2}),
        (("-ngl", "all"), {}, {"serve.gpu_layers": "all"}),
        (("-ngl", "auto"), {}, {}),
        (("-nkvo",), {}, {"serve.args.kv_offload": False}),
        (("--no-mmap",), {}, {"serve.args.mmap": False}),
        (("--no-kv-unified",), {}, {"serve.kv_unified": False}),
        (("-ctv", "q8_0"), {}, {"serve.cache_type_v": "q8_0", "serve.kv_cache_dtype": "f16/q8_0"}),
        (("-ctk", "q8_0", "-ctv", "q8_0"), {}, {"serve.kv_cache_dtype": "q8_0"}),
        (("-n", "-1"), {}, {"sampling.max_tokens": None}),
        (("-s", "42"), {}, {"sampling.seed": 42, "serve.seed": 42}),
        (("-s", "-1"), {}, {"sampling.seed": None, "serve.seed": None}),
        (("--lora", "a.gguf,b.gguf", "--lora", "c.gguf"), {}, {f"adapters.{name}.scale": 1 for name in "abc"}),
        (("--lora-scaled", "d/a.gguf:0.5"), {}, {"adapters.a.scale": 0.5}),
        (("--override-kv", "llama.x=int:1"), {}, {"serve.args.override_kv": "llama.x=int:1"}),
        (("-ot", "a=CPU", "-ot", "b=CPU"), {}, {"serve.args.override_tensor": ["a=CPU", "b=CPU"]}),
        (("--chat-template-kwargs", '{"a": {"b": 1}}'), {}, {"serve.chat_template_kwargs.a.b": 1}),
        ((), {"LLAMA_ARG_NO_CACHE_PROMPT": "0", "LLAMA_ARG_CACHE_PROMPT": "1"}, {"serve.enable_prefix_caching": False}),
        ((), {"LLAMA_ARG_CONT_BATCHING": "off"}, {"serve.cont_batching": False}),
        ((), {"LLAMA_ARG_CTX_SIZE": "2048"}, {"serve.ctx_size": 2048}),
        (("-hf", "o/n:Q4_K_M"), {}, {"checkpoint.repo": "o/n"}),
        (("--no-such-thing", "3", "--other"), {}, {"serve.args.no_such_thing": 3, "serve.args.other": True}),
        (("--alias", "m", "--host", "0.0.0.0", "--metrics", "--log-file", "f"), {}, {}),
    ],
)
def test_an_option_means_what_llama_server_takes_it_for(
    args: tuple[str, ...], env: dict[str, str], expected: dict[str, Any]
) -> None:
    found = told(*args, env=env)
    assert found == shown(found, expected)


def shown(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What was expected, beside what only repeats the option's own spelling."""
    own = {key: found[key] for key in ("serve.predict", "serve.cache_type_k", "serve.cache_type_v") if key in found}
    whole = dict(expected)
    if "serve.kv_cache_dtype" in found and found["serve.kv_cache_dtype"] == "float16":
        whole["serve.kv_cache_dtype"] = "float16"
    return {**own, **whole}


def test_a_template_is_hashed_as_llama_cpp_keeps_it() -> None:
    kept = hashlib.sha256(b"{{ a }}\nb").hexdigest()
    found = told("--chat-template-file", "t.jinja", files={"t.jinja": "{{ a }}\r\nb\n"})
    assert found["chat_template.sha256"] == found["serve.chat_template"] == kept
    assert told("--chat-template", "{{ a }}\nb")["chat_template.sha256"] == kept


def test_the_name_of_a_built_in_template_is_a_prompt_of_its_own_where_jinja_is_on() -> None:
    assert statuses("--chat-template", "llama3") == {"check.settings_take_effect": CheckStatus.FAIL}
    assert statuses("--no-jinja", "--chat-template", "llama3") == {"check.settings_take_effect": CheckStatus.PASS}
    assert statuses("--chat-template", "llama3", version="b7000") == {"check.settings_take_effect": CheckStatus.PASS}
    assert statuses("--chat-template", "llama3", version="b7300") == {"check.settings_take_effect": CheckStatus.UNKNOWN}
    assert statuses("--chat-template", "chatml") == {}
    assert told("--chat-template", "llama3")["serve.chat_template"] == "llama3"


def statuses(*args: str, version: str | None = "b11549") -> dict[str, CheckStatus]:
    return {check.name: check.status for check in given(*args, version=version).checks}


@pytest.mark.parametrize(
    ("args", "version", "status"),
    [
        (("--temp=0.2",), "b11549", CheckStatus.FAIL),
        (("-fa",), "b11549", CheckStatus.FAIL),
        (("-fa",), "b5000", None),
        (("-fa",), None, CheckStatus.UNKNOWN),
        (("--no-mmap",), "b11434", CheckStatus.FAIL),
        (("--no-mmap",), "b4112", None),
        (("--moe-stream",), "b11549", CheckStatus.FAIL),
        (("--moe-stream",), "b9093", CheckStatus.UNKNOWN),
        (("--config", "c.yaml"), None, CheckStatus.FAIL),
        (("-fa", "off", "-ctv", "q8_0"), "b11549", CheckStatus.FAIL),
        (("-fa", "off", "-ctk", "q8_0"), "b11549", None),
        (("-c",), "b11549", CheckStatus.FAIL),
    ],
)
def test_what_a_build_refuses_is_told(args: tuple[str, ...], version: str | None, status: CheckStatus | None) -> None:
    assert statuses(*args, version=version).get("check.flags_accepted") is status


def test_a_variable_that_no_option_reads_is_told_by_name_alone() -> None:
    checks = given(env={"LLAMA_ARG_TEMP": "secret-value", "LLAMA_ARG_NO_SUCH": "1"}).checks
    assert [check.name for check in checks] == ["check.variables_known"]
    assert "LLAMA_ARG_TEMP" in checks[0].detail
    assert "secret-value" not in repr(checks)


def test_a_variable_that_this_release_does_not_know_is_told_by_name_alone() -> None:
    checks = given(env={"LLAMA_NEW_THING": "hush", "GGML_CUDA_GRAPH_OPT": "1", "LLAMA_CACHE": "/c"}).checks
    assert [(check.name, check.status) for check in checks] == [("check.variables_known", CheckStatus.UNKNOWN)]
    assert "LLAMA_NEW_THING" in checks[0].detail
    assert "hush" not in repr(checks)


def test_findings_of_one_name_are_one() -> None:
    files = {"/etc/llama.cpp/config.ini": "[*]\ntemp = 0.1\n"}
    checks = given("--chat-template", "llama3", "--jinja", files=files, version="b9538").checks
    assert [check.name for check in checks] == ["check.settings_take_effect"]
    assert "config.ini" in checks[0].detail
    assert "llama3" in checks[0].detail


def test_variables_below_the_server_are_read_and_keys_are_not() -> None:
    read = given(env={"LLAMA_ATTN_ROT_DISABLE": "1", "HF_TOKEN": "hf_x", "LLAMA_API_KEY": "a,b", "LANG": "C"})
    assert facts(read.env) == {"env.LLAMA_ATTN_ROT_DISABLE": "1"}
    assert set(read.secrets) >= {"hf_x", "a,b", "a", "b"}


def test_model_draft_and_adapters_are_named_as_typed() -> None:
    read = given("-m", "m.gguf", "-md", "d.gguf", "--lora", "x/a.gguf", "--mmproj", "p.gguf", "--port", "8081")
    assert (read.model and read.model.text, read.draft and read.draft.text) == ("m.gguf", "d.gguf")
    assert [model.text for model in read.adapters.values()] == ["x/a.gguf"]
    assert [(each.fact.key, each.path) for each in read.paths] == [("serve.args.mmproj", "p.gguf")]
    assert read.port == 8081
    repo = given("-hf", "o/n:Q4_K_M").model
    assert repo is not None
    assert (repo.text, repo.file) == ("o/n", "*Q4_K_M*.gguf")


@pytest.mark.parametrize(
    "args",
    [
        ("-c",) * 50,
        ("--",),
        ("", " ", "-"),
        ("--lora", ""),
        ("--override-kv", "x" * 100_000),
        ("--chat-template-kwargs", "[" * 100_000),
        ("-c", "9" * 400),
        ("--temp", "nan"),
        ("\udcff", "--temp", "\udcff"),
        ("--chat-template", "\udcff"),
    ],
)
def test_nonsense_is_read_without_an_error(args: tuple[str, ...]) -> None:
    assert given(*args).engine == "llama.cpp"
