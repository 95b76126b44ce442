from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lockllm.errors import UsageError
from lockllm.facts.observation import By, Unobserved
from lockllm.facts.registry import seen
from lockllm.observe.process import proc
from lockllm.observe.python import distributions, environments, installed, interpreter, packages
from tests.observe import hosts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return hosts.environment(tmp_path / "venv", {"vllm": "0.10.2", "torch": "2.8.0+cu128", "Flash_Attn": "2.8.1"})


def versions(environment: environments.Environment | Unobserved | None) -> dict[str, str]:
    assert isinstance(environment, environments.Environment)
    return {name: one.value for name, one in environment.distributions.items()}


def test_a_running_server_is_read_as_files_and_not_asked(home: Path) -> None:
    (hosts.site(home) / "sitecustomize.py").write_text("open('/proc/self/cwd/started', 'w')")
    with hosts.running([hosts.program(home, "vllm"), "serve", "m"], cwd=home) as (pid, _):
        (home / "started").unlink(missing_ok=True)
        found = environments.of_process(proc.read(pid))
        assert not (home / "started").exists()
    assert versions(found) == {"vllm": "0.10.2", "torch": "2.8.0+cu128", "flash-attn": "2.8.1"}
    assert isinstance(found, environments.Environment)
    assert found.python == sys.version.split()[0]


@pytest.mark.parametrize("way", ["path", "module", "script", "word", "relative"])
def test_the_environment_follows_the_path_of_the_interpreter(home: Path, way: str) -> None:
    python_ = home / "bin" / "python"
    code = ["-c", hosts.STAND_IN]
    argv, env, cwd = {
        "path": ([python_, *code], {}, home),
        "module": ([python_, "-u", *code], {}, home),
        "script": ([hosts.program(home, "vllm")], {}, home),
        "word": (["python", *code], {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"}, home),
        "relative": (["bin/python", *code], {}, home),
    }[way]
    with hosts.running(argv, env, cwd) as (pid, _):
        assert "vllm" in versions(environments.of_process(proc.read(pid)))


def test_pythonpath_comes_first_and_plain_pth_paths_last(home: Path, tmp_path: Path) -> None:
    hosts.install(tmp_path / "front", "vllm", "0.11.0")
    hosts.install(tmp_path / "more", "xgrammar", "0.1.25")
    lines = f"# a comment\nimport os; os.environ['X'] = '1'\n{tmp_path / 'more'}\n../nowhere\n"
    (hosts.site(home) / "more.pth").write_text(lines)
    found = environments.of_command(
        (str(home / "bin/python"),), {"PYTHONPATH": f"front:{tmp_path}/gone"}, str(tmp_path)
    )
    assert versions(found) == {"vllm": "0.11.0", "torch": "2.8.0+cu128", "flash-attn": "2.8.1", "xgrammar": "0.1.25"}
    isolated = environments.of_command((str(home / "bin/python"), "-I"), {"PYTHONPATH": "front"}, str(tmp_path))
    assert versions(isolated)["vllm"] == "0.10.2"


def test_the_base_is_seen_only_where_the_environment_lets_it_through(tmp_path: Path) -> None:
    closed = hosts.environment(tmp_path / "closed", {})
    opened = hosts.environment(tmp_path / "opened", {}, system_site_packages=True)
    found = [
        environments.of_command((str(each / "bin/python"),), {"HOME": str(tmp_path)}, "/") for each in (closed, opened)
    ]
    assert versions(found[0]) == {}
    assert "pip" in versions(found[1])


def test_a_command_is_followed_through_its_shebang(home: Path) -> None:
    hosts.program(home, "vllm")
    found = environments.of_command(("vllm", "serve", "m"), {"PATH": str(home / "bin")}, "/")
    assert versions(found)["vllm"] == "0.10.2"
    (home / "bin" / "long").write_text(f"#!/bin/sh\n'''exec' \"{home}/bin/python\" \"$0\" \"$@\"\n' '''\n")
    (home / "bin" / "long").chmod(0o755)
    assert versions(environments.of_command(("long",), {"PATH": str(home / "bin")}, "/"))["vllm"] == "0.10.2"
    assert environments.of_command(("sh",), {"PATH": "/bin"}, "/") is None


@pytest.mark.parametrize(
    "direct, value",
    [
        ({"url": "file:///src/vllm", "dir_info": {"editable": True}}, "0.33.0 (editable)"),
        ({"url": "file:///src/vllm", "dir_info": {}}, "0.33.0 (built from a directory)"),
        (
            {"url": "https://u:p@github.com/v/v", "vcs_info": {"vcs": "git", "commit_id": "4ba787ec9" + "0" * 31}},
            "0.33.0 (git 4ba787ec9000)",
        ),
        ({"url": "https://files/vllm-0.33.0.whl", "archive_info": {}}, "0.33.0"),
        ("nonsense", "0.33.0"),
    ],
)
def test_an_install_that_is_no_release_is_told(tmp_path: Path, direct: object, value: str) -> None:
    hosts.install(tmp_path, "vllm", "0.33.0", direct)
    found, _ = distributions.scan([tmp_path])
    assert found["vllm"].value == value


def test_a_patched_build_is_no_other_label_of_its_release(tmp_path: Path) -> None:
    hosts.install(tmp_path, "vllm", "0.33.0+cu130", {"dir_info": {"editable": True}, "url": "file:///x"})
    value = distributions.scan([tmp_path])[0]["vllm"].value
    row = seen("packages.vllm", value, "", By.PACKAGE).fact
    assert row.type.compatible is not None
    assert not row.type.compatible("0.33.0", value)
    assert row.type.compatible("0.33.0", "0.33.0+cu130")


def test_edited_files_are_found_by_what_record_says(tmp_path: Path) -> None:
    hosts.install(tmp_path, "vllm", "0.33.0", files={"vllm/__init__.py": "x = 1\n", "vllm/a.py": "y = 1\n"})
    one = distributions.scan([tmp_path])[0]["vllm"]
    assert distributions.edited(one) == ()
    (tmp_path / "vllm/a.py").write_text("y = 2\n")
    assert distributions.edited(one) == ("vllm/a.py",)


def swap_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def swap_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("swap", [swap_pipe, swap_device, swap_folder], ids=lambda swap: swap.__name__)
def test_what_lies_in_a_files_place_is_an_edit_and_stops_nothing(tmp_path: Path, swap: Callable[[Path], None]) -> None:
    hosts.install(tmp_path, "vllm", "0.33.0", files={"vllm/a.py": "y = 1\n"})
    one = distributions.scan([tmp_path])[0]["vllm"]
    swap(tmp_path / "vllm/a.py")
    assert distributions.edited(one) == ("vllm/a.py",)
    swap(one.folder / "METADATA")
    assert distributions.scan([tmp_path])[0] == {}


@pytest.mark.parametrize(
    "row", ["a\0b,sha256=x,1", '"' + "x" * 200_000 + ",sha256=x,1", "\x1b[31m,sha256=x,"], ids=["nul", "long", "odd"]
)
def test_a_hostile_record_names_files_that_are_edited(tmp_path: Path, row: str) -> None:
    folder = hosts.install(tmp_path, "vllm", "0.33.0", files={"vllm/a.py": "y = 1\n"})
    (folder / "RECORD").write_text(f"{row}\n../../../../dev/zero,sha256=x,\nvllm/../../../../../dev/zero,sha256=x,\n")
    found = distributions.edited(distributions.scan([tmp_path])[0]["vllm"])
    assert found is not None
    assert len(found) == 1


def test_old_and_broken_metadata(tmp_path: Path) -> None:
    (tmp_path / "old-1.0.egg-info").mkdir()
    (tmp_path / "old-1.0.egg-info" / "PKG-INFO").write_text("Name: old\nVersion: 1.0\n")
    (tmp_path / "flat-2.0.egg-info").write_text("Name: flat\nVersion: 2.0\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "dev.egg-info").mkdir()
    (tmp_path / "source" / "dev.egg-info" / "PKG-INFO").write_text("Name: dev\nVersion: 3.0\n")
    (tmp_path / "dev.egg-link").write_text(f"{tmp_path / 'source'}\n.\n")
    (tmp_path / "empty-1.0.dist-info").mkdir()
    (tmp_path / "long-1.0.dist-info").mkdir()
    (tmp_path / "long-1.0.dist-info" / "METADATA").write_text(
        "Name: long\n" + "Classifier: x\n" * 2000 + "Version: 1.5\n"
    )
    found, problems = distributions.scan([tmp_path])
    assert {name: one.version for name, one in found.items()} == {
        "old": "1.0",
        "flat": "2.0",
        "dev": "3.0",
        "long": "1.5",
    }
    assert found["dev"].how == "editable"
    assert problems == ("empty-1.0.dist-info has no name and version",)


def test_two_versions_of_one_name_are_told(tmp_path: Path) -> None:
    hosts.install(tmp_path, "vllm", "0.10.1")
    newer = hosts.install(tmp_path, "vllm", "0.10.2")
    os.utime(newer, (2e9, 2e9))
    found, problems = distributions.scan([tmp_path])
    assert found["vllm"].version == "0.10.2"
    assert problems == ("vllm is installed twice: 0.10.1 and 0.10.2",)


@pytest.mark.parametrize(
    "text, runtime, hip",
    [
        ("from typing import Optional\n__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n",
         "13.0", None),
        ("__version__ = '2.6.0+cpu'\ncuda = None\nhip = None\n", None, None),
        ("cuda = None\nhip = '6.2.41133'\n", None, "6.2.41133"),
    ],
    ids=["cuda", "cpu", "rocm"],
)  # fmt: skip
def test_torchs_version_file_tells_its_runtime(home: Path, text: str, runtime: str | None, hip: str | None) -> None:
    (hosts.site(home) / "torch").mkdir()
    (hosts.site(home) / "torch" / "version.py").write_text(text)
    found = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert found is not None
    told = {reading.fact.key: reading for reading in packages.readings(found, None, ())[0]}
    assert told["cuda.runtime"] == seen("cuda.runtime", runtime, "torch/version.py: cuda", By.PACKAGE)
    assert told["rocm.version"] == seen("rocm.version", hip, "torch/version.py: hip", By.PACKAGE)


def test_libraries_of_cuda_come_from_their_wheels(tmp_path: Path) -> None:
    wheels = {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nccl-cu12": "2.27.3", "nvidia-cublas-cu12": "12.8.4.1",
              "nvidia-cuda-runtime-cu12": "12.8.90"}  # fmt: skip
    home = hosts.environment(tmp_path / "venv", wheels)
    found = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert found is not None
    told = {reading.fact.key: reading.value for reading in packages.readings(found, None, ())[0]}
    assert told["cuda.runtime"] == "12.8"
    assert (told["cuda.cudnn"], told["cuda.nccl"], told["cuda.cublas"]) == ("9.10.2.21", "2.27.3", "12.8.4.1")


def test_what_was_looked_for_and_is_not_there_is_absent(home: Path) -> None:
    found = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert found is not None
    readings, _, complete = packages.readings(found, None, ["xformers", "Torch"])
    told = {reading.fact.key: reading for reading in readings}
    assert told["packages.xformers"].value.name == "ABSENT"
    assert told["packages.torch"].value == "2.8.0+cu128"
    assert ("packages",) in complete


def test_an_interpreter_is_asked_once_and_its_noise_is_no_answer(home: Path) -> None:
    (hosts.site(home) / "noise.pth").write_text("import sys; print('noise lockllm-probe:{}')\n")
    assert versions(interpreter.ask(str(home / "bin/python")))["vllm"] == "0.10.2"
    assert versions(interpreter.ask(str(home)))["vllm"] == "0.10.2"


@pytest.mark.parametrize("which", ["program", "folder"])
def test_an_interpreter_that_others_can_write_is_not_run(tmp_path: Path, which: str) -> None:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch ran\n")
    program.chmod(0o755)
    (program if which == "program" else program.parent).chmod(0o777)
    gap = interpreter.ask(str(program))
    assert isinstance(gap, Unobserved)
    assert gap.reason.startswith(f"{program} is not run: everybody can write ")
    assert not Path("ran").exists()


@pytest.mark.parametrize("body, reason", [("echo hello; exit 3", "exit 3"), ("echo broken >&2; exit 1", "broken")])
def test_an_interpreter_that_gives_no_answer_is_a_gap(tmp_path: Path, body: str, reason: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    gap = interpreter.ask(str(program))
    assert isinstance(gap, Unobserved)
    assert gap.reason == f"{program} gave no answer: {reason}"


def test_a_slow_interpreter_costs_its_time_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_SECONDS", 0.1)
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 5\n")
    program.chmod(0o755)
    gap = interpreter.ask(str(program))
    assert isinstance(gap, Unobserved)
    assert gap.reason == f"{program} did not answer within 0.1 s"


def test_a_path_that_is_no_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no interpreter at "):
        interpreter.ask(str(tmp_path / "gone"))
    plain = tmp_path / "python"
    plain.write_text("")
    plain.chmod(stat.S_IRUSR)
    with pytest.raises(UsageError, match="cannot be run"):
        interpreter.ask(str(plain))


def test_a_copy_in_the_working_directory_shadows_the_installed_package(home: Path, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    (hosts.site(home) / "vllm").mkdir()
    (hosts.site(home) / "vllm" / "__init__.py").write_text("")

    def told(*args: str) -> object:
        found = environments.of_command((str(home / "bin/python"), *args), {}, str(tmp_path))
        assert found is not None
        return packages.readings(found, None, ["vllm"])[0][0].value

    assert told("-m", "vllm.entrypoints.openai.api_server").startswith("0.10.2 (shadowed by another copy")
    assert told("-P", "-m", "vllm.entrypoints.openai.api_server") == "0.10.2"
    assert told(str(home / "bin/vllm"), "serve") == "0.10.2"


def test_edited_packages_are_told_where_depth_is_asked_for(home: Path) -> None:
    hosts.install(hosts.site(home), "xgrammar", "0.1.25", files={"xgrammar/a.py": "y = 1\n"})
    (hosts.site(home) / "xgrammar/a.py").write_text("y = 2\n")
    found = environments.of_command((str(home / "bin/python"),), {}, "/")
    assert found is not None
    edits = installed.edits(found, ["xgrammar", "vllm", "gone"])
    values = [packages.readings(found, None, ["xgrammar"], each)[0][0].value for each in (None, edits)]
    assert values == ["0.1.25", "0.1.25 (edited)"]
    check = installed.unedited(found, edits)
    assert check is not None
    assert (check.status.value, check.detail) == ("fail", "differ from RECORD: xgrammar: xgrammar/a.py")
