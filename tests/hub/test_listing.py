"""What a lock from the Hub holds, and what it costs: requests are counted, and no byte of a weight file is asked for."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.hub.conftest import Desk, small, tiny_files
from tests.hub.standin import File, Hub, Repo


def many(count: int) -> dict[str, File]:
    """The tiny checkpoint among as many files as asked: shards in its index, and pictures in folders."""
    files = tiny_files()
    weight = files.pop("model.safetensors")
    shards = max(2, (count - len(files) - 1) // 2)
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    for name in names:
        claimed = hashlib.sha256(name.encode()).hexdigest()
        files[name] = File(None, lfs=True, size=weight.length, claimed=claimed)
    mapped = {f"layer.{number}": name for number, name in enumerate(names)}
    index = json.dumps({"metadata": {"total_size": 1}, "weight_map": mapped}).encode()
    files["model.safetensors.index.json"] = File(index)
    pictures = count - len(files)
    return {**files, **{f"assets/{number % 9}/picture {number}.png": File(b"png") for number in range(pictures)}}


@pytest.mark.parametrize("count, pages", [(12, 1), (200, 1), (5_000, 6)])
def test_requests_grow_with_thousands_of_files_and_small_files_alone(
    hub: Hub, desk: Desk, count: int, pages: int
) -> None:
    repo = hub.repos["org/many"] = Repo()
    files = many(count)
    commit = repo.push(files)
    desk.spec("org/many")
    assert desk.lock() == 0, desk.err
    wanted = small({name: file for name, file in files.items() if not name.startswith("assets/")})
    assert {kind: hub.kinds().count(kind) for kind in set(hub.kinds())} == {"info": 1, "tree": pages, "file": wanted}
    assert hub.weight_bytes == 0
    assert desk.held.get("checkpoint.commit") == commit
    locked = {path[2] for path in desk.held.values if path[:2] == ("checkpoint", "files")}
    assert locked == {name for name in files if not name.startswith(("assets/", ".git", "README"))}


def test_a_lock_names_the_commit_and_every_file_with_its_digest(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert f'commit = "{tiny_repo.refs["main"]}"  # via Hub: main\n' in desk.text
    for name, file in tiny_files().items():
        line = f'= {{ size = {file.length}, sha256 = "{file.sha256}" }}'
        assert (f'"{name}" {line}' in desk.text) == (name not in ("README.md", ".gitattributes"))
    assert "prompt_probes" in desk.text
    assert "token_ids" in desk.text or "tokenizers" not in desk.err


@pytest.mark.parametrize(
    "ref, revision", [("main", None), ("v1.0", "v1.0"), ("refs/pr/4", "refs/pr/4"), ("x y/ü", "x y/ü")]
)
def test_a_branch_a_tag_and_no_revision_lead_to_their_commit(
    hub: Hub, tiny_repo: Repo, desk: Desk, ref: str, revision: str | None
) -> None:
    tiny_repo.push({**tiny_files(), "merges.txt": File(ref.encode())}, ref)
    desk.spec(revision=revision)
    assert desk.lock() == 0, desk.err
    assert desk.held.get("checkpoint.commit") == tiny_repo.refs[ref]
    assert desk.held.get("checkpoint.revision") == revision


def test_a_full_commit_is_listed_at_once(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    commit = tiny_repo.refs["main"]
    desk.spec(revision=commit)
    assert desk.lock() == 0, desk.err
    assert desk.held.get("checkpoint.commit") == commit
    assert "info" not in hub.kinds()


def test_a_push_between_two_requests_mixes_nothing(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    first = tiny_repo.refs["main"]

    def push(handler: object, kind: str) -> bool:
        if kind == "tree":
            tiny_repo.push({**tiny_files(), "config.json": File(b"{}")})
        return False

    hub.fault = push
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert desk.held.get("checkpoint.commit") == first
    assert tiny_files()["config.json"].sha256 in desk.text


def test_locking_again_changes_no_byte_and_follows_no_branch(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    before = desk.text
    tiny_repo.push({**tiny_files(), "config.json": File(b'{"model_type": "llama"}')})
    assert desk.lock() == 0, desk.err
    assert desk.text == before
    hub.forget()
    assert desk.lock("--check") == 0, desk.out
    assert hub.requests == []
    assert desk.lock("--upgrade") == 0
    assert desk.held.get("checkpoint.commit") == tiny_repo.refs["main"]


def test_the_branch_is_followed_only_where_that_is_asked(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    tiny_repo.push({**tiny_files(), "generation_config.json": File(b'{"temperature": 0.1}')})
    assert desk.lock("--upgrade-fact", "checkpoint.commit") == 0
    assert desk.held.get("checkpoint.commit") == tiny_repo.refs["main"]
    assert desk.held.get("sampling.temperature") == 0.1


def test_a_dry_run_of_an_upgrade_shows_template_settings_and_weights(hub: Hub, tiny_repo: Repo, desk: Desk) -> None:
    desk.spec()
    assert desk.lock() == 0
    before = desk.text
    files = tiny_files()
    old = files["chat_template.jinja"].data or b""
    weights = files["model.safetensors"].data or b""
    files["chat_template.jinja"] = File(old.replace(b"{%", b"{#- reworded -#}{%", 1))
    files["generation_config.json"] = File(b'{"temperature": 0.7}')
    files["model.safetensors"] = File(weights[:-1] + b"\x01", lfs=True)
    tiny_repo.push(files)
    for path in (desk.folder.parent / "cache").rglob("templates/*"):
        path.unlink()  # the texts are had again, from the Hub
    assert desk.lock("--upgrade", "--dry-run") == 0, desk.err
    assert desk.text == before
    assert "reworded" in desk.out
    for word in ("checkpoint.commit", "temperature", "model.safetensors"):
        assert word in desk.out
    assert hub.weight_bytes == 0


def test_a_file_of_lfs_whose_content_says_something_is_fetched(hub: Hub, desk: Desk) -> None:
    repo = hub.repos["org/tiny"] = Repo()
    files = {**tiny_files()}
    files["chat_template.jinja"] = File(files["chat_template.jinja"].data, lfs=True)
    repo.push(files)
    desk.spec()
    assert desk.lock() == 0, desk.err
    assert desk.held.get("chat_template.source") == "chat_template.jinja"
    assert hub.kinds().count("storage") == 1


def test_a_gguf_is_locked_by_digest_and_what_its_header_says_is_not_pinned(hub: Hub, desk: Desk) -> None:
    digest = hashlib.sha256(b"gguf").hexdigest()
    repo = hub.repos["org/gguf"] = Repo()
    repo.push({"tiny-Q4_K_M.gguf": File(None, lfs=True, size=10**10, claimed=digest), "README.md": File(b"#")})
    desk.spec("org/gguf")
    (desk.folder / "llm.toml").write_text(
        (desk.folder / "llm.toml").read_text().replace('"vllm"', '"llama.cpp"').replace("0.10.2", "b6000")
    )
    assert desk.lock() == 0, desk.err
    assert digest in desk.text
    assert hub.kinds() == ["info", "tree"]
    assert "chat_template" not in desk.text.partition("[checkpoint]")[2]
    assert "chat_template" in desk.text
