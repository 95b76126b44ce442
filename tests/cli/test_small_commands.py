"""`init`, `observe`, `command`, `explain`, `fingerprint`, `schema` and the group itself."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest

from lockllm import __version__, engines
from lockllm.cli import COMMANDS
from lockllm.documents import lock as locks
from lockllm.documents import spec as specs
from lockllm.facts import check, registry
from lockllm.output import schema
from tests.cli.conftest import SPEC, Call, observation

H100 = "NVIDIA H100 80GB HBM3"


def test_init_from_a_checkpoint_locks(folder: Path, call: Call) -> None:
    (folder / "llm.toml").unlink()
    done = call("init", "model", "--engine", "vllm")
    assert (done.code, done.err) == (0, "wrote llm.toml; next: lockllm lock\n")
    spec = specs.read((folder / "llm.toml").read_text())
    assert (spec.path, spec.engine) == ("model", "vllm")
    (folder / "llm.toml").write_text(
        (folder / "llm.toml").read_text().replace('name = "vllm"', 'name = "vllm"\nversion = "0.10.2"')
    )
    assert call("lock").code == 0


def test_init_without_an_engine_says_what_is_missing(folder: Path, call: Call) -> None:
    done = call("init", "model", "-o", "x.toml")
    assert (done.code, done.err) == (0, "wrote x.toml; fill in the engine, then run `lockllm lock`\n")


def test_init_from_a_command_line_keeps_what_it_gives(folder: Path, call: Call) -> None:
    command = (
        "vllm",
        "serve",
        "model",
        "--dtype",
        "float16",
        "--tensor-parallel-size",
        "2",
        "--port",
        "8000",
        "--api-key",
        "s3cret",
    )
    done = call("init", "-o", "-", "--", *command)
    assert (done.code, done.err) == (0, "")
    spec = specs.read(done.out)
    assert (spec.path, spec.engine) == ("model", "vllm")
    assert {".".join(path): value for path, value in spec.values.items()} == {
        "serve.dtype": "float16", "serve.tensor_parallel_size": 2,
    }  # fmt: skip
    assert "s3cret" not in done.out


def test_init_never_overwrites(folder: Path, call: Call) -> None:
    done = call("init", "model")
    assert (done.code, (folder / "llm.toml").read_text()) == (2, SPEC)
    assert done.err == (
        "lockllm: the file exists already\n  in    llm.toml\n"
        "  fix   merge into it with --update, overwrite it with --force, or name another with -o\n"
    )
    assert call("init", "model", "--force").code == 0
    assert (folder / "llm.toml").read_text() != SPEC


@pytest.mark.parametrize(
    "arguments", [(), ("model", "--pid", "1"), ("model", "--", "vllm"), ("--server", "x", "--", "vllm")]
)
def test_init_looks_at_one_thing(folder: Path, call: Call, arguments: tuple[str, ...]) -> None:
    done = call("init", "-o", "x.toml", *arguments)
    assert (done.code, done.err) == (
        2, "lockllm: init needs one of PATH, a command after --, and --server\n  in    the command line\n"
        "  fix   lockllm init PATH, lockllm init -- CMD, or lockllm init --server URL\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("nowhere",),
            "no checkpoint at nowhere: no such file or directory\n  in    nowhere\n  fix   name a directory,"
            " an HF cache snapshot or a .gguf file",
        ),
        (("--",), "there is no command after --\n  in    the command line\n  fix   lockllm init -- vllm serve MODEL"),
        (("--engine", "vlm", "model"), "there is no engine 'vlm'\n  in    --engine\n  fix   did you mean vllm?"),
    ],
)
def test_init_tells_what_it_cannot_look_at(folder: Path, call: Call, arguments: tuple[str, ...], message: str) -> None:
    done = call("init", "-o", "x.toml", *arguments)
    assert (done.code, done.err) == (2, f"lockllm: {message}\n")
    assert not (folder / "x.toml").exists()


def test_observe_writes_what_verify_reads(folder: Path, call: Call) -> None:
    call("lock")
    done = call("observe", "--stage", "preflight", "-o", "host.json")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("wrote host.json: ")
    assert call("verify", "--observation", "host.json").code == 0
    again = call("observe", "--stage", "preflight")
    one, other = json.loads((folder / "host.json").read_text()), again.json
    assert {**one, "observed_at": ""} == {**other, "observed_at": ""}


def test_an_observation_can_be_narrowed(folder: Path, call: Call) -> None:
    call("lock")
    chosen = call("observe", "--stage", "preflight", "--only", "checkpoint.*", "--skip", "checkpoint.files").json
    assert {key.partition(".")[0] for key in chosen["facts"]} == {"checkpoint"}
    assert not any(key.startswith("checkpoint.files") for key in chosen["facts"])
    done = call("observe", "--stage", "preflight", "--only", "checkpoitn")
    assert (done.code, done.err) == (
        2, "lockllm: 'checkpoitn' matches no observed fact\n  in    --only\n  fix   did you mean checkpoint?\n",
    )  # fmt: skip


def test_the_command_of_a_lock_starts_what_is_locked(folder: Path, call: Call) -> None:
    spec = SPEC + f'[serve]\ntensor_parallel_size = 2\nseed = 7\n[host]\ngpu = "{H100}"\n'
    (folder / "llm.toml").write_text(spec)
    call("lock")
    shell = call("command")
    assert shell.code == 0
    words = " ".join(shell.out.replace("\\\n", " ").split())
    assert "vllm serve model" in words
    assert "--tensor-parallel-size 2" in words
    assert "--seed 7" in words
    assert "--dtype" not in words
    assert call("command", "--as", "docker").out.startswith("docker run ")
    manifest = call("command", "--as", "kubernetes").out
    assert "kind: Deployment" in manifest
    assert '- "lockllm"\n' in manifest


def test_a_command_for_an_engine_that_is_not_known_is_refused(tmp_path: Path, call: Call) -> None:
    (tmp_path / "llm.lock").write_text('lock_version = 1\n[engine]\nname = "zukunft"\n')
    done = call("command")
    assert done.code == 2
    assert done.err == (
        f"lockllm: this lockllm does not know the engine 'zukunft'\n  in    llm.lock\n"
        f"  fix   lock one of {', '.join(engines.available())}\n"
    )


@pytest.mark.parametrize("row", [*registry.ROWS, *(each.row for each in registry.FAMILIES)], ids=lambda row: row.key)
def test_every_fact_is_explained(row: object, call: Call) -> None:
    key = row.key if row in registry.ROWS else f"{row.key}.name"  # type: ignore[attr-defined]
    done = call("explain", key)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{key}\n")
    assert "  effect" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("row", check.CHECKS, ids=lambda row: row.name)
def test_every_check_is_explained(row: check.CheckRow, call: Call) -> None:
    done = call("explain", row.name)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{row.name}\n")
    assert call("explain", row.name.removeprefix("check.")).out == done.out


@pytest.mark.parametrize("group", [*registry.GROUP, "check"])
def test_every_group_is_explained(group: str, call: Call) -> None:
    done = call("explain", group)
    assert (done.code, done.err, done.out.splitlines()[0]) == (0, "", group)


@pytest.mark.parametrize("engine", engines.available())
def test_explaining_can_be_narrowed_to_an_engine(engine: str, call: Call) -> None:
    done = call("explain", "serve.dtype", "--engine", engine)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("serve.dtpye", "there is no fact serve.dtpye\n  in    the command line\n  fix   did you mean serve.dtype?"),
        (
            "check.bos_twice",
            "there is no check check.bos_twice\n  in    the command line\n  fix   did you mean check.bos_once?",
        ),
        ("a..b", "'a..b' is not a key\n  in    the command line\n  fix   write one such as serve.dtype"),
        ("zukunft", "there is no fact zukunft\n  in    the command line\n  fix   see `lockllm explain checkpoint`"),
    ],
)
def test_explaining_what_is_none_is_an_error(key: str, message: str, call: Call) -> None:
    done = call("explain", key)
    assert (done.code, done.out, done.err) == (2, "", f"lockllm: {message}\n")


LOCK = f"""\
lock_version = 1

[checkpoint]
content_sha256 = "{"1" * 64}"

[chat_template]
sha256 = "{"2" * 64}"

[engine]
name = "vllm"
version = "0.10.2"

[serve]
dtype = "bfloat16"

[sampling]
temperature = 0
"""
SEEN = {
    "checkpoint.content_sha256": "1" * 64, "chat_template.sha256": "2" * 64, "engine.name": "vllm", "engine.version": "0.10.2",
    "serve.dtype": "torch.bfloat16", "sampling.temperature": 0.0,
}  # fmt: skip


def fingerprint(call: Call, *arguments: str) -> list[str]:
    done = call("fingerprint", *arguments)
    assert (done.code, done.err) == (0, "")
    return done.out.strip().split("-")


def test_a_lock_and_a_host_like_it_have_one_fingerprint(tmp_path: Path, call: Call) -> None:
    (tmp_path / "llm.lock").write_text(LOCK)
    (tmp_path / "host.json").write_text(observation(SEEN))
    (tmp_path / "seen").write_text(observation({**SEEN, "host.python": "3.12"}))
    parts = fingerprint(call)
    assert [part[0] for part in parts] == ["1", "w", "t", "e", "n", "s"]
    assert all(len(part) == 9 for part in parts[1:])
    assert fingerprint(call, "host.json") == fingerprint(call, "seen", "--lock", "llm.lock") == parts
    report = call("verify", "--observation", "host.json", "--format", "json").json
    assert report["fingerprint"] == {"locked": "-".join(parts), "observed": "-".join(parts)}


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [("checkpoint.content_sha256", "9" * 64, "w"), ("chat_template.sha256", "9" * 64, "t"), ("engine.version", "0.11.0", "e"),
     ("serve.dtype", "float16", "n"), ("sampling.temperature", 0.7, "s")],
)  # fmt: skip
def test_a_fingerprint_shows_which_part_moved(tmp_path: Path, call: Call, key: str, value: object, part: str) -> None:
    (tmp_path / "llm.lock").write_text(LOCK)
    (tmp_path / "host.json").write_text(observation({**SEEN, key: value}))
    pairs = zip(fingerprint(call), fingerprint(call, "host.json", "--lock", "llm.lock"), strict=True)
    assert [one[0] for one, other in pairs if one != other] == [part]


def test_a_part_with_an_unknown_is_a_question_mark(tmp_path: Path, call: Call) -> None:
    (tmp_path / "llm.lock").write_text(LOCK)
    unseen = {key: value for key, value in SEEN.items() if key != "chat_template.sha256"}
    (tmp_path / "host.json").write_text(observation(unseen))
    assert fingerprint(call, "host.json", "--lock", "llm.lock")[2] == "t?"
    (tmp_path / "host.json").write_text(observation(unseen, unobserved={"chat_template": {"reason": "not asked"}}))
    assert fingerprint(call, "host.json")[2] == "t?"


@pytest.mark.parametrize("name", schema.NAMES)
def test_a_schema_is_one(name: str, call: Call) -> None:
    done = call("schema", name)
    assert (done.code, done.err) == (0, "")
    jsonschema.Draft202012Validator.check_schema(done.json)


def test_the_version_is_told(call: Call) -> None:
    assert call("--version").out == call("-V").out == f"lockllm {__version__}\n"


def test_help_tells_every_command_as_it_tells_itself(call: Call) -> None:
    out = " ".join(call("--help").out.split())
    for name, words in COMMANDS.items():
        assert f"{name} {words}" in out
        assert import_module(f"lockllm.cli.{name}").command.short_help == words
        done = call(name, "--help")
        assert (done.code, done.err) == (0, "")
        assert call(name, "-h").out == done.out


def test_a_command_that_is_none_is_told_with_the_nearest(call: Call) -> None:
    done = call("verfy")
    assert (done.code, done.err) == (
        2, "lockllm: no command 'verfy'; did you mean `lockllm verify`?\n  fix   see `lockllm --help`\n",
    )  # fmt: skip


def test_no_command_prints_the_help(call: Call) -> None:
    done = call()
    assert (done.code, done.out, done.err) == (0, call("--help").out, "")


def test_what_every_command_prints_as_json_is_what_its_schema_says(folder: Path, call: Call) -> None:
    def valid(name: str, document: object) -> None:
        jsonschema.Draft202012Validator(schema.of(name)).validate(document)

    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    spec = (
        SPEC
        + '[host]\ndriver = ">=550"\n[policy]\n"host.gpu_product" = "exact"\n[[waive]]\nfact = "host.gpu_product"\nfound = "x"\n'
    )
    spec += 'reason = "y"\nuntil = 2999-01-01\n[variant.big.serve]\nmax_num_seqs = 512\n'
    (folder / "llm.toml").write_text(spec)
    for change in call("lock", "--dry-run", "--format", "json").out.split("\n}\n")[:-1]:
        valid("diff", json.loads(change + "\n}"))
    call("lock", "--blake3")
    valid("spec", json.loads(json.dumps(tomllib.loads(spec), default=str)))
    valid("lock", json.loads(json.dumps(tomllib.loads((folder / "llm.lock").read_text()), default=str)))
    call("observe", "--stage", "preflight", "-o", "host.json")
    valid("observation", json.loads((folder / "host.json").read_text()))
    for arguments in ((), ("--quick",), ("--only", "host"), ("--stage", "live")):
        valid("report", call("verify", "--observation", "host.json", "--format", "json", *arguments).json)
    valid("diff", call("diff", "llm.lock", "llm.big.lock", "--format", "json").json)
    valid("diff", call("diff", "/dev/null", "llm.lock", "--format", "json").json)
    valid("inspect", call("inspect", "model", "--format", "json").json)
    valid("inspect", call("inspect", "--format", "json", "--", "vllm", "serve", "model", "--seed", "7").json)
    assert locks.read((folder / "llm.lock").read_text()).get('checkpoint.blake3."config.json"')


def test_a_container_gets_the_files_the_port_and_an_image_without_a_gpu(folder: Path, call: Call) -> None:
    (folder / "t.jinja").write_text("{{ messages }}")
    shutil.copytree(folder / "model", folder / "small" / "model")
    extra = '[draft]\npath = "small/model"\n[serve]\nchat_template = "t.jinja"\n'
    (folder / "llm.toml").write_text(SPEC + extra)
    assert call("lock", "--offline", "--gpu", "none").code == 0
    text = (folder / "llm.lock").read_text()
    if "platform = " not in text:
        (folder / "llm.lock").write_text(text.replace("[serve]", '[host]\nplatform = "cpu"\n\n[serve]', 1))
    docker = call("command", "--as", "docker").out
    for words in (
        "-p 8000:8000", f"-v {folder}/model:/models/model:ro", f"-v {folder}/t.jinja:/models/t.jinja:ro",
        f"-v {folder}/small/model:/models/2-model:ro", "vllm-cpu-release-repo:v0.10.2", "--chat-template /models/t.jinja",
    ):  # fmt: skip
        assert words in docker, docker
    assert "/models/2-model" in docker.partition("--speculative-config")[2]
    assert "--gpus" not in docker
    manifest = call("command", "--as", "kubernetes").out
    assert "containerPort: 8000" in manifest
    assert f'hostPath: {{path: "{folder}/model"}}' in manifest
    assert 'mountPath: "/models/2-model"' in manifest


def test_a_command_says_which_files_only_the_lock_knows(folder: Path, call: Call) -> None:
    digest = "a" * 64
    text = SPEC + f'[serve]\nchat_template = "{digest}"\nargs.tool_parser_plugin = "sha256:{digest}"\n'
    (folder / "llm.toml").write_text(text)
    assert call("lock", "--offline", "--gpu", "none").code == 0
    printed = call("command").out
    assert f"# pass --chat-template FILE, where the text of FILE has the sha256 {digest}\n" in printed
    assert f"# serve.args.tool_parser_plugin: name the file whose content is sha256:{digest}\n" in printed
    assert "tool-parser-plugin" not in printed.rpartition("# ")[2].partition("\n")[2]
