"""What an option or a variable names as a file is known by its content: another path is no difference, another text is one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.checkpoint import cache
from lockllm.documents.lock import Lock
from lockllm.facts.fact import Stage
from lockllm.facts.observation import ABSENT, Observation, Raw, values
from lockllm.judge.report import Report
from lockllm.judge.verify import verify
from lockllm.observe import Request, observe
from tests.conftest import TINY

JUDGED = (
    "serve.*",
    "sampling.*",
    "chat_template.*",
    "tokenizer.*",
    "env.*",
    "prompt_probes.*",
    "draft.*",
    "adapters.*",
)
VLLM = ("vllm", "serve", "model")
SGLANG = ("python3", "-m", "sglang.launch_server", "--model-path", "model")
LLAMA = ("llama-server", "-m", "tiny.gguf")
VERSIONS = {
    "vllm": "0.32.0",
    "python3": "0.5.23",
    "llama-server": "b11434",
    "trtllm-serve": "1.2.0",
    "lmdeploy": "0.18.0",
}
ENGINES = {"vllm": "vllm", "python3": "sglang", "llama-server": "llama.cpp", "trtllm-serve": "tensorrt-llm", "lmdeploy": "lmdeploy",
           "text-generation-launcher": "tgi", "transformers": "transformers"}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copytree(TINY / "model", tmp_path / "model")
    shutil.copy(TINY / "tiny.gguf", tmp_path / "tiny.gguf")
    return tmp_path


def look(home: Path, *argv: str, env: Mapping[str, str] | None = None) -> Observation:
    """What a planned command shows before it starts."""
    model = "tiny.gguf" if argv[0] == "llama-server" else "model"
    request = Request(
        stage=Stage.PREFLIGHT, command=argv, environ=env or {}, cwd=str(home), gpu="none", engine=ENGINES[argv[0]],
        engine_version=VERSIONS.get(argv[0]), checkpoint=str(home / model), cache="off",
    )  # fmt: skip
    return observe(request)


def locked(seen: Observation, edition: int = 2) -> Lock:
    """A lock of all that was seen and can be locked."""
    held = {
        path: value
        for path, value in values(seen.readings).items()
        if value is not ABSENT and not isinstance(value, Raw)
    }
    rows = {reading.fact.path: reading.fact for reading in seen.readings}
    kept = {path: value for path, value in held.items() if rows[path].lockable}
    return Lock(values=kept, edition=edition, spec="llm.toml")


def judge(lock: Lock, seen: Observation) -> Report:
    return verify(lock, seen, only=JUDGED)


def differing(report: Report) -> set[str]:
    return {each.fact.key for each in report.results if each.status.value == "mismatch"}


OPTIONS = [
    (VLLM, "--tool-parser-plugin", "serve.args.tool_parser_plugin"),
    (VLLM, "--reasoning-parser-plugin", "serve.args.reasoning_parser_plugin"),
    (VLLM, "--mm-encoder-fp8-scale-path", "serve.args.mm_encoder_fp8_scale_path"),
    (VLLM, "--chat-template", "chat_template.sha256"),
    (SGLANG, "--chat-template", "chat_template.sha256"),
    (SGLANG, "--quantization-param-path", "serve.args.quantization_param_path"),
    (SGLANG, "--lmcache-config-file", "serve.args.lmcache_config_file"),
    (SGLANG, "--speculative-ngram-external-corpus-path", "serve.args.speculative_ngram_external_corpus_path"),
    (SGLANG, "--deepep-config", "serve.args.deepep_config"),
    (SGLANG, "--init-expert-location", "serve.args.init_expert_location"),
    (LLAMA, "--mmproj", "serve.args.mmproj"),
    (LLAMA, "--grammar-file", "serve.args.grammar_file"),
    (LLAMA, "--json-schema-file", "serve.args.json_schema_file"),
    (LLAMA, "--system-prompt-file", "serve.args.system_prompt_file"),
    (LLAMA, "--lookup-cache-static", "serve.args.lookup_cache_static"),
    (LLAMA, "--control-vector", "serve.args.control_vector"),
    (LLAMA, "--model-vocoder", "serve.args.model_vocoder"),
    (LLAMA, "--chat-template-file", "chat_template.sha256"),
    (("trtllm-serve", "model"), "--chat_template", "chat_template.sha256"),
    (("lmdeploy", "serve", "api_server", "model"), "--chat-template", "serve.chat_template"),
    (("text-generation-launcher", "--model-id", "model"), "--tokenizer-config-path", "serve.args.tokenizer_config_path"),
    (("transformers", "serve", "model"), "--decision-config", "serve.args.decision_config"),
]  # fmt: skip


@pytest.mark.parametrize("argv, option, key", OPTIONS, ids=lambda value: value if isinstance(value, str) else value[0])
def test_a_file_of_an_option_counts_by_its_text_and_not_by_its_path(
    home: Path, argv: tuple[str, ...], option: str, key: str
) -> None:
    ending = ".json" if option in ("--tokenizer-config-path",) or argv[0] == "lmdeploy" else ".jinja"
    one, other = home / f"one{ending}", home / f"other{ending}"
    one.write_text("{{ messages[0]['content'] }}!")
    shutil.copy(one, other)
    lock = locked(look(home, *argv, option, one.name))
    assert any(path == tuple(key.split(".")) for path in lock.values)
    assert judge(lock, look(home, *argv, option, one.name)).exit_code in (0, 3)
    assert not differing(judge(lock, look(home, *argv, option, str(other))))
    one.write_text("{{ messages[0]['content'] }}?")
    assert key in differing(judge(lock, look(home, *argv, option, one.name)))
    one.unlink()
    report = judge(lock, look(home, *argv, option, one.name))
    gone = {each.fact.key: each for each in report.results}[key]
    if option in ("--deepep-config", "--init-expert-location"):  # a file, or a word that stands for itself
        assert gone.found == one.name
    else:
        assert (report.exit_code, gone.status.value) == (3, "unknown")
        assert "not there" in gone.reason or "not read" in gone.reason


@pytest.mark.parametrize(
    "argv, name",
    [
        (VLLM, "LMCACHE_CONFIG_FILE"), (VLLM, "VLLM_TUNED_CONFIG_FOLDER"), (VLLM, "VLLM_MODEL_REDIRECT_PATH"),
        (VLLM, "MOONCAKE_CONFIG_PATH"), (SGLANG, "SGLANG_MOE_CONFIG_DIR"), (SGLANG, "LMCACHE_CONFIG_FILE"), (LLAMA, "NCCL_TOPO_FILE"),
    ],
)  # fmt: skip
def test_a_file_of_a_variable_counts_by_its_text_and_not_by_its_path(
    home: Path, argv: tuple[str, ...], name: str
) -> None:
    for folder in ("one", "other"):
        (home / folder).mkdir()
        (home / folder / "c.yaml").write_text("blending: false\n")
    inside = "" if name.endswith(("FOLDER", "DIR")) else "/c.yaml"
    lock = locked(look(home, *argv, env={name: f"./one{inside}"}))
    assert lock.values["env", name].startswith("sha256:")
    assert not differing(judge(lock, look(home, *argv, env={name: str(home / "other") + inside})))
    (home / "one" / "c.yaml").write_text("blending: true\n")
    assert differing(judge(lock, look(home, *argv, env={name: f"./one{inside}"}))) == {f"env.{name}"}
    shutil.rmtree(home / "one")
    report = judge(lock, look(home, *argv, env={name: f"./one{inside}"}))
    assert {each.fact.key for each in report.results if each.status.value == "unknown"} >= {f"env.{name}"}


def test_what_no_table_classes_counts_by_its_content_where_it_is_a_file(home: Path) -> None:
    (home / "tuned.json").write_text("{}")
    words = ("--kv-transfer-config", '{"kv_connector": "X", "kv_connector_extra_config": {"tuning": "tuned.json"}}')
    key = ("serve", "args", "kv_transfer_config", "kv_connector_extra_config", "tuning")
    lock = locked(look(home, *VLLM, *words))
    assert lock.values[key].startswith("sha256:")
    (home / "tuned.json").write_text("{ }")
    assert differing(judge(lock, look(home, *VLLM, *words))) == {".".join(key)}
    assert look(home, *VLLM, "--kv-transfer-config", '{"cache_dir": "/tmp", "kv_role": "both"}').by_path()[
        "serve", "args", "kv_transfer_config", "cache_dir"
    ][0].value == "/tmp"  # fmt: skip


def test_several_files_of_one_option_are_a_list_in_their_order(home: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (home / name).write_text(name)
    words = ("--control-vector-scaled", "a.gguf:0.5", "--control-vector-scaled", "b.gguf:1")
    lock = locked(look(home, *LLAMA, *words))
    held = lock.values["serve", "args", "control_vector_scaled"]
    assert [each.rpartition(":")[2] for each in held] == ["0.5", "1"]
    assert not differing(judge(lock, look(home, *LLAMA, *words)))
    turned = ("--control-vector-scaled", "b.gguf:0.5", "--control-vector-scaled", "a.gguf:1")
    assert differing(judge(lock, look(home, *LLAMA, *turned))) == {"serve.args.control_vector_scaled"}


@pytest.mark.parametrize(
    "option, value, key",
    [
        ("--generation-config", "org/x", "serve.generation_config"),
        ("--hf-config-path", "org/x", "serve.args.hf_config_path"),
        ("--tokenizer", "org/x", "tokenizer.repo"),
        ("--chat-template", "gone.jinja", "chat_template.source"),
    ],
)
def test_what_is_given_and_not_here_is_never_the_default(home: Path, option: str, value: str, key: str) -> None:
    lock = locked(look(home, *VLLM))
    report = judge(lock, look(home, *VLLM, option, value))
    assert report.exit_code == 1
    assert key in differing(report)
    by_key = {each.fact.key: each.status.value for each in report.results}
    if option == "--tokenizer":
        assert by_key["tokenizer.content_sha256"] == by_key["chat_template.sha256"] == "unknown"
    if option == "--chat-template":
        assert by_key["chat_template.sha256"] == "unknown"
        assert {status for name, status in by_key.items() if name.startswith("prompt_probes.")} == {"unknown"}


@pytest.mark.parametrize("argv", [VLLM, SGLANG, ("trtllm-serve", "model")], ids=lambda value: value[0])
def test_a_config_file_that_is_not_here_leaves_no_default_standing(home: Path, argv: tuple[str, ...]) -> None:
    lock = locked(look(home, *argv))
    report = judge(lock, look(home, *argv, "--config", "gone.yaml"))
    of_serve = {each.status.value for each in report.results if each.fact.path[0] in ("serve", "sampling")}
    assert report.exit_code in (1, 3)
    assert "match" not in of_serve
    (home / "gone.yaml").write_text("{}\n")
    assert not differing(judge(lock, look(home, *argv, "--config", "gone.yaml"))) - {"serve.args.extra_llm_api_options"}


def test_a_template_that_the_config_file_names_is_read(home: Path) -> None:
    (home / "t.jinja").write_text("{{ messages }}")
    (home / "c.yaml").write_text("chat-template: t.jinja\n")
    for argv in (VLLM, SGLANG):
        seen = look(home, *argv, "--config", "c.yaml").by_path()
        assert seen["chat_template", "source"][0].value == "--chat-template"
        assert (
            len(seen["chat_template", "sha256"]) == 1
            or len({each.value for each in seen["chat_template", "sha256"]}) == 1
        )


def test_another_tokenizer_folder_is_one_story_with_its_fix(home: Path) -> None:
    lock = locked(look(home, *VLLM))
    shutil.copytree(home / "model", home / "same")
    assert judge(lock, look(home, *VLLM, "--tokenizer", "same")).exit_code == judge(lock, look(home, *VLLM)).exit_code
    shutil.copytree(home / "model", home / "tk")
    config = json.loads((home / "tk" / "tokenizer_config.json").read_text())
    (home / "tk" / "tokenizer_config.json").write_text(json.dumps({**config, "add_prefix_space": True}))
    report = judge(lock, look(home, *VLLM, "--tokenizer", "tk"))
    content = {each.fact.key: each for each in report.results}["tokenizer.content_sha256"]
    assert (content.status.value, content.reason) == ("mismatch", "")
    assert content.fix == "drop --tokenizer, or give it the locked files"
    assert not any(check.name == "check.witnesses_agree" for check in report.checks)


def test_an_older_lock_that_holds_the_path_of_a_file_still_matches(home: Path) -> None:
    (home / "p.py").write_text("")
    seen = look(home, *VLLM, "--tool-parser-plugin", "p.py")
    old = locked(seen, edition=1)
    held = {**old.values, ("serve", "args", "tool_parser_plugin"): "p.py"}
    assert not differing(judge(Lock(values=held), seen))
    assert "serve.args.tool_parser_plugin" in differing(judge(Lock(values=held, edition=2, spec="llm.toml"), seen))
    assert "serve.args.tool_parser_plugin" in differing(
        judge(Lock(values={**held, ("serve", "args", "tool_parser_plugin"): "q.py"}), seen)
    )


LARGE: Mapping[str, tuple[str, ...]] = {
    "a projector": (*LLAMA, "--mmproj", "large.gguf"),
    "a control vector": (*LLAMA, "--control-vector", "large.gguf"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_file_that_the_command_names_is_hashed_once(
    home: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_FRESH_NS", -(10**9))
    monkeypatch.setenv("LOCKLLM_CACHE", str(home / "cache"))
    large = home / "large.gguf"
    shutil.copy(TINY / "tiny.gguf", large)
    with large.open("r+b") as file:
        file.truncate(65 << 20)

    def evidence(**options: Any) -> tuple[set[str], set[object]]:
        request = Request(
            stage=Stage.PREFLIGHT, command=LARGE[kind], environ={}, cwd=str(home), gpu="none", engine="llama.cpp",
            engine_version=VERSIONS["llama-server"], checkpoint=str(home / "tiny.gguf"), **options,
        )  # fmt: skip
        told = [each for each in observe(request).readings if "large.gguf" in each.source]
        digests = [each for each in told if "files" in each.fact.path or str(each.value).startswith("sha256:")]
        return {each.evidence for each in digests}, {str(each.value) for each in digests}

    first = evidence(cache="any")
    again = evidence(cache="any")
    assert (first[0], again[0]) == ({"computed"}, {"cached"})
    assert first[1] == again[1]
    assert evidence(cache="off") == evidence(cache="any", rehash=True) == first
    with large.open("r+b") as file:
        file.seek(64 << 20)
        file.write(b"x")
    moved = evidence(cache="any")
    assert moved[0] == {"computed"}
    assert moved[1] != first[1]
