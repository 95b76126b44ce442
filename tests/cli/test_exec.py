"""`lockllm exec` in a process of its own: it refuses, or it becomes the command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lockllm.cli import run
from tests.cli.conftest import SPEC
from tests.conftest import ENVIRON, TINY
from tests.observe.hosts import environment

LOCKLLM = Path(sys.executable).parent / "lockllm"
SERVER = """\
import json, os, signal, sys
do = os.environ.get("DO", "")
told = {"pid": os.getpid(), "argv": sys.argv, "cwd": os.getcwd(), "do": do}
told["stdin"] = sys.stdin.read() if do == "read" else None
told["ignored"] = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
print(json.dumps(told), flush=True)
if do == "die":
    os.kill(os.getpid(), signal.SIGTERM)
if do == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(43))
    print("ready", flush=True)
    signal.pause()
sys.exit(42 if do == "fail" else 0)
"""
"""A stand-in for a server: it tells how it was started, and does as DO says."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A serving environment whose vLLM tells how it was started, a checkpoint, and a lock of both."""
    made = tmp_path_factory.mktemp("exec")
    shutil.copytree(TINY / "model", made / "model")
    venv = environment(made / "venv", {"vllm": "0.10.2", "torch": "2.8.0"})
    program = venv / "bin" / "vllm"
    for path in (program, made / "tell"):
        path.write_text(f"#!{venv}/bin/python -I\n{SERVER}")
        path.chmod(0o755)
    (made / "llm.toml").write_text(SPEC + "\n[serve]\nseed = 7\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("LOCKLLM_CACHE", str(made / "cache"))
        assert run(["lock", "--quiet", "--python", str(venv / "bin" / "python")]) == 0
    return made


def execute(
    host: Path, *arguments: str | bytes, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    environ = {**ENVIRON, "PATH": f"{host}/venv/bin:{os.environ['PATH']}", "LOCKLLM_CACHE": str(host / "cache")}
    environ.pop("LOCKLLM_GATE", None)
    done = subprocess.run(
        [LOCKLLM, "exec", *arguments], cwd=host, env={**environ, **(env or {})}, input=stdin, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "a bug in lockllm" not in done.stderr
    return done


def started(host: Path, env: Mapping[str, str], *before: str) -> subprocess.Popen[str]:
    environ = {**ENVIRON, "PATH": f"{host}/venv/bin:{os.environ['PATH']}", **env}
    return subprocess.Popen(
        [*before, LOCKLLM, "exec", *GOOD],
        cwd=host,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


PLAIN = ("--checkpoint", "model", "--python", "venv/bin/python")
"""What cannot be told from a command that is no engine's."""
_UNSEEN = ("serve.*", "sampling.*", "tokenizer.*", "engine.program")
LET = tuple(word for glob in _UNSEEN for word in ("--allow-unknown", glob))
"""What nobody can see of such a command."""
GOOD = ("--", "vllm", "serve", "model", "--seed", "7")


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[0])


def test_a_command_that_matches_is_become(host: Path) -> None:
    done = execute(host, *GOOD, env={"DO": "nothing"})
    assert done.returncode == 0, done.stderr
    assert told(done)["argv"] == [str(host / "venv" / "bin" / "vllm"), "serve", "model", "--seed", "7"]
    assert (told(done)["do"], told(done)["cwd"]) == ("nothing", str(host))
    assert done.stderr.startswith("MATCH  llm.lock against the planned command, before it runs\n")


def test_every_word_reaches_the_command_as_it_stands(host: Path) -> None:
    odd = (
        "",
        "a b",
        "q\"uo'te",
        "--",
        "--not-ours",
        "-x",
        "--lock",
        "$HOME",
        "*",
        "line\nbreak",
        "ü",
        "--help",
        "--",
        "",
    )
    done = execute(host, *PLAIN, *LET, "--", "./tell", *odd)
    assert (done.returncode, told(done)["argv"]) == (0, ["./tell", *odd])


def test_a_word_that_is_no_text_reaches_the_command(host: Path) -> None:
    done = execute(host, *PLAIN, *LET, "--", "./tell", b"\xff\xfe")
    assert told(done)["argv"][-1].encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_our_dashes_may_be_left_out(host: Path) -> None:
    assert execute(host, *GOOD[1:]).returncode == 0


def test_standard_input_is_the_commands(host: Path) -> None:
    assert told(execute(host, *GOOD, env={"DO": "read"}, stdin="for the server"))["stdin"] == "for the server"


@pytest.mark.parametrize(("do", "code"), [("fail", 42), ("die", -signal.SIGTERM)])
def test_the_exit_code_is_the_commands(host: Path, do: str, code: int) -> None:
    assert execute(host, *GOOD, env={"DO": do}).returncode == code


def test_pid_and_signals_are_the_commands(host: Path) -> None:
    with started(host, {"DO": "wait"}) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        assert (first["pid"], first["ignored"]) == (process.pid, False)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 43


def test_a_signal_that_is_ignored_stays_ignored(host: Path) -> None:
    with started(host, {"DO": "nothing"}, "sh", "-c", 'trap "" INT; exec "$@"', "sh") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ignored"] is True


def test_a_command_that_differs_is_refused_before_it_runs(host: Path) -> None:
    done = execute(host, "--", "vllm", "serve", "model", "--seed", "8")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "lockllm: refused to start: vllm does not match llm.lock"
    assert lines[1] == "MISMATCH  llm.lock against the planned command, before it runs"
    assert "1. serve.seed" in lines
    assert lines[-1].endswith("exit 1")


def test_what_cannot_be_seen_is_refused_unless_it_is_allowed(host: Path) -> None:
    text = (host / "llm.lock").read_text()
    (host / "gpu.lock").write_text(text.replace('  "gpu",\n', "").replace("[host]\n", '[host]\ngpu = "Tesla T4"\n'))
    arguments = ("--lock", "gpu.lock", "--gpu", "none")
    done = execute(host, *arguments, *GOOD)
    assert done.returncode == 3
    assert done.stderr.startswith("lockllm: refused to start: vllm cannot be seen to match gpu.lock\nUNKNOWN  ")
    assert execute(host, *arguments, "--allow-unknown", "host.*", "--allow-unknown", "serve.*", *GOOD).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "env"),
    [(("--warn-only",), {}), ((), {"LOCKLLM_GATE": "warn"}), ((), {"LOCKLLM_GATE": "off"}),
     (("--warn-only",), {"LOCKLLM_GATE": "enforce"})],
)  # fmt: skip
def test_the_glass_can_be_broken(host: Path, arguments: tuple[str, ...], env: dict[str, str]) -> None:
    done = execute(host, *arguments, "--", "vllm", "serve", "model", "--seed", "8", env=env)
    assert done.returncode == 0
    assert told(done)["argv"][-1] == "8"
    assert done.stderr.startswith("MISMATCH  ")
    assert "gate" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--lock", "nowhere.lock"), ("--lock", "llm.toml")])
def test_a_broken_glass_needs_no_lock(host: Path, arguments: tuple[str, ...]) -> None:
    closed = execute(host, *arguments, *GOOD)
    assert (closed.returncode, closed.stdout) == (2, "")
    done = execute(host, *arguments, *GOOD, env={"LOCKLLM_GATE": "off"})
    assert (done.returncode, told(done)["argv"][1]) == (0, "serve")
    assert done.stderr == closed.stderr + "lockllm: the gate is disabled: starting the server anyway\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [("LD_PRELOAD", "/x.so"), ("PYTHONPATH", "/more"), ("NCCL_ALGO", "Tree"), ("VLLM_PLUGINS", "x"), ("NVIDIA_TF32_OVERRIDE", "1"),
     ("VLLM_MODEL_REDIRECT_PATH", "/etc/redirect.txt"), ("LMCACHE_CONFIG_FILE", "/missing.yaml")],
)  # fmt: skip
def test_a_variable_that_the_lock_does_not_hold_is_refused(host: Path, name: str, value: str) -> None:
    words = ("--", "env", f"{name}={value}", "vllm", "serve", "model", "--seed", "7")
    done = execute(host, *words)
    assert done.returncode in (1, 3)
    assert name in done.stderr
    assert done.stdout == ""


def test_variables_of_the_hub_decide_nothing_for_a_folder(host: Path) -> None:
    assert execute(host, *GOOD, env={"HF_HUB_OFFLINE": "1", "HF_HOME": "/elsewhere"}).returncode == 0


def test_a_changed_file_is_refused(host: Path) -> None:
    path = host / "model" / "generation_config.json"
    held = path.read_text()
    try:
        path.write_text(held.replace("0.6", "0.7"))
        done = execute(host, *GOOD)
    finally:
        path.write_text(held)
    assert done.returncode == 1
    assert 'checkpoint.files."generation_config.json"' in done.stderr


def test_a_script_is_refused_and_named_in_the_report_where_it_is_let_through(host: Path) -> None:
    script = host / "start.sh"
    script.write_text('#!/bin/sh\nexec vllm serve model "$@"\n')
    script.chmod(0o755)
    done = execute(host, *PLAIN, "--", "./start.sh", "--seed", "8")
    assert (done.returncode, done.stdout) == (3, "")
    assert "give exec the engine's command itself" in done.stderr
    done = execute(host, *PLAIN, *LET, "--", "./start.sh", "--seed", "8")
    assert (done.returncode, told(done)["argv"][-1]) == (0, "8")
    assert "warning     the command is not read: start.sh is no program" in done.stderr
    assert "Not seen (informational)" in done.stderr


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        ("no-such-server", 2, ("lockllm: there is no program 'no-such-server'\n  in    the command after --\n"
         "  fix   name it by its whole path\n")),
        ("./llm.toml", 2, ("lockllm: './llm.toml' cannot be run: permission denied\n  in    the command after --\n"
         "  fix   make it executable, or name the program that runs it\n")),
        ("./model", 2, "lockllm: './model' is a directory\n  in    the command after --\n  fix   name the program\n"),
        ("", 2, "lockllm: there is no program ''\n  in    the command after --\n  fix   name it by its whole path\n"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told(host: Path, program: str, code: int, message: str) -> None:
    done = execute(host, "--", program)
    assert (done.returncode, done.stderr, done.stdout) == (code, message, "")


def test_a_program_that_the_system_refuses_is_told(host: Path) -> None:
    broken = host / "broken"
    broken.write_bytes(b"\x00\x01")
    broken.chmod(0o755)
    done = execute(host, "--warn-only", "--checkpoint", "model", "--", "./broken")
    assert done.returncode == 4
    assert done.stderr.endswith(
        "lockllm: the command cannot be run: exec format error\n  in    ./broken\n"
        "  fix   check that it is a program of this machine\n"
    )


def test_no_command_is_an_error(host: Path) -> None:
    done = execute(host)
    assert (done.returncode, done.stderr) == (
        2, "lockllm: missing argument '-- CMD...'\n  fix   see `lockllm exec --help`\n",
    )  # fmt: skip


def test_the_termination_log_says_why(host: Path, tmp_path: Path) -> None:
    """In a mount namespace of its own, /dev holds a termination log, as in a container."""
    log = tmp_path / "log"
    log.write_text("")
    inside = (
        f"mount -t tmpfs none {tmp_path}/dev && touch {tmp_path}/dev/null {tmp_path}/dev/urandom {tmp_path}/dev/termination-log"
        f" && for each in null urandom; do mount --bind /dev/$each {tmp_path}/dev/$each; done"
        f' && mount --bind {log} {tmp_path}/dev/termination-log && mount --rbind {tmp_path}/dev /dev && exec "$@"'
    )
    (tmp_path / "dev").mkdir()
    unshare = ["unshare", "--mount", "sh", "-c", inside, "sh"]
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not allowed here")
    command = [*unshare, LOCKLLM, "exec", "--", "vllm", "serve", "model", "--seed", "8"]
    environ = {**ENVIRON, "PATH": f"{host}/venv/bin:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=host, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert log.read_text().startswith("lockllm: refused to start: vllm does not match llm.lock\nMISMATCH  ")
    assert len(log.read_bytes()) <= 4096


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_verifies_ends_it_without_starting_anything(host: Path, number: signal.Signals) -> None:
    weights = host / "model" / "model.safetensors"
    held = weights.read_bytes()
    weights.unlink()
    try:
        with weights.open("wb") as file:
            file.write(held)
            file.truncate(64 << 30)  # holes: it takes minutes to hash, and no space
        with started(host, {}) as process:
            _until_it_reads(process.pid, weights)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
    finally:
        weights.write_bytes(held)
    assert (process.returncode, out) == (128 + number, "")
    assert err.endswith("lockllm: interrupted; no file was left half written\n")
    assert "Traceback" not in err


def _until_it_reads(pid: int, path: Path) -> None:
    while True:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(each) == str(path):
                    return
            except OSError:
                continue
