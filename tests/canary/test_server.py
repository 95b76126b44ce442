"""`lockllm canary` against llama.cpp's own server: a baseline, noise, and steps of every kind that its options make."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from examples.tiny import make
from lockllm.canary import baseline, check, report
from lockllm.canary.answers import Answer
from lockllm.canary.statistics import LEAST_RUNS, ROUNDS
from tests.canary.proxy import Rules, proxy
from tests.conftest import ENVIRON
from tests.servers import start

TEMPLATE = make.TEMPLATE
OURS = (sys.executable, "-m", "lockllm")


@dataclass(frozen=True)
class Done:
    """One run of the command line."""

    code: int
    out: str
    err: str


def ours(folder: Path, *words: str) -> Done:
    done = subprocess.run([*OURS, *words], cwd=folder, env=ENVIRON, capture_output=True, text=True, timeout=500)
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tiny GGUF and others that differ from it in one thing."""
    folder = tmp_path_factory.mktemp("models")
    base = make.weights(0)
    made = {
        "base": (base, TEMPLATE),
        "another model": (make.weights(1), TEMPLATE),
        "template": (base, TEMPLATE.replace("assistant", "helper")),
    }
    paths = {}
    for name, (tensors, template) in made.items():
        paths[name] = folder / f"{name.replace(' ', '-')}.gguf"
        make.write_gguf(paths[name], tensors, template, 1.0)
    return paths


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, llama_home: Path, models: dict[str, Path]
) -> Iterator[tuple[Path, Done, str]]:
    """A folder with a baseline of the base model, what recording printed, and the server that it was recorded from."""
    folder = tmp_path_factory.mktemp("canary")
    with start.llama_server(llama_home, "-m", str(models["base"]), "-c", "2048", "--temp", "1.0") as server:
        yield folder, ours(folder, "canary", "record", "--server", server.url), server.url


def test_a_baseline_is_small_says_what_it_saw_and_reads_again(recorded: tuple[Path, Done, str]) -> None:
    folder, done, _ = recorded
    assert done.code == 0, done.err
    assert f"wrote llm.canary: {LEAST_RUNS} runs" in done.err
    text = (folder / "llm.canary").read_bytes()
    assert len(text) < 300_000
    read = baseline.read(text, "llm.canary")
    assert len(read.runs) == LEAST_RUNS
    assert set(read.groups) == {"count", "raw", "chat", "long", "sampled"}
    assert baseline.write(read).encode() == text


def test_the_same_server_and_a_restart_are_noise(
    recorded: tuple[Path, Done, str], llama_home: Path, models: dict[str, Path]
) -> None:
    folder, _, url = recorded
    for _ in range(3):
        done = ours(folder, "canary", "check", "--server", url)
        assert done.code == 0, done.out + done.err
    assert done.out.startswith("NOISE  llm.canary against ")
    with start.llama_server(llama_home, "-m", str(models["base"]), "-c", "2048", "--temp", "1.0", "-t", "1") as other:
        done = ours(folder, "canary", "check", "--server", other.url, "--format", "json")
        assert (done.code, json.loads(done.out)["status"]) == (0, "noise"), done.out


SLOW = pytest.mark.canary

STEPS = {
    "another model": (("another model", "weights, adapter, or numerics"), ["-c", "2048", "--temp", "1.0"]),
    "template": (("template or injected text",), ["-c", "2048", "--temp", "1.0"]),
    "sampling": (("sampling defaults",), ["-c", "2048", "--temp", "0.3"]),
    "penalty": (("sampling defaults",), ["-c", "2048", "--temp", "1.0", "--repeat-penalty", "1.8"]),
    "top-k": (("sampling defaults",), ["-c", "2048", "--temp", "1.0", "--top-k", "2"]),
    "context": (("context length or RoPE",), ["-c", "1024", "--temp", "1.0"]),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW) if name in ("penalty", "top-k") else name for name in STEPS]
)
def test_a_step_is_found_in_at_most_150_requests_and_its_kind_is_named(
    recorded: tuple[Path, Done, str], llama_home: Path, models: dict[str, Path], name: str
) -> None:
    folder, _, _ = recorded
    kinds, options = STEPS[name]
    with start.llama_server(llama_home, "-m", str(models.get(name, models["base"])), *options) as server:
        done = ours(folder, "canary", "check", "--server", server.url, "--format", "json")
    told = json.loads(done.out)
    assert (done.code, told["status"]) == (1, "step"), done.out
    assert told["kinds"][0]["name"] in kinds
    assert told["requests"] <= 150


def test_a_server_that_does_not_answer_is_no_noise(recorded: tuple[Path, Done, str]) -> None:
    folder, _, _ = recorded
    done = ours(folder, "canary", "check", "--server", f"http://127.0.0.1:{start.free_port()}", "--timeout", "2")
    assert done.code == 3, done.out + done.err
    assert done.out.startswith("CANNOT TELL")
    assert "nothing listens on this address" in done.out


def test_a_server_that_is_busy_is_asked_again_after_the_time_that_it_names(recorded: tuple[Path, Done, str]) -> None:
    folder, _, url = recorded
    with proxy(url, Rules(busy_every=5)) as busy:
        done = ours(folder, "canary", "check", "--server", busy)
    assert done.code == 0, done.out + done.err


@pytest.fixture(scope="module")
def bare(recorded: tuple[Path, Done, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a baseline of the base model through a gateway that strips log probabilities."""
    folder = tmp_path_factory.mktemp("bare")
    with proxy(recorded[2], Rules(no_logprobs=True)) as gateway:
        done = ours(folder, "canary", "record", "--server", gateway)
        assert done.code == 0, done.err
        assert "no log probabilities" in done.err
        assert ours(folder, "canary", "check", "--server", gateway).code == 0
    return folder


@pytest.mark.parametrize(
    "name", ["another model", pytest.param("template", marks=SLOW), pytest.param("sampling", marks=SLOW)]
)
def test_steps_show_through_a_gateway_that_strips_log_probabilities(
    bare: Path, llama_home: Path, models: dict[str, Path], name: str
) -> None:
    with (
        start.llama_server(llama_home, "-m", str(models.get(name, models["base"])), *STEPS[name][1]) as server,
        proxy(server.url, Rules(no_logprobs=True)) as gateway,
    ):
        done = ours(bare, "canary", "check", "--server", gateway, "--format", "json")
    assert (done.code, json.loads(done.out)["status"]) == (1, "step"), done.out


def test_a_key_is_sent_and_never_written(
    recorded: tuple[Path, Done, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, url = recorded
    monkeypatch.setitem(ENVIRON, "CANARY_KEY", "sk-never-written")
    with proxy(url, Rules(key="sk-never-written")) as guarded:
        refused = ours(tmp_path, "canary", "record", "--server", guarded)
        assert refused.code == 4, refused.err
        unseen = ours(folder, "canary", "check", "--server", guarded)
        assert unseen.code == 3, unseen.out
        assert "answers 401" in unseen.out
        done = ours(folder, "canary", "check", "--server", guarded, "--api-key-env", "CANARY_KEY")
    assert done.code == 0, done.err
    assert "sk-never-written" not in done.err + done.out


@SLOW
def test_a_baseline_that_is_updated_keeps_its_history(recorded: tuple[Path, Done, str], tmp_path: Path) -> None:
    folder, _, url = recorded
    (tmp_path / "llm.canary").write_bytes((folder / "llm.canary").read_bytes())
    done = ours(tmp_path, "canary", "record", "--server", url, "--update", "--why", "a new template")
    assert done.code == 0, done.err
    (past,) = baseline.read((tmp_path / "llm.canary").read_bytes(), "x").history
    assert past.why == "a new template"


def test_an_existing_baseline_is_kept_unless_it_is_to_be_updated(
    recorded: tuple[Path, Done, str], tmp_path: Path
) -> None:
    folder, _, url = recorded
    (tmp_path / "llm.canary").write_bytes((folder / "llm.canary").read_bytes())
    refused = ours(tmp_path, "canary", "record", "--server", url)
    assert refused.code == 2
    assert "the file exists" in refused.err


def test_a_budget_that_is_too_small_is_refused_before_anything_is_asked(
    recorded: tuple[Path, Done, str], tmp_path: Path
) -> None:
    _, _, url = recorded
    done = ours(tmp_path, "canary", "record", "--server", url, "--budget", "100")
    assert done.code == 2
    assert "20 runs need" in done.err
    assert not (tmp_path / "llm.canary").exists()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"canary_version": 2, "probes_version": 1}',
        b'{"canary_version": 1, "probes_version": 9}',
        b"[" * 100_000,
    ],
    ids=["empty", "no keys", "a list", "no UTF-8", "another format", "other probes", "nested"],
)
def test_a_file_that_is_no_baseline_is_a_clear_error(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "llm.canary").write_bytes(text)
    done = ours(tmp_path, "canary", "check", "--server", "http://127.0.0.1:1")
    assert done.code == 2, done.err
    assert "llm.canary" in done.err


def test_metrics_name_effect_threshold_and_step(recorded: tuple[Path, Done, str]) -> None:
    folder, _, url = recorded
    done = ours(folder, "canary", "check", "--server", url, "--format", "prometheus")
    lines = [line for line in done.out.splitlines() if not line.startswith("#")]
    assert 'lockllm_canary_effect{probes="count"} 0' in lines
    assert "lockllm_canary_step 0" in lines


@pytest.mark.parametrize(("baselines", "most"), [(1, 2), pytest.param(20, 10, marks=SLOW)])
def test_simulated_checks_of_noise_hold_the_promised_rate(baselines: int, most: int) -> None:
    """500 checks of each baseline. Each probe of each run shows one of a few states, and now and then one that was never seen."""
    draw = random.Random(7)
    names = [f"chat.{at}" for at in range(16)]

    def run() -> dict[str, Answer]:
        load = draw.random()  # one load for all probes of a run: their noise is not independent
        return {
            name: Answer(
                first={"a": round(-1 + draw.choice((0.0, 0.03, -0.04)) + load * draw.gauss(0, 0.03), 4), "b": -2.0}
            )
            for name in names
        }

    alarms = 0
    for _ in range(baselines):
        made = baseline.build([("x", run()) for _ in range(LEAST_RUNS)], baseline.Endpoint(), made_at="")
        table = made.table()
        least = {rounds: table.threshold(names, rounds) for rounds in range(1, ROUNDS + 1)}
        for _ in range(500):
            rounds = [run()]
            while (table.effect(rounds, names) or 0.0) > least[len(rounds)] and len(rounds) < ROUNDS:
                rounds.append(run())
            judged = check.judge(table, "chat", rounds, names)
            assert judged is not None
            alarms += len(rounds) == ROUNDS and judged.moved
    assert alarms <= most


def test_the_suggested_command_names_only_facts_that_the_lock_holds() -> None:
    verdict = check.Verdict(status="step", groups=(), kinds=(check.WEIGHTS, check.SAMPLING))
    narrowed = check.locked_facts(verdict, [("engine", "version"), ("serve", "dtype")])
    assert [kind.facts for kind in narrowed.kinds] == [("serve.dtype", "engine.*"), ("engine.version",)]
    assert narrowed.kinds[1].command == "lockllm verify --only 'engine.version'"


@pytest.mark.parametrize("missing", ["one probe", "all but one", "everything"])
def test_probes_without_an_answer_make_no_noise(missing: str) -> None:
    answers = {f"chat.{at}": Answer(first={"a": -1.0, "b": -2.0}) for at in range(4)}
    made = baseline.build([("x", answers)] * LEAST_RUNS, baseline.Endpoint(), made_at="2026-12-01")
    count = {"one probe": 3, "all but one": 1, "everything": 0}[missing]
    verdict = check.check(made, lambda turn, groups: dict(list(answers.items())[:count]))
    assert (verdict.status, verdict.exit_code) == ("unknown", 3)
    assert "chat" in verdict.reason
    assert check.check(made, lambda turn, groups: answers).status == "noise"


def test_a_server_that_breaks_off_leaves_no_baseline(recorded: tuple[Path, Done, str], tmp_path: Path) -> None:
    _, _, url = recorded
    with proxy(url, Rules(breaks_after=60)) as gateway:
        done = ours(tmp_path, "canary", "record", "--server", gateway, "--timeout", "5")
    assert done.code == 4, done.err
    assert "had no answer (/v1/" in done.err
    assert not (tmp_path / "llm.canary").exists()


def test_a_baseline_that_was_thinned_out_is_refused(recorded: tuple[Path, Done, str], tmp_path: Path) -> None:
    document = json.loads((recorded[0] / "llm.canary").read_bytes())
    del document["runs"][3]["answers"]["chat.5"]
    (tmp_path / "llm.canary").write_text(json.dumps(document))
    done = ours(tmp_path, "canary", "check", "--server", "http://127.0.0.1:1")
    assert (done.code, "a run lacks answers that others have" in done.err) == (2, True)


def test_every_report_holds_the_verdict() -> None:
    made = baseline.build(
        [("x", {"count.0": Answer(prompt_tokens=3)})] * LEAST_RUNS, baseline.Endpoint(), made_at="2026-12-01"
    )
    verdict = check.check(made, lambda turn, groups: {"count.0": Answer(prompt_tokens=4)})
    assert verdict.status == "step"
    text = report.render(verdict, made, "llm.canary", "http://h", "text")
    assert "STEP" in text
    assert "template" in text
    assert msgspec.json.decode(report.render(verdict, made, "c", "s", "json"))["exit_code"] == 1
    assert "lockllm_canary_step 1" in report.render(verdict, made, "c", "s", "prometheus")
