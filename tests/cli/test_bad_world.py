"""A world that refuses: no permission, no space, no checkpoint, no server. One clear error each; what was there stays."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import lock as locks
from tests.cli.conftest import SPEC, Call, Done, observation
from tests.conftest import ENVIRON
from tests.observe.hosts import running

LOCKLLM = Path(sys.executable).parent / "lockllm"
LOCK = 'lock_version = 1\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'


def process(
    folder: Path, *arguments: str | Path, before: Sequence[str] = (), env: Mapping[str, str] | None = None, **more: Any
) -> Done:
    """The command in a process of its own, in a folder."""
    environ = {**ENVIRON, "LOCKLLM_CACHE": str(folder / ".cache")} if env is None else env
    done = subprocess.run(
        [*before, LOCKLLM, *arguments], cwd=folder, env=environ, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        **{"stdout": subprocess.PIPE, **more},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "a bug in lockllm" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout or "", done.stderr)


POWERLESS = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")
"""Root without its powers: permissions hold for it too. Nobody else needs it."""


@pytest.fixture
def powerless() -> Sequence[str]:
    if os.geteuid() != 0:
        return ()
    if not shutil.which("setpriv") or subprocess.run([*POWERLESS, "true"], check=False).returncode:
        pytest.skip("root cannot lay down its powers here")
    return POWERLESS


def test_a_document_that_may_not_be_read(folder: Path, powerless: Sequence[str]) -> None:
    (folder / "llm.lock").write_text(LOCK)
    (folder / "llm.lock").chmod(0)
    done = process(folder, "verify", before=powerless)
    assert (done.code, done.err) == (
        4, "lockllm: the file cannot be read: permission denied\n  in    llm.lock\n  fix   check its permissions\n",
    )  # fmt: skip


def test_a_folder_that_may_not_be_written(folder: Path, powerless: Sequence[str]) -> None:
    (folder / "llm.lock").write_text(LOCK)
    folder.chmod(0o555)
    try:
        done = process(folder, "lock", before=powerless)
    finally:
        folder.chmod(0o755)
    assert (done.code, done.err) == (
        4, "lockllm: the file cannot be written: permission denied\n  in    llm.lock\n"
        "  fix   check the permissions of its directory\n",
    )  # fmt: skip
    assert (folder / "llm.lock").read_text() == LOCK


@pytest.mark.parametrize(
    ("command", "name"),
    [(("lock", "-o"), "no/such/llm.lock"), (("observe", "--stage", "preflight", "-o"), "no/such/host.json"),
     (("init", "model", "-o"), "no/such/llm.toml")],
)  # fmt: skip
def test_a_folder_that_is_not_there(folder: Path, call: Call, command: tuple[str, ...], name: str) -> None:
    done = call(*command, name)
    assert (done.code, done.err.splitlines()[-3:]) == (
        4, ["lockllm: the file cannot be written: no such file or directory", f"  in    {name}", "  fix   create its directory"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "command", [("lock", "-o"), ("observe", "--stage", "preflight", "-o"), ("init", "model", "-o")]
)
def test_a_full_device(folder: Path, call: Call, command: tuple[str, ...]) -> None:
    done = call(*command, "/dev/full", *(["--force"] if command[0] == "init" else []))
    assert (done.code, done.err.splitlines()[-3:]) == (
        4, ["lockllm: the file cannot be written: no space left on device", "  in    /dev/full", "  fix   free some space"],
    )  # fmt: skip


def test_a_full_disk_keeps_the_old_lock(folder: Path) -> None:
    (folder / "disk").mkdir()
    inside = (
        "mount -t tmpfs -o size=16k none disk && cp llm.lock disk/ && (head -c 1m /dev/zero >disk/filler || true) 2>/dev/null"
        ' && "$@"; echo "code $?"; ls -A disk; cat disk/llm.lock'
    )
    (folder / "llm.lock").write_text(LOCK)
    unshare = ["unshare", "--mount", "sh", "-c", inside, "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*unshare, "true"], cwd=folder, capture_output=True, check=False).returncode
    ):
        pytest.skip("mount namespaces are not allowed here")
    done = process(folder, "lock", "-o", "disk/llm.lock", before=unshare)
    assert done.err == (
        "lockllm: the file cannot be written: no space left on device\n  in    disk/llm.lock\n  fix   free some space\n"
    )
    assert done.out == f"code 4\nfiller\nllm.lock\n{LOCK}"


@pytest.mark.parametrize("command", [("verify", "--observation", "host.json"), ("schema", "lock"), ("--help",)])
def test_output_that_cannot_be_written(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "llm.lock").write_text(LOCK)
    (folder / "host.json").write_text(observation({"engine.name": "vllm", "engine.version": "0.10.2"}))
    with open("/dev/full", "w") as full:
        done = process(folder, *command, stdout=full)
    assert (done.code, done.err) == (
        4, "lockllm: the output cannot be written: no space left on device\n  fix   free some space\n",
    )  # fmt: skip


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = process(folder, "schema", "lock", stdout=write)
    os.close(write)
    assert (done.code, done.err) == (128 + signal.SIGPIPE, "")


def test_standard_output_may_be_closed(folder: Path) -> None:
    done = process(folder, "lock", before=("sh", "-c", 'exec "$@" >&-', "sh"))
    assert (done.code, locks.read((folder / "llm.lock").read_text()).get("engine.name")) == (0, "vllm")


def test_there_may_be_no_home_and_no_environment(folder: Path) -> None:
    done = process(folder, "lock", env={})
    assert done.code == 0, done.err
    assert process(folder, "verify", "--stage", "preflight", env={}).code == 0


def test_a_home_that_may_not_be_written_is_no_trouble(folder: Path, powerless: Sequence[str]) -> None:
    home = folder / "home"
    home.mkdir(mode=0o500)
    done = process(folder, "lock", before=powerless, env={"HOME": str(home), "PATH": os.environ["PATH"]})
    assert (done.code, list(home.iterdir())) == (0, [])


def test_the_encoding_of_the_terminal_is_no_trouble(folder: Path) -> None:
    (folder / "llm.lock").write_text(LOCK + '[host]\ngpu = "ü€\\U0001F600"\n')
    environ = {**ENVIRON, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = process(folder, "verify", "--stage", "preflight", env=environ)
    assert done.code in (1, 3)
    assert process(folder, "verify", "ü.lock", env=environ).err.startswith("lockllm: no such file\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_hashes_leaves_the_old_lock_and_nothing_else(folder: Path, number: signal.Signals) -> None:
    (folder / "llm.lock").write_text(LOCK)
    weights = folder / "model" / "model.safetensors"
    with weights.open("ab") as file:
        file.truncate(64 << 30)  # holes: it takes minutes to hash, and no space
    with subprocess.Popen(
        [LOCKLLM, "lock"],
        cwd=folder,
        env={**ENVIRON, "LOCKLLM_CACHE": str(folder / ".cache")},
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        _until_it_reads(run.pid, weights)
        run.send_signal(number)
        _, err = run.communicate(timeout=30)
    assert (run.returncode, err.splitlines()[-1]) == (
        128 + number,
        "lockllm: interrupted; no file was left half written",
    )
    assert (folder / "llm.lock").read_text() == LOCK
    assert sorted(path.name for path in folder.iterdir()) in (
        [".cache", "llm.lock", "llm.toml", "model"], ["llm.lock", "llm.toml", "model"],
    )  # fmt: skip


def _until_it_reads(pid: int, path: Path) -> None:
    while True:
        for each in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(each) == str(path):
                    return
            except OSError:
                continue


def _nothing(folder: Path) -> str:
    shutil.rmtree(folder / "model")
    return "no checkpoint at model"


def _a_file(folder: Path) -> str:
    _nothing(folder)
    (folder / "model").write_text("hello")
    return "model is a file, not a checkpoint"


def _empty(folder: Path) -> str:
    _nothing(folder)
    (folder / "model").mkdir()
    return "model is empty"


@pytest.mark.parametrize("make", [_nothing, _a_file, _empty])
def test_a_checkpoint_that_is_none(folder: Path, call: Call, make: Any) -> None:
    what = make(folder)
    done = call("lock")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"lockllm: {what}\n  in    llm.toml, line 2\n  fix   name a directory or a .gguf file, relative to the spec\n"
    )
    assert not (folder / "llm.lock").exists()


def test_a_checkpoint_without_weights(folder: Path, call: Call) -> None:
    (folder / "model" / "model.safetensors").unlink()
    done = call("lock")
    assert (done.code, done.err) == (
        2, "lockllm: model is not a complete checkpoint: no weight file is there\n  in    llm.toml, line 2\n"
        "  fix   download the checkpoint again\n",
    )  # fmt: skip
    assert not (folder / "llm.lock").exists()


def test_what_a_checkpoint_says_against_itself_is_told(folder: Path, call: Call) -> None:
    config = json.loads((folder / "model" / "config.json").read_text())
    (folder / "model" / "config.json").write_text(json.dumps({**config, "dtype": "float16", "torch_dtype": "float16"}))
    done = call("lock")
    assert done.code == 0
    assert "  warning  check.dtype_declared fails: " in done.err


def test_a_checkpoint_that_lacks_a_shard(folder: Path, call: Call) -> None:
    weights = folder / "model" / "model.safetensors"
    weights.rename(folder / "model" / "model-00001-of-00002.safetensors")
    index = {
        "metadata": {},
        "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
    }
    (folder / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    done = call("lock")
    assert done.code == 2
    assert done.err.startswith("lockllm: ")
    assert "model-00002-of-00002.safetensors" in done.err
    assert not (folder / "llm.lock").exists()
    (folder / "llm.lock").write_text(LOCK)
    done = call("verify", "--stage", "preflight", "--format", "json", "--checkpoint", "model")
    failed = {each["check"]: each["detail"] for each in done.json["checks"] if each["status"] == "fail"}
    assert done.code == 1
    assert "model-00002-of-00002.safetensors" in failed["check.files_complete"]


@contextmanager
def answering(status: int, body: bytes, kind: str) -> Iterator[str]:
    """A web server that answers the same to everything."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_port_on_which_nothing_listens(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = call("verify", "--server", f"http://127.0.0.1:{port}", "--format", "json")
    assert done.code == 3
    assert {(each["status"], each["reason"], each["fix"]) for each in done.json["results"]} == {
        (
            "unknown",
            f"GET http://127.0.0.1:{port}/version: nothing listens on this address",
            "start the server, or name it with --server",
        )
    }


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(200, b"<html>It works!</html>", "text/html"), (404, b"", "text/plain"), (200, b"{\xff", "application/json"),
     (200, b"[" * 100_000, "application/json"), (500, b'{"error": "x"}', "application/json"), (200, b"null", "application/json")],
)  # fmt: skip
def test_a_web_server_that_is_no_engine_is_unknown(
    folder: Path, call: Call, status: int, body: bytes, kind: str
) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with answering(status, body, kind) as url:
        done = call("verify", "--server", url, "--format", "json")
        assert done.code in (1, 3)
        results = {each["fact"]: each for each in done.json["results"]}
        assert results["engine.name"]["status"] == "unknown"
        assert results["engine.name"]["reason"]
        assert results["engine.name"]["fix"]
        done = call("init", "--server", url)
        assert (done.code, (folder / "llm.toml").read_text()) == (2, SPEC)


def test_a_server_that_never_answers_is_unknown_within_the_timeout(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = call("verify", "--server", url, "--timeout", "0.5", "--format", "json")
    results = {each["fact"]: each["status"] for each in done.json["results"]}
    assert results["engine.name"] == "unknown"


@pytest.mark.parametrize(
    ("url", "what"),
    [("ftp://127.0.0.1", "ftp is not a supported scheme"),
     ("http://", "'http://' names no host"), ("http://127.0.0.1:99999", "http://127.0.0.1:99999 is not a URL: Port out of range 0-65535")],
)  # fmt: skip
def test_an_address_that_is_none(folder: Path, call: Call, url: str, what: str) -> None:
    (folder / "llm.lock").write_text(LOCK)
    done = call("verify", "--server", url)
    assert (done.code, done.err) == (
        2, f"lockllm: {what}\n  in    --server\n  fix   name it like http://127.0.0.1:8000\n",
    )  # fmt: skip


def test_a_pid_that_is_gone(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    done = call("verify", "--pid", str(ended.pid))
    assert (done.code, done.err) == (
        2, f"lockllm: no process {ended.pid}\n  in    --pid {ended.pid}\n"
        "  fix   find the server with `ps -ef`, or name its address with --server\n",
    )  # fmt: skip


def test_a_pid_that_is_no_server(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with subprocess.Popen(["sleep", "60"]) as other:
        done = call("verify", "--pid", str(other.pid))
        other.kill()
    assert (done.code, done.out, done.err) == (
        2, "", f"lockllm: process {other.pid} (sleep) is not a server\n  in    --pid {other.pid}\n"
        "  fix   find the server with `ps -ef`, or name its address with --server\n",
    )  # fmt: skip


def test_a_process_of_another_user(folder: Path, powerless: Sequence[str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start one")
    (folder / "llm.lock").write_text(LOCK + "\n[serve]\nseed = 0\n")
    with subprocess.Popen(["/bin/sleep", "60"], user=65534, group=65534, extra_groups=[], cwd="/") as other:
        done = process(folder, "verify", "--pid", str(other.pid), "--format", "json", before=powerless)
        other.kill()
    assert done.code in (1, 3), done.err
    reasons = {each["fact"]: each["reason"] for each in done.json["results"]}
    assert reasons["serve.seed"] == f"process {other.pid} belongs to user nobody"


def test_a_process_that_ends_while_it_is_read(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    codes = set()
    for _ in range(5):
        with subprocess.Popen(["true"]) as short:
            codes.add(call("verify", "--pid", str(short.pid)).code)
    assert codes <= {1, 2, 3}


def test_a_server_is_told_by_its_port(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK)
    with running([sys.executable, "-c", "import socket,sys; s=socket.create_server(('127.0.0.1',0)); "
                  "print(s.getsockname()[1], flush=True); sys.stdin.read()"]) as (pid, port):  # fmt: skip
        done = call("verify", "--server", f"http://127.0.0.1:{port}", "--timeout", "0.5")
    assert done.code in (1, 3)
    assert f"pid {pid}" in done.out or str(port) in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--api-key-env", "NO_SUCH_KEY"), "the variable NO_SUCH_KEY is not set\n  in    --api-key-env\n"
         "  fix   export NO_SUCH_KEY, or name another variable"),
        (("--python", "/no/such/python"), "no interpreter at /no/such/python\n  in    --python\n"
         "  fix   name the python of the serving environment"),
        (("--observation", "no.json"), "no such file\n  in    no.json\n  fix   write one with `lockllm observe -o FILE`"),
    ],
)  # fmt: skip
def test_a_source_that_is_not_there(folder: Path, call: Call, arguments: tuple[str, ...], message: str) -> None:
    (folder / "llm.lock").write_text(LOCK)
    done = call("verify", "--stage", "preflight", *arguments)
    assert (done.code, done.err) == (2, f"lockllm: {message}\n")


def test_a_checkpoint_that_is_named_and_not_there(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text(LOCK + '\n[checkpoint]\ndtype = "bfloat16"\n')
    done = call("verify", "--stage", "preflight", "--checkpoint", "nowhere")
    assert (done.code, done.out, done.err) == (
        2, "", "lockllm: no checkpoint at nowhere\n  in    --checkpoint\n"
        "  fix   name a directory, an HF cache snapshot or a .gguf file\n",
    )  # fmt: skip
