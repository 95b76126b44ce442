"""`lockllm exec` starts what it can read whole, and refuses everything else; nothing of the environment helps around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_exec import GOOD, LOCKLLM, PLAIN, execute, host, told
from tests.conftest import ROOT
from tests.observe import hosts

__all__ = ["host"]

SERVE = "vllm serve model --seed 7"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def refused(host: Path, *words: str, env: dict[str, str] | None = None, options: tuple[str, ...] = PLAIN) -> str:
    done = execute(host, *options, "--", *words, env=env)
    assert (done.returncode, done.stdout) == (3, ""), (words, done.stderr)
    assert done.stderr.startswith("lockllm: refused to start:")
    return done.stderr


@pytest.mark.parametrize("command", [
    ("sh", "-c", SERVE), ("sh", "-c", f"exec {SERVE}"), ("bash", "-lc", SERVE), ("bash", "--rcfile", "f", "-ic", SERVE),
    ("bash", "-c", "vllm serve model {x,--enforce-eager}"), ("sh", "-c", f"{SERVE} --enforce-eager; true"),
    ("sh", "-c", f"A=$B {SERVE}"), ("sh", "-c", f"env X=1 &>/dev/null {SERVE}"), ("bash", "-n", "-c", SERVE),
    ("nice", "sh", "-c", SERVE), ("env", "A=1", "bash", "-c", SERVE), ("busybox", "sh", "-c", SERVE), ("./sh", "-c", SERVE),
    ("python3", "-c", "print(1)", "vllm", "serve", "model"), ("python3", "-Sc", "1", *SERVE.split()),
    ("python3", "-i", "-m", "vllm", "serve", "model"), ("python3", "-"), ("python3", "-S", "-m", "vllm", "serve", "model"),
])  # fmt: skip
def test_a_shell_or_code_on_the_line_is_not_read(host: Path, command: tuple[str, ...]) -> None:
    shutil.copy("/bin/sh", host / "sh")
    if shutil.which(command[0]) is None and "/" not in command[0]:
        script(host / "venv" / "bin" / command[0], "#!/bin/sh\n")
    assert "give exec the engine's command itself" in refused(host, *command)


@pytest.mark.parametrize("before", [
    ("./any.sh",), ("./any.sh", "--"), ("./entrypoint.sh",), ("./docker-entrypoint.sh",), ("./nice",), ("./env", "A=1"),
    ("./timeout", "5"), ("chroot", "/"), ("unshare", "--wd", "/"), ("setpriv", "--reset-env"), ("sudo",), ("xargs",),
    ("strace", "-o", "x"), ("uv", "run"), ("conda", "run", "-n", "x"), ("docker", "run", "image"), ("find", ".", "-exec"),
    ("lockllm", "exec", "--warn-only", "--"), ("nice", "./any.sh"), ("env", "./nice"),
])  # fmt: skip
def test_a_launcher_that_is_no_program_of_the_system_is_not_read(host: Path, before: tuple[str, ...]) -> None:
    for word in before:
        if word.startswith("./"):
            script(host / word, '#!/bin/sh\nexec "$@"\n')
    if "/" not in before[0] and shutil.which(before[0]) is None:
        script(host / "venv" / "bin" / before[0], '#!/bin/sh\nexec "$@"\n')
    refused(host, *before, *SERVE.split())


@pytest.mark.parametrize(
    "name", ["nice", "env", "nohup", "timeout", "stdbuf", "numactl", "setsid", "tini", "dumb-init"]
)
def test_a_program_with_a_wrappers_name_that_is_first_on_path_is_not_read(
    host: Path, tmp_path: Path, name: str
) -> None:
    script(tmp_path / name, '#!/bin/sh\nexec "$@"\n')
    path = f"{tmp_path}:{host}/venv/bin:{os.environ['PATH']}"
    words = ("5",) if name == "timeout" else ()
    text = refused(host, name, *words, *SERVE.split(), env={"PATH": path})
    assert "not a system program" in " ".join(text.split())


@pytest.mark.parametrize("before", [
    ("env", "--chd=/"), ("env", "--uns=A"), ("env", "-S", "A=1"), ("env", "-vS", "x"), ("env", "--argv0=x"), ("env", "-a", "x"),
    ("env", "-0"), ("env", "--split-string=A=1"), ("env", "-iS", "x"), ("nice", "--adj=5"), ("nice", "-5"), ("nice", "-n"),
    ("timeout", "--sig=TERM", "5"), ("timeout", "-q", "5"), ("timeout", "5", "--"), ("nohup", "--version"), ("stdbuf", "--out=L"),
    ("setsid", "--for"), ("ionice", "-p", "1"), ("taskset", "-p", "1"), ("prlimit", "--pid", "1"), ("prlimit", "-n"),
])  # fmt: skip
def test_an_option_that_is_not_known_is_not_read(host: Path, before: tuple[str, ...]) -> None:
    if shutil.which(before[0]) is None:
        pytest.skip(f"no {before[0]} here")
    refused(host, *before, *SERVE.split())


@pytest.mark.parametrize("before", [
    ("env",), ("env", "A=1", "B=x y"), ("env", "-u", "A"), ("env", "-uA", "--"), ("env", "-i", "PATH={path}"), ("nice",),
    ("nice", "-n", "5"), ("nice", "-n5"), ("nice", "--adjustment=5"), ("nohup",), ("timeout", "60"), ("timeout", "-k", "5", "60"),
    ("timeout", "--signal=TERM", "-v", "60"), ("stdbuf", "-oL", "-eL"), ("stdbuf", "-o", "L"), ("setsid", "-w"), ("ionice", "-c3"),
    ("taskset", "-c", "0"), ("prlimit", "--nofile=256"), ("nice", "env", "-C", "."), ("env", "nice", "timeout", "60"),
])  # fmt: skip
def test_a_program_of_the_system_is_read_as_it_reads_its_words(host: Path, before: tuple[str, ...]) -> None:
    if shutil.which(before[0]) is None:
        pytest.skip(f"no {before[0]} here")
    path = f"{host}/venv/bin:{os.environ['PATH']}"
    done = execute(host, "--", *(word.format(path=path) for word in before), *GOOD[1:])
    assert (done.returncode, told(done)["argv"][1:]) == (0, list(GOOD[2:])), done.stderr


@pytest.mark.parametrize(
    "before", [("env", "-C", "other"), ("env", "-Cother"), ("env", "--chdir=other"), ("env", "-iC", "other")]
)
def test_the_directory_that_env_changes_to_is_the_servers(host: Path, before: tuple[str, ...]) -> None:
    shutil.copytree(host / "model", host / "other" / "model", dirs_exist_ok=True)
    settings = host / "other" / "model" / "generation_config.json"
    settings.write_text(settings.read_text().replace("0.6", "0.7"))
    done = execute(host, "--", *before, f"{host}/venv/bin/vllm", *GOOD[2:])
    assert (done.returncode, done.stdout) == (1, "")
    assert 'checkpoint.files."generation_config.json"' in done.stderr


def test_a_script_of_a_shell_with_the_engines_name_is_not_read(host: Path) -> None:
    for name in ("vllm", "llama-server", "python3"):
        fake = script(host / "bad" / name, '#!/bin/sh\necho started "$@"\n')
        words = ("-m", "vllm", "serve", "model") if name == "python3" else ("serve", "model")
        refused(host, str(fake), *words)


def test_the_environment_of_the_command_counts_and_not_one_that_is_named(host: Path, tmp_path: Path) -> None:
    from tests.observe.hosts import environment

    other = environment(tmp_path / "venv", {"vllm": "0.9.0", "torch": "2.8.0"})
    program = script(other / "bin" / "vllm", f"#!{other}/bin/python\nprint('started')\n")
    done = execute(host, "--python", "venv", "--", str(program), *GOOD[2:])
    assert (done.returncode, done.stdout) == (1, "")
    assert "engine.version" in done.stderr


@pytest.mark.parametrize("model", [("OTHER",), ("./OTHER",), ("/nowhere",), ("org/other",), ()])
def test_the_model_of_the_command_counts_and_not_one_that_is_named(host: Path, model: tuple[str, ...]) -> None:
    shutil.copytree(host / "model", host / "OTHER", dirs_exist_ok=True)
    settings = host / "OTHER" / "generation_config.json"
    settings.write_text(settings.read_text().replace("0.6", "0.7"))
    for options in (("--checkpoint", "model"), ()):
        done = execute(host, *options, "--", "vllm", "serve", *model, "--seed", "7")
        assert done.returncode in (1, 3)
        assert done.stdout == ""
    done = execute(host, "--checkpoint", "model", *GOOD)
    assert done.returncode == 0


def test_a_report_that_nobody_can_read_ends_with_4_and_starts_nothing(host: Path) -> None:
    with open("/dev/full", "w") as full:
        environ = {**os.environ, "PATH": f"{host}/venv/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            [LOCKLLM, "exec", *GOOD], cwd=host, env=environ, stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert (done.returncode, done.stdout) == (4, b"")


DIFFERS = ("--", "vllm", "serve", "model", "--seed", "8")
PASS = "import sys, atexit, os\natexit.register(lambda: os._exit(0))\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sitecustomize.py", PASS),
        ("usercustomize.py", PASS),
        ("sitecustomize.py", PASS + "os.environ.pop('PYTHONPATH')\n"),
        ("click/__init__.py", "match = (\n"),
        ("click.py", PASS),
        ("msgspec.py", "raise ImportError('another Python')\n"),
        ("json.py", PASS),
        ("tomllib/__init__.py", PASS),
    ],
)
def test_code_on_pythonpath_changes_no_verdict(host: Path, tmp_path: Path, name: str, text: str) -> None:
    script(tmp_path / name, text)
    for path in (str(tmp_path), f"{tmp_path}:{ROOT}"):  # also where PYTHONPATH names lockllm's own folder
        assert execute(host, *DIFFERS, env={"PYTHONPATH": path}).returncode == 1
    done = execute(host, *DIFFERS, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "serve.seed" in done.stderr


@pytest.fixture(scope="module")
def open_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that imports lockllm, and reads the user's site folder as the system's own does."""
    home = hosts.environment(tmp_path_factory.mktemp("open") / "venv", {}, system_site_packages=True)
    packages = [ROOT, *(path for path in map(Path, sys.path) if path.name == "site-packages")]
    (hosts.site(home) / "here.pth").write_text("".join(f"{path}\n" for path in packages))
    return home / "bin" / "python"


USER_CODE = {
    "usercustomize": {"usercustomize.py": PASS},
    "a line of code": {"a.pth": f"import sys; exec({PASS!r})\n"},
    "a module behind a line": {"a.pth": "import hook\n", "hook.py": PASS},
    "a package of lockllm": {"click.py": PASS},
    "a path": {"a.pth": "more\n", "more/msgspec.py": PASS},
}


@pytest.mark.parametrize("kind", USER_CODE)
def test_code_in_the_users_site_folder_changes_no_verdict(
    host: Path, tmp_path: Path, open_python: Path, kind: str
) -> None:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name, text in USER_CODE[kind].items():
        script(tmp_path / ".local/lib" / version / "site-packages" / name, text)
    environ = {"PATH": f"{host}/venv/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = [str(open_python), "-m", "lockllm", "exec", *DIFFERS]
    done = subprocess.run(command, cwd=host, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "serve.seed" in done.stderr


@pytest.mark.parametrize("name", ["STARTUP", "BREAKPOINT", "PATH", "HOME", "USERBASE", "INSPECT", "WARNINGS"])
def test_a_variable_that_brings_code_starts_lockllm_isolated(name: str, tmp_path: Path) -> None:
    code = (
        "import os, sys; os.execve = lambda *words: sys.exit(words[1][1]); from lockllm.__main__ import main; "
        "sys.argv = ['lockllm', '--version']; main()"
    )
    value = sys.base_prefix if name == "HOME" else str(tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    start = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}; {code}"
    done = subprocess.run(
        [sys.executable, "-c", start],
        env={**clean, f"PYTHON{name}": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip().endswith("-I"), done.stderr


@pytest.mark.parametrize(
    "words", [[str(LOCKLLM)], [sys.executable, "-I", "-m", "lockllm"], [sys.executable, "-m", "lockllm"]]
)
def test_code_in_the_working_directory_changes_no_verdict(host: Path, tmp_path: Path, words: list[str]) -> None:
    script(tmp_path / "click.py", PASS)
    script(tmp_path / "msgspec.py", PASS)
    environ = {**os.environ, "PATH": f"{host}/venv/bin:{os.environ['PATH']}"}
    command = [
        *words,
        "exec",
        "--lock",
        str(host / "llm.lock"),
        "--",
        "vllm",
        "serve",
        str(host / "model"),
        "--seed",
        "8",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr


def test_the_command_gets_the_environment_as_it_was(host: Path, tmp_path: Path) -> None:
    show = script(tmp_path / "show", f"#!{host}/venv/bin/python -I\nimport os; print(os.environ['PYTHONPATH'])\n")
    done = execute(host, "--warn-only", "--", str(show), env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"{tmp_path}\n", done.stderr


def test_without_such_variables_nothing_is_started_twice(host: Path) -> None:
    code = "import os, sys; os.execve = None; sys.argv = ['lockllm', '--version']; from lockllm.__main__ import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for more in ({}, {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}):
        assert (
            subprocess.run([sys.executable, "-c", code], env={**clean, **more}, cwd=host, check=False).returncode == 0
        )


@pytest.mark.parametrize("value", ["bash_source", "zsh_complete", "fish_source", "anything"])
def test_completion_needs_a_line_without_a_command(host: Path, value: str) -> None:
    done = execute(host, *DIFFERS, env={"_LOCKLLM_COMPLETE": value})
    assert (done.returncode, done.stdout) == (1, "")


def test_a_package_of_another_python_in_the_way_ends_with_4(tmp_path: Path) -> None:
    """Where it lies in front and no variable brought it: a path that the interpreter itself adds."""
    script(tmp_path / "click.py", "match = (\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from lockllm.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("lockllm: a package it needs cannot be imported: SyntaxError")
    assert "Traceback" not in done.stderr


OWN = "#!{python}\nimport sys\nfrom vllm.entrypoints.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.mark.parametrize(
    "text",
    [
        "#!{python} -I\nprint('started')\n",
        OWN,
        OWN.replace("vllm.entrypoints", "evil.entrypoints"),
        OWN + "import evil\n",
        OWN.replace("import sys\n", "import sys; sys.path.insert(0, 'evil')\n"),
    ],
)
def test_another_script_with_the_engines_name_is_a_mismatch(host: Path, tmp_path: Path, text: str) -> None:
    program = script(tmp_path / "vllm", text.format(python=f"{host}/venv/bin/python"))
    for words in ((str(program), *GOOD[2:]), GOOD[1:]):
        done = execute(host, "--", *words, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "engine.program" in done.stderr


@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "/nowhere"}])
@pytest.mark.parametrize(
    "words", [(str(LOCKLLM),), (sys.executable, "-m", "lockllm"), (sys.executable, "-I", "-m", "lockllm")]
)
def test_a_working_directory_that_is_gone_is_told(tmp_path: Path, words: tuple[str, ...], env: dict[str, str]) -> None:
    command = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *words, "exec", "--", "vllm", "serve", "model"]
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        command, cwd=tmp_path / "gone", env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 4)
    assert done.stderr.startswith("lockllm: ")
