"""An engine that another distribution brings: locked, verified and inspected by the command line like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "site"
TINY = Path(__file__).parent.parent.parent / "examples" / "tiny" / "model"
RUN = """
import json, sys
sys.path[:0] = sys.argv[2].split(":")
from lockllm.cli import run
code = run(sys.argv[3:])
open(sys.argv[1], "w").write(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""
SERVER = "import sys; print('ready', flush=True); sys.stdin.read()"


class Host:
    """A folder with a model, and lockllm started in it with plugins on its path."""

    def __init__(self, folder: Path, *sites: Path) -> None:
        self.folder = folder
        self.sites = [str(each) for each in (*sites, SITE)]
        self.modules: set[str] = set()
        (folder / "model").symlink_to(TINY)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        told = self.folder / "modules.json"
        environ = {**os.environ, "LOCKLLM_CACHE": str(self.folder / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", RUN, told, ":".join(self.sites), *arguments],
            cwd=self.folder, env=environ, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        self.modules = set(json.loads(told.read_text())) if told.exists() else set()
        return done


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def locked(host: Host) -> Host:
    done = host.run("init", "--", "acme-serve", "model", "--max-len", "512", "--speed", "slow")
    assert done.returncode == 0, done.stderr
    done = host.run("lock")
    assert done.returncode == 0, done.stderr
    return host


def serving(host: Host, *options: str) -> Iterator[int]:
    """A process that was started as that engine is."""
    program = host.folder / "acme-serve"
    program.write_text(f"#!{sys.executable}\n{SERVER}\n")
    program.chmod(0o755)
    environ = {**os.environ, "PYTHONPATH": str(SITE)}
    with subprocess.Popen(
        [program, "model", *options], cwd=host.folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        yield server.pid
        server.communicate()


def test_init_writes_a_spec_from_its_command(host: Host) -> None:
    done = host.run("init", "--", "acme-serve", "model", "--max-len", "512")
    assert done.returncode == 0, done.stderr
    text = (host.folder / "llm.toml").read_text()
    assert 'name = "acme"\n' in text
    assert "max_model_len = 512\n" in text


def test_inspect_reads_its_command_and_refuses_what_it_refuses(host: Host) -> None:
    done = host.run(
        "inspect", "--format", "json", "--", "env", "A=1", "acme-serve", "model", "--max-len", "512", "--no"
    )
    told = json.loads(done.stdout)
    assert told["facts"]["engine.name"] == "acme"
    assert told["facts"]["serve.max_model_len"] == 512
    found = {each["check"]: each["status"] for each in told["checks"]}
    assert found["check.flags_accepted"] == "fail"


def test_init_reads_its_command_in_the_text_of_a_shell(host: Host) -> None:
    done = host.run("init", "--", "bash", "-c", "set -e; export A=1; exec acme-serve model --max-len 512 2>&1")
    assert done.returncode == 0, done.stderr
    assert "max_model_len = 512\n" in (host.folder / "llm.toml").read_text()


def test_lock_holds_its_release_settings_and_template(locked: Host) -> None:
    text = (locked.folder / "llm.lock").read_text()
    for line in (
        'name = "acme"',
        'version = "1.2"',
        "max_model_len = 512",
        'args.speed = "slow"',
        'acme-engine = "1.2"',
    ):
        assert line in text
    assert "[chat_template]" in text
    assert locked.run("lock", "--check").returncode == 0


@pytest.mark.parametrize(
    ("options", "code", "differs"),
    [
        (("--max-len", "512", "--speed", "slow"), 0, ""),
        (("--max-len=512", "--speed=slow"), 0, ""),
        (("--max-len", "513", "--speed", "slow"), 1, "serve.max_model_len"),
        (("--speed", "slow"), 1, "serve.max_model_len"),
        (("--max-len", "512"), 1, "serve.args.speed"),
    ],
)
def test_verify_holds_a_running_server_against_the_lock(
    locked: Host, options: tuple[str, ...], code: int, differs: str
) -> None:
    for pid in serving(locked, *options):
        done = locked.run("verify", "--pid", str(pid), "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == code, done.stdout
    assert {each["fact"] for each in report["results"] if each["status"] == "mismatch"} == (
        {differs} if differs else set()
    )


def test_an_option_typed_with_its_default_is_no_difference(host: Host) -> None:
    host.run("init", "--", "acme-serve", "model", "--max-len", "512")
    assert host.run("lock").returncode == 0
    for pid in serving(host, "--max-len", "512", "--speed", "fast"):
        done = host.run("verify", "--pid", str(pid))
    assert done.returncode == 0, done.stdout


def test_explain_and_the_schema_name_it_and_a_misspelling_is_told(locked: Host) -> None:
    assert "--max-len" in locked.run("explain", "serve.max_model_len", "--engine", "acme").stdout
    schema = json.loads(locked.run("schema", "spec").stdout)
    assert "acme" in schema["properties"]["engine"]["properties"]["name"]["enum"]
    spec = locked.folder / "llm.toml"
    spec.write_text(spec.read_text().replace('"acme"', '"acne"'))
    done = locked.run("lock")
    assert (done.returncode, "did you mean acme?" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["inspect", "model"],
        ["inspect", "--", "env", "A=1", "vllm", "serve", "model"],
        ["explain", "host"],
    ],
)
def test_no_plugin_is_looked_for_where_none_is_asked_for(host: Host, arguments: list[str]) -> None:
    assert host.run(*arguments).returncode == 0
    assert "lockllm.engines.plugins" not in host.modules
    assert "acme_lockllm" not in host.modules


BROKEN = {
    "import": ("raise RuntimeError('no driver')\n", "cannot be loaded: RuntimeError: no driver"),
    "syntax": ("IDENTITY = (\n", "cannot be loaded: SyntaxError"),
    "absent": ("", "cannot be loaded: AttributeError"),
    "kind": ("IDENTITY = 'odd'\n", "is str and not an Identity"),
    "name": (
        "from lockllm.engines.protocol import Identity\nIDENTITY = Identity(name='other', label='', module='odd')\n",
        "is the identity of 'other'",
    ),
    "translator": (
        "from lockllm.engines.protocol import Identity\nIDENTITY = Identity(name='odd', label='', module='odd_nowhere')\n",
        "cannot be loaded: ModuleNotFoundError",
    ),
    "methods": (
        "from lockllm.engines.protocol import Identity\nIDENTITY = Identity(name='odd', label='', module='odd_lockllm')\n",
        "lacks name, packages",
    ),
    "behavior": (
        """
        from acme_lockllm.engine import *
        from lockllm.engines.protocol import Identity, Shape
        IDENTITY = Identity(name='odd', label='', module='odd_lockllm', programs={'odd': (Shape(),)}, starts=('odd',))
        def effective(given, context):
            yield None.fact
        """,
        "fails in effective: AttributeError",
    ),
}


def broken(folder: Path, text: str, name: str = "odd-lockllm") -> Path:
    """A distribution whose entry point `odd` leads to that module."""
    site = folder / name
    info = site / f"{name.replace('-', '_')}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[lockllm.engines]\nodd = odd_lockllm:IDENTITY\n")
    (site / "odd_lockllm.py").write_text(textwrap.dedent(text))
    return site


SPEC = '[checkpoint]\npath = "model"\n\n[engine]\nname = "odd"\nversion = "1.0"\n'


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_a_clear_error_and_never_a_lock(tmp_path: Path, kind: str) -> None:
    text, reason = BROKEN[kind]
    host = Host(tmp_path, broken(tmp_path, text))
    (tmp_path / "llm.toml").write_text(SPEC)
    done = host.run("lock")
    assert done.returncode == 4
    assert "lockllm: the plugin of the engine odd" in done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "llm.lock").exists()


@pytest.mark.parametrize("kind", ["import", "kind", "translator", "methods"])
def test_a_lock_of_a_broken_plugin_never_matches(locked: Host, kind: str) -> None:
    lock = locked.folder / "llm.lock"
    lock.write_text(lock.read_text().replace('name = "acme"', 'name = "odd"'))
    locked.sites.insert(0, str(broken(locked.folder, BROKEN[kind][0])))
    assert locked.run("verify", "--stage", "preflight").returncode == 4


def test_a_broken_plugin_recognises_nothing_and_harms_no_other(tmp_path: Path) -> None:
    host = Host(tmp_path, broken(tmp_path, BROKEN["import"][0]))
    done = host.run("inspect", "--", "odd-serve", "model")
    assert "the plugin of the engine odd cannot be loaded: RuntimeError: no driver" in done.stdout + done.stderr
    assert host.run("inspect", "--", "acme-serve", "model").returncode == 0
    assert host.run("init", "--", "acme-serve", "model").returncode == 0


def test_two_distributions_of_one_engine_are_told_apart(tmp_path: Path) -> None:
    text = BROKEN["behavior"][0]
    host = Host(tmp_path, broken(tmp_path, text), broken(tmp_path, text, "other-lockllm"))
    (tmp_path / "llm.toml").write_text(SPEC)
    done = host.run("lock")
    assert done.returncode == 4
    assert "several distributions bring the engine odd: odd-lockllm 0.1, other-lockllm 0.1" in done.stderr


def test_a_plugin_replaces_no_engine_of_lockllm(tmp_path: Path) -> None:
    site = broken(tmp_path, BROKEN["import"][0])
    points = next(site.glob("*.dist-info")) / "entry_points.txt"
    points.write_text("[lockllm.engines]\nvllm = odd_lockllm:IDENTITY\n")
    host = Host(tmp_path, site)
    assert host.run("inspect", "--", "vllm", "serve", "model").returncode == 0
    assert host.run("inspect", "--", "nobody-serve", "model").stderr.count("odd_lockllm") == 0
