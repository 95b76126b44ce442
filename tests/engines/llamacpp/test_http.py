"""What llama.cpp's endpoints show, from captures of real servers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lockllm import engines
from lockllm.engines import Answer, Context, Probe
from lockllm.engines.llamacpp.http import HIDDEN, scheme
from lockllm.observe.server.command_line import plan
from tests.engines.llamacpp.material import DATA, captured, command_line, facts, unseen

LLAMA = engines.load("llama.cpp")
CAPTURES = sorted(path.parent for path in DATA.glob("captures/*/*/get-props.json"))


def props(body: Any, status: int = 200) -> list[Answer]:
    text = json.dumps(body)
    return [Answer(probe=Probe(path="/props"), status=status, headers={"server": "llama.cpp"}, text=text, json=body)]


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_capture_is_recognized_and_read(folder: Path) -> None:
    answers = captured(folder, LLAMA.probes)
    body = next(answer.json for answer in answers if answer.probe.path == "/props")
    assert LLAMA.detect(answers)
    found = facts(LLAMA.from_http(answers, Context()))
    assert found["serve.max_model_len"] == body["default_generation_settings"]["n_ctx"]
    assert found["serve.max_num_seqs"] == body["total_slots"]
    assert found["chat_template.sha256"] == hashlib.sha256(body["chat_template"].encode()).hexdigest()
    assert found["quantization.scheme"] == "Q4_1"
    assert found["checkpoint.max_position_embeddings"] == 8192
    assert unseen(LLAMA.from_http(answers, Context())) >= {"engine.version", "engine.build", *HIDDEN}


def test_single_precision_is_told_as_a_person_writes_it() -> None:
    changed = facts(
        LLAMA.from_http(captured(DATA / "captures/llama.cpp-server-b11434/B-changed", LLAMA.probes), Context())
    )
    assert (changed["sampling.temperature"], changed["sampling.top_p"], changed["sampling.min_p"]) == (0.2, 0.95, 0.05)
    assert (changed["sampling.seed"], changed["serve.seed"]) == (42, 42)
    plain = facts(
        LLAMA.from_http(captured(DATA / "captures/llama.cpp-server-b11434/A-default", LLAMA.probes), Context())
    )
    assert plain["sampling.seed"] is None
    assert "sampling.max_tokens" not in plain


@pytest.mark.parametrize(
    "folder", [each for each in CAPTURES if "llama.cpp-server" in str(each)], ids=lambda each: each.name
)
def test_endpoint_and_rules_over_the_command_line_agree(folder: Path) -> None:
    argv, env = command_line(folder)
    turns = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    template = turns + "{% if add_generation_prompt %}[assistant] {% endif %}"
    read = plan(argv, env, "/", "b11434", lambda path: files(path, template), live=True)
    shown = facts(LLAMA.from_http(captured(folder, LLAMA.probes), Context()))
    ruled = facts([*read.readings, *LLAMA.effective(read.given, context(8192))])
    both = shown.keys() & ruled.keys() - {"checkpoint.path"}
    assert len(both) > 15
    assert {key: shown[key] for key in both} == {key: ruled[key] for key in both}


def files(path: str, template: str) -> str:
    if path.endswith(".jinja"):
        return template
    raise FileNotFoundError(2, "no such file")


def context(trained: int) -> Context:
    checkpoint = {("checkpoint", "max_position_embeddings"): trained}
    return Context(version="b11434", checkpoint=checkpoint, host={("host", "platform"): "cpu"})


@pytest.mark.parametrize(
    ("info", "version", "build"),
    [
        ("b6000-1d2c3b4a", "b6000", "1d2c3b4a"),
        ("b0-unknown", None, None),
        ("b1-0c1e570", None, "0c1e570"),
        ("b6000-unknown", "b6000", None),
        ("nonsense", None, None),
        (7, None, None),
    ],
)
def test_build_info_is_a_version_only_where_the_build_kept_it(
    info: Any, version: str | None, build: str | None
) -> None:
    answers = props({"default_generation_settings": {}, "build_info": info})
    found = facts(LLAMA.from_http(answers, Context()))
    assert (found.get("engine.version"), found.get("engine.build")) == (version, build)
    missing = unseen(LLAMA.from_http(answers, Context()))
    assert ("engine.version" in missing, "engine.build" in missing) == (version is None, build is None)


@pytest.mark.parametrize(("status", "word"), [(401, "key"), (503, "loading"), (500, "500")])
def test_a_closed_or_loading_server_is_unknown_with_the_way_to_see_it(status: int, word: str) -> None:
    found = list(LLAMA.from_http(props({"error": {}}, status), Context()))
    assert {"engine.version", "serve.max_model_len", "chat_template.sha256", "sampling"} <= unseen(found)
    assert all(
        word in each.reason for each in found if each.__class__.__name__ == "Unobserved" and each.path == ("sampling",)
    )


def test_a_router_serves_no_model_itself() -> None:
    answers = props({"role": "router", "model_path": "none", "build_info": "b11434-0123456"})
    found = list(LLAMA.from_http(answers, Context()))
    assert facts(found) == {"engine.name": "llama.cpp", "engine.version": "b11434", "engine.build": "0123456"}
    assert {"serve", "sampling", "chat_template"} <= unseen(found)


def test_adapters_show_with_their_scale() -> None:
    body = [{"id": 0, "path": "/m/a.gguf", "scale": 0.5}, {"id": 1, "path": 3}, "nonsense"]
    answer = Answer(probe=Probe(path="/lora-adapters"), status=200, headers={}, text="", json=body)
    assert facts(LLAMA.from_http([answer], Context()))["adapters.a.scale"] == 0.5


@pytest.mark.parametrize(
    "body",
    [None, [], "x", 3, {}, {"default_generation_settings": []}, {"default_generation_settings": {"params": 3, "n_ctx": "x"}},
     {"chat_template": 3, "total_slots": True, "build_info": [], "model_ftype": 9}],
)  # fmt: skip
def test_a_body_of_another_shape_is_no_reading(body: Any) -> None:
    found = facts(LLAMA.from_http(props(body), Context()))
    assert set(found) <= {"engine.name"}


@pytest.mark.parametrize(
    ("shown", "name"),
    [("Q4_K - Medium", "Q4_K_M"), ("IQ3_S mix - 3.66 bpw", "IQ3_S mix"), ("Q4_1", "Q4_1"), ("all F32", None), ("F16", None),
     ("(guessed) Q8_0", "Q8_0"), ("MXFP4 MoE", "MXFP4_MOE")],
)  # fmt: skip
def test_the_shown_quantization_has_the_name_that_the_file_gives_it(shown: str, name: str | None) -> None:
    assert scheme(shown) == name
