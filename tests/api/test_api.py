"""lockllm as a library: its names, its arguments, its manners."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lockllm
from tests.conftest import ROOT, TINY

SPEC_FILE = "llm.toml"
PLANNED = ["vllm", "serve", "model"]
SPEC = '[checkpoint]\npath = "model"\n\n[engine]\nname = "vllm"\nversion = "0.10.2"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec, its checkpoint, and the lock of both."""
    monkeypatch.setenv("LOCKLLM_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "home"
    shutil.copytree(TINY / "model", home / "model")
    (home / "llm.toml").write_text(SPEC)
    lockllm.save(lockllm.lock(home / "llm.toml", gpu="none", offline=True), home / "llm.lock")
    return home


def verify(lock: lockllm.Lock | Path, **more: object) -> lockllm.Report:
    return lockllm.verify(lock, command=PLANNED, gpu="none", only=["checkpoint"], **more)  # type: ignore[arg-type]


def test_every_public_name_is_there_and_typed() -> None:
    tree = ast.parse((ROOT / "lockllm" / "__init__.py").read_text())
    imports = [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "")[:7] == "lockllm"
    ]
    shown = {(node.module, each.name) for node in imports for each in node.names}
    assert shown == {(f"lockllm.{home}", name) for name, home in lockllm._HOME.items()}
    assert sorted(lockllm.__all__) == sorted([*lockllm._HOME, "__version__"])
    assert all(getattr(lockllm, name).__doc__ for name in lockllm.__all__ if name != "__version__")
    assert set(lockllm.__all__) <= set(dir(lockllm))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'verfy'"):
        _ = lockllm.verfy  # type: ignore[attr-defined]


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = {*sys.modules}; import lockllm; print(sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "['lockllm']\n"


def test_the_room_of_the_same_name_never_hides_a_function() -> None:
    code = "import lockllm, lockllm.observe.request; from lockllm.observe import Request; print(lockllm.observe.__module__)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "lockllm.api\n"


def test_a_lock_finds_the_checkpoint_of_its_spec_from_anywhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lock = lockllm.load_lock(folder / "llm.lock")
    assert lock.name == str(folder / "llm.lock")
    report = lockllm.verify(lock, command=["true"], gpu="none", only=["checkpoint"], cwd=folder)
    assert (report.status, report.exit_code) == ("match", 0)
    assert lockllm.stale(folder, lock) == []


def test_paths_texts_and_records_are_taken_alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    lock = lockllm.load_lock("llm.lock")
    seen = lockllm.observe(lock, command=PLANNED, gpu="none")
    lockllm.save(seen, "host.json")
    reports = [
        lockllm.verify(one, other, only=["checkpoint"])
        for one in (lock, "llm.lock", Path("llm.lock"), [lock])
        for other in (seen, "host.json", Path("host.json"))
    ]
    assert {(each.status, len(each.results)) for each in reports} == {("match", len(reports[0].results))}
    assert lockllm.fingerprint(lock) == lockllm.fingerprint("llm.lock") == lockllm.fingerprint()
    assert lockllm.fingerprint(seen, lock=lock) == lockllm.fingerprint("host.json", lock="llm.lock")
    assert lockllm.diff("llm.lock", lock).changes == ()
    assert (
        lockllm.dump(lockllm.lock("llm.toml", old="llm.lock", gpu="none", offline=True)) == Path("llm.lock").read_text()
    )


def test_it_prints_nothing_and_leaves_the_process_as_it_was(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    before = (
        [signal.getsignal(each) for each in numbers],
        os.getcwd(),
        dict(os.environ),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )
    spec = lockllm.load_spec("llm.toml")
    lock = lockllm.lock(spec, gpu="none", offline=True)
    verify(lock)
    lockllm.diff(lock, lock)
    lockllm.inspect("model")
    lockllm.render("model")
    lockllm.explain("serve.dtype")
    after = (
        [signal.getsignal(each) for each in numbers],
        os.getcwd(),
        dict(os.environ),
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
    )
    assert before == after
    assert capfd.readouterr() == ("", "")


def test_looks_of_several_threads_do_not_mix(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread's checkpoint changes all the while; nobody else's report says so."""
    monkeypatch.chdir(folder)
    steady = lockllm.load_lock("llm.lock")
    moving = Path(shutil.copytree(folder, tmp_path / "moving"))
    over = threading.Event()

    def unrest() -> None:
        while not over.is_set():
            (moving / "model" / "chat_template.jinja").write_text("{{ messages }}")
            lockllm.verify(moving / "llm.lock", command=PLANNED, cwd=moving, gpu="none", only=["checkpoint"])

    with ThreadPoolExecutor(4) as pool:
        restless = [pool.submit(unrest) for _ in range(2)]
        try:
            reports = list(pool.map(lambda _: verify(steady), range(12)))
        finally:
            over.set()
        for each in restless:
            each.result()
    assert {(each.status, each.exit_code) for each in reports} == {("match", 0)}
    assert not [check for each in reports for check in each.checks if check.name == "check.files_stable"]


def test_progress_is_told_to_whoever_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "model" / "extra.safetensors").write_bytes(b"\0" * 2**21)
    told: list[tuple[int, int]] = []
    verify(folder / "llm.lock", progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] <= told[-1][1]


@pytest.mark.parametrize(
    ("call", "error", "where"),
    [
        (lambda lock: lockllm.verify(lock, only=["serve.dtpye"], command=PLANNED), lockllm.ArgumentError, "only"),
        (lambda lock: lockllm.verify(lock, stage="later"), lockllm.ArgumentError, "stage"),
        (lambda lock: lockllm.verify(lock, gpu="amd"), lockllm.ArgumentError, "gpu"),
        (lambda lock: lockllm.verify(lock, cache="always"), lockllm.ArgumentError, "cache"),
        (lambda lock: lockllm.verify([]), lockllm.ArgumentError, "lock"),
        (lambda lock: lockllm.verify(lock, lockllm.Observation(), pid=1), lockllm.ArgumentError, "pid"),
        (lambda lock: lockllm.lock(SPEC_FILE, pin=["kernels.*"]), lockllm.ArgumentError, "pin"),
        (lambda lock: lockllm.explain("serve.dtpye"), lockllm.ArgumentError, "fact"),
        (lambda lock: lockllm.explain("serve.dtype", engine="vlm"), lockllm.ArgumentError, "engine"),
        (lambda lock: lockllm.render("model", request={"prompt": "x"}), lockllm.UsageError, "request"),
        (lambda lock: lockllm.dump(lock, "json"), lockllm.ArgumentError, "format"),
        (lambda lock: lockllm.load_lock("missing.lock"), lockllm.LockError, "missing.lock"),
        (lambda lock: lockllm.load_spec("missing.toml"), lockllm.SpecError, "missing.toml"),
        (lambda lock: lockllm.load_observation("missing.json"), lockllm.ObservationError, "missing.json"),
        (lambda lock: lockllm.save(lock, "missing/llm.lock"), lockllm.WorldError, "missing/llm.lock"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_what_where_and_how_to_fix_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: object, error: type[lockllm.LockllmError], where: str
) -> None:
    monkeypatch.chdir(folder)
    lock = lockllm.load_lock("llm.lock")
    with pytest.raises(error) as caught:
        call(lock)  # type: ignore[operator]
    assert type(caught.value) is error
    assert caught.value.where == where
    assert caught.value.what == str(caught.value)
    assert caught.value.fix


def test_a_misspelled_source_is_a_type_error(folder: Path) -> None:
    with pytest.raises(TypeError, match="'sever' is no source of an observation"):
        lockllm.verify(folder / "llm.lock", sever="http://127.0.0.1:1")  # type: ignore[call-arg]


def test_the_options_of_verify_are_its_sources() -> None:
    """What the command line can look at, Python can: but for what Python says itself."""
    from lockllm.cli.verify import command

    options = {each.name for each in command.params}
    own = {
        *inspect.signature(lockllm.verify).parameters,
        "locks",
        "oms",
        "format_",
        "color",
        "full",
        "quiet",
        "verbose",
    }
    assert options - own - {"api_key_env", "cached"} <= set(lockllm.Sources.__annotations__)
