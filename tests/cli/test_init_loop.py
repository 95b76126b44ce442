"""`init -- CMD`, then `lock`: the lock accepts that very command, and nothing that the command names is lost on the way."""

from __future__ import annotations

import itertools
import random
import re
import shlex
import shutil
from pathlib import Path

import pytest

from lockllm.documents import lock as locks
from lockllm.facts.fact import Stage
from lockllm.judge.report import Report
from lockllm.judge.verify import verify
from lockllm.observe import Request, observe
from tests.cli.conftest import Call
from tests.conftest import TINY

VERSIONS = {"vllm": "0.32.0", "sglang": "0.5.23", "llama.cpp": "b11434", "tensorrt-llm": "1.2.0", "lmdeploy": "0.18.0",
            "tgi": "3.3.7", "transformers": "5.24.0", "llama-cpp-python": "0.3.36"}  # fmt: skip
COMMANDS = {
    "vllm": ("vllm", "serve", "model"),
    "sglang": ("python3", "-m", "sglang.launch_server", "--model-path", "model"),
    "llama.cpp": ("llama-server", "-m", "tiny.gguf"),
    "tensorrt-llm": ("trtllm-serve", "model"),
    "lmdeploy": ("lmdeploy", "serve", "api_server", "model"),
    "tgi": ("text-generation-launcher", "--model-id", "model"),
    "transformers": ("transformers", "serve", "model"),
    "llama-cpp-python": ("python3", "-m", "llama_cpp.server", "--model", "tiny.gguf"),
}
OPTIONS = {
    "vllm": [
        ("--chat-template", "t.jinja"), ("--tool-parser-plugin", "p.py"), ("--reasoning-parser-plugin", "p.py"),
        ("--tokenizer", "tk"), ("--generation-config", "gen"), ("--hf-config-path", "tk"), ("--hf-config-path", "org/x"),
        ("--enable-lora", "--lora-modules", "a=lora"), ("--speculative-config", '{"model": "draft", "num_speculative_tokens": 3}'),
        ("--chat-template-content-format", "openai"), ("--default-chat-template-kwargs", '{"enable_thinking": false}'),
        ("--max-model-len", "256"), ("--enforce-eager",), ("--seed", "7"), ("--dtype", "float32"), ("--port", "8001"),
        ("--kv-transfer-config", '{"kv_connector": "X", "kv_connector_extra_config": {"tuning": "./c.json"}}'),
        ("--override-generation-config", '{"temperature": 0.5}'), ("--hf-overrides", '{"rope_theta": 5.0}'),
        ("--config", "c.yaml"), ("--max-num-seqs", "8"),
    ],
    "sglang": [
        ("--chat-template", "t.jinja"), ("--grammar-backend", "xgrammar"), ("--quantization-param-path", "c.json"),
        ("--deepep-config", "c.json"), ("--init-expert-location", "trivial"), ("--lora-paths", "a=lora"),
        ("--speculative-draft-model-path", "draft", "--speculative-algorithm", "EAGLE3"), ("--tokenizer-path", "tk"),
        ("--context-length", "256"), ("--disable-radix-cache",), ("--random-seed", "3"), ("--lmcache-config-file", "c.json"),
        ("--mem-fraction-static", "0.5"), ("--sampling-defaults", "openai"), ("--reasoning-parser", "qwen3"),
    ],
    "llama.cpp": [
        ("--mmproj", "p.gguf"), ("-md", "draft.gguf"), ("--grammar-file", "g.gbnf"), ("--json-schema-file", "c.json"),
        ("--lora", "lora.gguf"), ("--control-vector", "p.gguf"), ("--control-vector-scaled", "p.gguf:0.5"),
        ("--chat-template-file", "t.jinja"), ("-c", "512"), ("--temp", "0.3"), ("-ngl", "0"), ("-fa", "off"), ("--seed", "4"),
        ("--chat-template-kwargs", '{"enable_thinking": false}'), ("-ctk", "q8_0", "-ctv", "q8_0"), ("-np", "2"),
        ("--lookup-cache-static", "p.gguf"), ("--samplers", "top_k;temperature"), ("--jinja",),
    ],
    "tensorrt-llm": [
        ("--chat_template", "t.jinja"), ("--tokenizer", "tk"), ("--tp_size", "2"), ("--max_batch_size", "8"),
        ("--config", "trt.yaml"), ("--custom_module_dirs", "gen"), ("--kv_cache_free_gpu_memory_fraction", "0.5"),
    ],
    "lmdeploy": [
        ("--generation-config", "gen"), ("--session-len", "256"), ("--adapters", "a=lora"), ("--eager-mode",), ("--tp", "2"),
        ("--chat-template", "conversation.json"), ("--speculative-draft-model", "draft"), ("--dtype", "float16"),
    ],
    "tgi": [
        ("--tokenizer-config-path", "tokenizer.json"), ("--max-total-tokens", "256"), ("--lora-adapters", "a=./lora"),
        ("--dtype", "float16"), ("--num-shard", "2"), ("--cuda-graphs", "0"),
    ],
    "transformers": [
        ("--decision-config", "c.json"), ("--dtype", "float32"), ("--chat-template-kwargs", '{"enable_thinking": false}'),
        ("--attn-implementation", "eager"), ("--default-seed", "5"),
    ],
    "llama-cpp-python": [
        ("--clip_model_path", "p.gguf"), ("--lora_path", "lora.gguf"), ("--n_ctx", "256"), ("--draft_model", "draft.gguf"),
        ("--hf_tokenizer_config_path", "c.json"), ("--n_batch", "64"),
    ],
}  # fmt: skip
"""Option words of each engine: files, folders and plain values."""
JUDGED = ("serve.*", "sampling.*", "chat_template.*", "tokenizer.*", "draft.*", "adapters.*", "env.*", "checkpoint.*")


@pytest.fixture
def home(tmp_path: Path, call: Call) -> Path:
    """Every file and folder that the options name."""
    for name in ("model", "tk", "draft"):
        shutil.copytree(TINY / "model", tmp_path / name)
    for name in ("tiny.gguf", "draft.gguf", "lora.gguf", "p.gguf"):
        shutil.copy(TINY / "tiny.gguf", tmp_path / name)
    (tmp_path / "lora").mkdir()
    (tmp_path / "lora" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8, "lora_alpha": 16}')
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen" / "generation_config.json").write_text('{"temperature": 0.6, "top_p": 0.9}')
    for name, text in (
        ("t.jinja", "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}\n"), ("p.py", "X = 1\n"),
        ("c.json", "{}"), ("conversation.json", '{"model_name": "x"}'), ("tokenizer.json", '{"chat_template": "{{ messages }}"}'),
        ("g.gbnf", 'root ::= "a"'), ("c.yaml", "max-num-batched-tokens: 512\n"), ("trt.yaml", "kv_cache_config: {dtype: fp8}\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


def judged(home: Path, engine: str, argv: tuple[str, ...]) -> Report:
    """The verdict of the lock on the planned command."""
    lock = locks.read((home / "llm.lock").read_text(), "llm.lock")
    request = Request(
        stage=Stage.PREFLIGHT, command=argv, environ={}, cwd=str(home), gpu="none", engine=engine,
        engine_version=VERSIONS[engine], cache="off",
    )  # fmt: skip
    return verify(lock, observe(request.of_lock(lock)), only=JUDGED)


def chosen() -> list[tuple[str, tuple[str, ...]]]:
    """Every option of an engine, a few at a time, then some of many together."""
    draw = random.Random(12)
    cases = []
    for engine, options in OPTIONS.items():
        groups = [options[at : at + 3] for at in range(0, len(options), 3)]
        groups += [draw.sample(options, k=min(len(options), 7)) for _ in range(2)]
        for group in groups:
            named = {words[0]: words for words in group}
            cases.append((engine, tuple(itertools.chain.from_iterable(named.values()))))
    return cases


@pytest.mark.parametrize(
    "engine, words", chosen(), ids=lambda value: value if isinstance(value, str) else "_".join(value)[:50]
)
def test_a_lock_of_a_command_accepts_that_command(call: Call, home: Path, engine: str, words: tuple[str, ...]) -> None:
    argv = (*COMMANDS[engine], *words)
    made = call("init", "--", *argv)
    assert made.code == 0, made.err
    spec = home / "llm.toml"
    text = re.sub(r"(?m)^#? ?version = .*$", f'version = "{VERSIONS[engine]}"', spec.read_text())
    spec.write_text(text)
    locked = call("lock", "--offline", "--gpu", "none")
    assert locked.code == 0, text + locked.err
    report = judged(home, engine, argv)
    differing = {
        each.fact.key: (each.expected, each.found, each.source)
        for each in report.results
        if each.status.value == "mismatch"
    }
    assert differing == {}, text
    assert call("lock", "--check").code == 0
    if any((home / word).exists() and word != "tk" for word in words):  # without what is given, it differs
        assert judged(home, engine, COMMANDS[engine]).exit_code != 0, text
    if engine in ("vllm", "sglang", "llama.cpp"):  # what `command` prints realizes the lock
        printed = call("command")
        assert printed.code == 0
        lines = [line for line in printed.out.splitlines() if not line.startswith("# ")]
        written = tuple(shlex.split("\n".join(lines)))
        report = judged(home, engine, written)
        assert {
            each.fact.key: (each.expected, each.found) for each in report.results if each.status.value == "mismatch"
        } == {}, printed.out
