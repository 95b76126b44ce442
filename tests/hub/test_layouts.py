"""The same commit from the Hub, its client's cache, a local_dir and a plain copy; and what is locked while nobody may ask the Hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download

from lockllm.cli import run
from tests.hub.conftest import Desk, tiny_files
from tests.hub.standin import File, Hub, Repo

CODE = b"class Model: ...\n"


@pytest.fixture
def rich_repo(hub: Hub) -> Repo:
    """A repository with folders, code, several templates and a tokenizer kept by LFS."""
    files = tiny_files()
    files |= {
        "tokenizer.json": File(files["tokenizer.json"].data, lfs=True),
        "additional_chat_templates/tool_use.jinja": File(b"{{ messages }}"),
        "modeling_tiny.py": File(CODE),
        "onnx/model.onnx": File(b"onnx", lfs=True),
        "empty.txt": File(b""),
    }
    repo = hub.repos["org/tiny"] = Repo()
    repo.push(files)
    return repo


def digests(desk: Desk) -> dict[tuple[str, ...], object]:
    """What a lock holds of the files."""
    groups = ("checkpoint", "tokenizer", "chat_template", "prompt_probes", "quantization")
    asked = {("checkpoint", name) for name in ("repo", "revision", "commit", "tensor_dtypes")}
    return {path: value for path, value in desk.held.values.items() if path[0] in groups and path not in asked}


def downloaded(hub: Hub, **more: str) -> Path:
    """A download by the Hub's own client."""
    return Path(snapshot_download("org/tiny", endpoint=hub.url, token=False, **more))


def test_every_place_of_one_commit_gives_the_same_digests(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path
) -> None:
    desk.spec()
    assert desk.lock() == 0, desk.err
    expected = digests(desk)
    assert ("checkpoint", "content_sha256") in expected
    assert hub.weight_bytes == 0

    cache = str(tmp_path / "hf" / "hub")
    snapshot = downloaded(hub, cache_dir=cache)
    hub.forget()
    (desk.folder / "llm.lock").unlink()
    assert desk.lock() == 0, desk.err
    assert digests(desk) == expected
    assert hub.kinds() in (["info"], ["info", "tree"])  # before 1.x the client kept no listing
    assert "1 file that was not read is claimed by the cache" in desk.err
    (desk.folder / "llm.lock").unlink()
    assert desk.lock("--offline") == 0, desk.err
    assert digests(desk) == expected
    assert set(hub.kinds()) <= {"info", "tree"}

    downloaded(hub, local_dir=str(tmp_path / "local"))
    shutil.copytree(snapshot, tmp_path / "plain", symlinks=False)
    for name in ("local", "plain"):
        desk.spec(checkpoint=f'path = "{tmp_path / name}"\n')
        (desk.folder / "llm.lock").unlink()
        assert desk.lock() == 0, desk.err
        assert digests(desk) == expected, name


def test_a_branch_that_moved_is_not_taken_from_the_cache(hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path) -> None:
    downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"))
    old = rich_repo.refs["main"]
    rich_repo.push({**tiny_files(), "config.json": File(b'{"model_type": "llama", "torch_dtype": "float16"}')})
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert desk.held.get("checkpoint.commit") == rich_repo.refs["main"] != old


def test_a_hub_that_is_down_is_not_answered_for_by_the_cache(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    desk.spec()
    assert desk.lock() == 4
    assert "takes no connection" in desk.err
    for word in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(word, "1")
        assert desk.lock() == 0, desk.err
        monkeypatch.delenv(word)
    assert "# via cache ref: main" in desk.text


def test_a_partial_download_is_completed_from_the_hubs_listing(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path
) -> None:
    desk.spec()
    assert desk.lock() == 0
    expected = digests(desk)
    (desk.folder / "llm.lock").unlink()
    downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"), allow_patterns="*.json")  # type: ignore[arg-type]
    assert desk.lock() == 0, desk.err
    assert digests(desk) == expected


def test_offline_a_partial_download_is_no_checkpoint(hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path) -> None:
    downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"), allow_patterns="*.json")  # type: ignore[arg-type]
    desk.spec()
    assert desk.lock("--offline") == 4
    assert ("lockllm: org/tiny cannot be locked offline: " in desk.err) or (
        "lockllm: the snapshot of org/tiny in the cache is not whole: " in desk.err
    )


def test_a_small_file_of_the_cache_that_holds_other_bytes_is_not_locked(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path
) -> None:
    snapshot = downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"))
    blob = (snapshot / "config.json").resolve()
    blob.write_bytes(blob.read_bytes().replace(b"2048", b"4096"))
    desk.spec()
    assert desk.lock() == 4
    assert "the snapshot of org/tiny in the cache is not whole: config.json is " in desk.err


def test_offline_a_commit_that_is_locked_stays_locked(hub: Hub, rich_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    before = desk.text
    hub.forget()
    assert desk.lock("--offline") == 0, desk.err
    assert "the checkpoint is kept as locked" in desk.err
    assert desk.text == before
    assert hub.requests == []
    assert desk.lock("--offline", "--upgrade") == 4


def test_a_locked_commit_outlives_a_hub_that_is_down(
    hub: Hub, rich_repo: Repo, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.spec()
    assert desk.lock() == 0
    before = desk.text
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert desk.lock() == 0, desk.err
    assert "the checkpoint is kept as locked: 127.0.0.1:1 takes no connection" in desk.err
    assert desk.text == before


def test_a_commit_that_was_squashed_away_is_said(hub: Hub, rich_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    rich_repo.commits.clear()
    rich_repo.push(tiny_files())
    assert desk.lock() == 0
    assert "its history was squashed" in desk.err


def test_a_cache_that_kept_names_for_digests_is_believed_and_says_so(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path
) -> None:
    snapshot = downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"))
    blob = (snapshot / "model.safetensors").resolve()
    held = bytearray(blob.read_bytes())
    held[-1] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(held)
    desk.spec()
    assert desk.lock("--offline") == 0, desk.err
    assert tiny_files()["model.safetensors"].sha256 in desk.text
    assert "claimed by the cache: `lockllm verify` computes it" in desk.err


def test_code_of_another_repository_is_locked_by_its_commit(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    code = hub.repos["other/code"] = Repo()
    first = code.push({"modeling.py": File(CODE)})
    config = b'{"model_type": "x", "auto_map": {"AutoModelForCausalLM": "other/code--modeling.Model"}}'
    tiny_repo.push({**tiny_files(), "config.json": File(config)})
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert f'code_commit = "{first}"  # via Hub: main' in desk.text
    code.push({"modeling.py": File(CODE + CODE)})
    assert desk.lock("--check") == 0, desk.out
    before = desk.text
    assert desk.lock() == 0, desk.err
    assert desk.text == before
    assert desk.lock("--upgrade-fact", "checkpoint.code_commit") == 0
    assert desk.held.get("checkpoint.code_commit") == code.refs["main"]


def test_a_tokenizer_of_another_repository_is_locked_by_its_commit(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    other = hub.repos["other/tokenizer"] = Repo()
    first = other.push({name: file for name, file in tiny_files().items() if "token" in name})
    desk.spec(more='[tokenizer]\nrepo = "other/tokenizer"\n')
    assert desk.lock() == 0, desk.err
    assert f'commit = "{first}"  # via Hub: main' in desk.text
    assert desk.held.get("tokenizer.content_sha256") is not None
    before = desk.text
    other.push({"tokenizer.json": File(b"{}"), "tokenizer_config.json": File(b"{}")})
    assert desk.lock() == 0, desk.err
    assert desk.text == before
    assert desk.lock("--upgrade") == 0, desk.err
    assert desk.held.get("tokenizer.commit") == other.refs["main"]


def test_the_same_repository_is_asked_once_for_all_variants(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec(more="[variant.two.serve]\ntensor_parallel_size = 2\n")
    assert desk.lock() == 0, desk.err
    assert (hub.kinds().count("info"), hub.kinds().count("tree")) == (1, 1)
    assert len(hub.kinds()) == len({each.path for each in hub.requests})


def test_drafts_and_adapters_of_other_repositories_are_locked_with_their_files(
    hub: Hub, tiny_repo: Repo, desk: Desk
) -> None:
    draft, adapter = Repo(), Repo()
    hub.repos |= {"other/draft": draft, "other/lora": adapter}
    draft.push(tiny_files())
    weights = File(None, lfs=True, size=77, claimed="c" * 64)
    adapter.push({"adapter_config.json": File(b'{"peft_type": "LORA", "r": 8}'), "adapter_model.safetensors": weights})
    desk.spec(more='[draft]\nrepo = "other/draft"\n[adapters.sql]\nrepo = "other/lora"\n')
    assert desk.lock() == 0, desk.err
    held = desk.held
    assert held.values[("draft", "commit")] == draft.refs["main"]
    assert held.values[("adapters", "sql", "commit")] == adapter.refs["main"]
    assert held.values[("draft", "content_sha256")] == held.values[("checkpoint", "content_sha256")]
    assert held.values[("adapters", "sql", "files", "adapter_model.safetensors")] == "c" * 64
    assert f'sql.commit = "{adapter.refs["main"]}"  # via Hub: main' in desk.text
    assert hub.weight_bytes == 0
    assert desk.lock("--check") == 0, desk.out
    before = desk.text
    draft.push({**tiny_files(), "config.json": File(b"{}")})
    assert desk.lock() == 0, desk.err
    assert desk.text == before


def test_a_revision_of_the_code_is_taken_where_the_command_pins_it(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    code = hub.repos["other/code"] = Repo()
    first = code.push({"modeling.py": File(CODE)}, "stable")
    code.push({"modeling.py": File(CODE + CODE)})
    config = b'{"model_type": "x", "auto_map": {"AutoModelForCausalLM": "other/code--modeling.Model"}}'
    tiny_repo.push({**tiny_files(), "config.json": File(config)})
    for revision in ("stable", first):
        desk.spec(more=f'[serve.args]\ncode_revision = "{revision}"\n')
        (desk.folder / "llm.lock").unlink(missing_ok=True)
        assert desk.lock() == 0, desk.err
        assert desk.held.get("checkpoint.code_commit") == first


def test_a_lock_of_the_hub_verifies_on_the_host_that_downloaded_it(
    hub: Hub, rich_repo: Repo, desk: Desk, tmp_path: Path
) -> None:
    desk.spec()
    assert desk.lock() == 0, desk.err
    snapshot = downloaded(hub, cache_dir=str(tmp_path / "hf" / "hub"))
    assert run(["verify", "--stage", "preflight"]) == 0
    blob = (snapshot / "model.safetensors").resolve()
    held = bytearray(blob.read_bytes())
    held[-1] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(held)
    assert run(["verify", "--stage", "preflight", "--rehash"]) == 1


@pytest.mark.parametrize(
    ("load_format", "kept", "left"),
    [("mistral", "consolidated.safetensors", "model.safetensors"), (None, "model.safetensors", None)],
)
def test_the_load_format_chooses_the_files_of_a_repository(
    load_format: str | None, kept: str, left: str | None, hub: Hub, tiny_repo: Repo, desk: Desk
) -> None:
    weights = File(None, lfs=True, size=77, claimed="c" * 64)
    code = File(b"x = 1\n")
    tiny_repo.push({**tiny_files(), "consolidated.safetensors": weights, "optimizer_model.py": code, "eval/m.py": code})
    desk.spec(more=f'[serve]\nload_format = "{load_format}"\n' if load_format else "")
    assert desk.lock() == 0, desk.err
    names = {path[2] for path in desk.held.values if path[:2] == ("checkpoint", "files")}
    assert {kept, "optimizer_model.py", "eval/m.py"} <= names
    assert left not in names
