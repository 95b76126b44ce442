"""A variable that nobody filled in is told by the place that holds it, and Kubernetes' own by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockllm.api import first_spec
from lockllm.errors import UsageError
from lockllm.observe.server.command_line import plan

VLLM = ["vllm", "serve"]
OPEN: list[tuple[list[str], str, str]] = [
    ([*VLLM, "$(MODEL_ID)"], "argument MODEL", "$(MODEL_ID)"),
    ([*VLLM, "--model", "$(MODEL_ID)"], "argument --model", "$(MODEL_ID)"),
    ([*VLLM, "m", "--tensor-parallel-size", "$(TP)"], "argument --tensor-parallel-size", "$(TP)"),
    ([*VLLM, "m", "--tokenizer", "$(TOKENIZER)"], "argument --tokenizer", "$(TOKENIZER)"),
    ([*VLLM, "m", "--served-model-name", "x", "--chat-template", "/t/$(NAME).jinja"], "argument --chat-template", "$(NAME)"),
    ([*VLLM, "m", "--enable-lora", "--lora-modules", "a=$(LORA)"], "argument --lora-modules", "$(LORA)"),
    ([*VLLM, "m", "--max-model-len", "$MAX"], "argument --max-model-len", ""),
    ([*VLLM, "${MODEL}"], "argument MODEL", ""),
    (["python", "-m", "sglang.launch_server", "--model-path", "$(MODEL)"], "argument --model-path", "$(MODEL)"),
    (["text-generation-launcher", "--model-id", "$(MODEL)"], "argument --model-id", "$(MODEL)"),
    (["lmdeploy", "serve", "api_server", "$(MODEL)"], "argument", "$(MODEL)"),
    (["trtllm-serve", "$(MODEL)"], "argument", "$(MODEL)"),
]  # fmt: skip
WHOLE: list[list[str]] = [
    [*VLLM, "org/m"], [*VLLM, "m", "--hf-overrides", '{"a": 1}'], [*VLLM, "m$"], ["llama-server", "-m", "m.gguf"],
]  # fmt: skip


@pytest.mark.parametrize("argv, place, name", OPEN)
def test_what_is_not_filled_in_is_told(argv: list[str], place: str, name: str) -> None:
    told = [each for each in plan(argv, {}, "/").warnings if "contains a variable that is not set here" in each]
    assert len(told) == 1
    assert told[0].startswith(place)
    assert ("Kubernetes alone fills in " + name in told[0]) is bool(name)


@pytest.mark.parametrize("argv", WHOLE)
def test_nothing_is_left_to_fill_in(argv: list[str]) -> None:
    assert not [each for each in plan(argv, {}, "/").warnings if "not set here" in each]


REFUSED = [
    (("sh", "-c", "vllm serve $(MODEL)"), "$(MODEL) is filled in by Kubernetes alone"),
    (("sh", "-c", "vllm serve $MODEL"), "MODEL, which is not set here: set it for this command too"),
    (("sh", "-c", "if true; then vllm serve m; fi"), "depends on `if`"),
    (("bash", "-lc", "case x in x) vllm serve m;; esac"), "`case`"),
    (("sh", "-c", "vllm", "serve", "m"), "reach no command"),
    (("bash", "start.sh"), "runs a script"),
]


@pytest.mark.parametrize("argv, why", REFUSED)
def test_init_says_why_a_text_is_not_read_and_what_to_do(tmp_path: Path, argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError) as raised:
        first_spec.of_command(argv, {}, str(tmp_path), str(tmp_path))
    assert why in raised.value.what
    assert "; give " not in raised.value.what
    assert raised.value.fix is not None
    assert raised.value.fix.startswith("give the engine's own command line")
