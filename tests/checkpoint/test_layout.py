"""What lies at a path: the same checkpoint in every layout, and everything that can be wrong with one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lockllm.checkpoint import Look, hub, links, look
from lockllm.errors import UsageError
from tests.checkpoint.layouts import COMMIT, cache, local_dir

OTHER = "1111111111111111111111111111111111111111"
MB = 2**20


def value(found: Look, key: str) -> object:
    """The value of a fact, None where it was not read."""
    return next((reading.value for reading in found.readings if reading.fact.key == key), None)


def failed(found: Look) -> dict[str, str]:
    """Findings that fail: name -> detail."""
    return {check.name.removeprefix("check."): check.detail for check in found.checks if check.status.value == "fail"}


def passed(found: Look) -> set[str]:
    """Findings that pass."""
    return {check.name.removeprefix("check.") for check in found.checks if check.status.value == "pass"}


def digests(found: Look) -> dict[str, tuple[int, str | None]]:
    """Path -> size and digest of the locked files."""
    return {file.path: (file.size, file.sha256) for file in found.files}


@pytest.mark.parametrize("layout", ["plain", "cache", "shared", "copied", "local_dir", "mounted", "repo", "git"])
def test_every_layout_of_one_commit_gives_the_same_digests(tmp_path: Path, tiny: Path, layout: str) -> None:
    plain = look(str(tiny))
    source = Path(shutil.copytree(tiny, tmp_path / "source"))
    path = {
        "plain": lambda: source,
        "cache": lambda: cache(tmp_path / "hub", source),
        "shared": lambda: cache(tmp_path / "hub", source, shared=True),
        "copied": lambda: cache(tmp_path / "hub", source, copied=True),
        "local_dir": lambda: local_dir(tmp_path / "local", source),
        "mounted": lambda: Path(shutil.copytree(cache(tmp_path / "hub", source), tmp_path / "mount" / "model")),
        "repo": lambda: cache(tmp_path / "hub", source).parent.parent,
        "git": lambda: clone(source),
    }[layout]()
    found = look(str(path))
    assert digests(found) == digests(plain)
    assert found.content_sha256 == plain.content_sha256
    assert failed(found) == {}
    known = {"cache", "shared", "copied", "repo"}
    assert value(found, "checkpoint.repo") == ("org/tiny" if layout in known else None)
    assert value(found, "checkpoint.commit") == (COMMIT if layout in {*known, "local_dir", "git"} else None)
    assert value(found, "checkpoint.revision") == ("main" if layout == "repo" else None)


def clone(folder: Path) -> Path:
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    return folder


def test_the_digest_over_all_files_is_what_a_shell_computes(tiny: Path) -> None:
    command = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | LC_ALL=C sort | sha256sum"
    shell = subprocess.run(["bash", "-c", command], cwd=tiny, capture_output=True, text=True, check=True)
    assert look(str(tiny)).content_sha256 == shell.stdout.split()[0]


def test_a_quick_look_reads_claims_of_links_and_no_weights(tmp_path: Path, tiny: Path) -> None:
    snapshot = cache(tmp_path / "hub", tiny, shared=True)
    found = look(str(snapshot), hashing="quick")
    assert digests(found) == digests(look(str(tiny)))
    assert {file.path: file.evidence for file in found.files}["model.safetensors"] == "claimed"
    assert {file.path: file.evidence for file in found.files}["config.json"] == "computed"
    weights = next(reading for reading in found.readings if reading.fact.path[-1] == "model.safetensors")
    assert weights.evidence == "claimed"


def test_a_quick_look_at_a_plain_folder_has_the_sizes_of_weights(tiny: Path) -> None:
    found = look(str(tiny), hashing="quick")
    size = (tiny / "model.safetensors").stat().st_size
    assert value(found, 'checkpoint.files."model.safetensors"') == {"size": size}
    assert value(found, "checkpoint.content_sha256") is None


def test_a_look_without_hashing_names_no_file_and_claims_no_whole(tiny: Path) -> None:
    found = look(str(tiny), hashing="none")
    assert not [reading for reading in found.readings if reading.fact.path[:2] == ("checkpoint", "files")]
    assert ("checkpoint", "files") not in found.complete
    assert value(found, "checkpoint.dtype") == "bfloat16"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"])
def test_a_blob_that_is_damaged_is_a_finding_without_any_lock(tmp_path: Path, tiny: Path, name: str) -> None:
    snapshot = cache(tmp_path / "hub", tiny)
    blob = (snapshot / name).resolve()
    raw = bytearray(blob.read_bytes())
    raw[-2] ^= 1
    blob.write_bytes(raw)
    assert name in failed(look(str(snapshot)))["claimed_digests"]


def test_a_copied_snapshot_is_held_against_the_listing_that_the_client_kept(tmp_path: Path, tiny: Path) -> None:
    snapshot = cache(tmp_path / "hub", tiny, copied=True)
    (snapshot / "model.safetensors").write_bytes((snapshot / "model.safetensors").read_bytes() + b"\0")
    assert "model.safetensors" in failed(look(str(snapshot)))["claimed_digests"]
    (snapshot / "model.safetensors").unlink()
    assert failed(look(str(snapshot)))["files_complete"].startswith(
        "no weight file is there; model.safetensors is missing"
    )


def test_a_file_edited_after_its_download_is_no_damage(tmp_path: Path, tiny: Path) -> None:
    folder = local_dir(tmp_path / "local", tiny)
    template = folder / "chat_template.jinja"
    template.write_text("{{ messages }}")
    later = template.stat().st_mtime + 60
    os.utime(template, (later, later))
    assert failed(look(str(folder))) == {}


def test_a_folder_of_two_commits_is_a_finding(tmp_path: Path, tiny: Path) -> None:
    folder = local_dir(tmp_path / "local", tiny, {"config.json": OTHER})
    found = look(str(folder))
    assert failed(found)["one_commit"] == "files were downloaded from 2 commits: 111111111111, b3a67e0f9b6f"
    assert value(found, "checkpoint.commit") is None


def test_a_replaced_link_changes_the_file_and_nothing_else(tmp_path: Path, tiny: Path) -> None:
    snapshot = cache(tmp_path / "hub", tiny)
    before = digests(look(str(snapshot)))
    target = os.readlink(snapshot / "generation_config.json")
    (snapshot / "special_tokens_map.json").unlink()
    (snapshot / "special_tokens_map.json").symlink_to(target)
    after = digests(look(str(snapshot)))
    assert {name for name in before if before[name] != after[name]} == {"special_tokens_map.json"}


def test_dangling_and_escaping_links_are_findings_and_never_followed(tmp_path: Path, tiny: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (tiny / "generation_config.json").unlink()
    (tiny / "generation_config.json").symlink_to(secret)
    (tiny / "config.json").unlink()
    (tiny / "config.json").symlink_to("../blobs/missing")
    found = look(str(tiny))
    assert failed(found)["links_resolve"] == (
        f"config.json links to ../blobs/missing, which is not there; 'generation_config.json' links to {secret}, outside"
    )
    assert value(found, 'checkpoint.files."config.json"').name == "ABSENT"  # type: ignore[union-attr]
    assert ("checkpoint", "files", "generation_config.json") in {gap.path for gap in found.unobserved}
    assert "content_sha256" not in {
        reading.fact.path[-1] for reading in found.readings if reading.fact.group == "checkpoint"
    }


def test_links_that_run_in_a_circle_end(tiny: Path) -> None:
    (tiny / "a.json").symlink_to("b.json")
    (tiny / "b.json").symlink_to("a.json")
    (tiny / "loop").symlink_to(".")
    details = failed(look(str(tiny)))["links_resolve"]
    assert "a.json" in details
    assert "loop is a link to a folder: it is not followed" in details


def test_an_unfinished_download_is_a_finding(tmp_path: Path, tiny: Path) -> None:
    snapshot = cache(tmp_path / "hub", tiny)
    (snapshot.parent.parent / "blobs" / "abc.1234.incomplete").write_bytes(b"x")
    assert failed(look(str(snapshot)))["no_incomplete_downloads"].startswith("blobs/abc.1234.incomplete")


def test_pointer_files_are_told_from_content(tiny: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 7\n"
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        (tiny / name).write_text(pointer)
    detail = failed(look(str(tiny)))["no_pointer_files"]
    assert all(name in detail for name in ("model.safetensors", "tokenizer.json", "config.json"))


def index(folder: Path, mapped: dict[str, str]) -> None:
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": mapped})
    )


def test_index_and_shards_are_held_against_each_other(tiny: Path) -> None:
    index(tiny, {"a": "model-00001-of-00002.safetensors", "b": "../../etc/passwd"})
    details = failed(look(str(tiny)))
    assert details["shards_indexed"] == (
        "model.safetensors is not in model.safetensors.index.json: some engines load it, others do not"
    )
    assert details["files_complete"] == (
        "model.safetensors.index.json names '../../etc/passwd', which is no file of the checkpoint; "
        "model-00001-of-00002.safetensors is missing, model.safetensors.index.json names it"
    )


def test_swapped_shards_are_a_finding(tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "configs" / "dtype-declared-fp32-tensors-mixed"
    folder = Path(shutil.copytree(source, tmp_path / "model"))
    assert "shards_indexed" in passed(look(str(folder)))
    one, two = folder / "model-00001-of-00002.safetensors", folder / "model-00002-of-00002.safetensors"
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert "does not say so" in failed(look(str(folder)))["shards_indexed"]
    two.unlink()
    assert failed(look(str(folder)))["files_complete"] == (
        "model-00002-of-00002.safetensors is missing, model.safetensors.index.json names it"
    )


def test_a_second_set_of_weights_is_a_finding_and_left_out(tiny: Path) -> None:
    (tiny / "pytorch_model.bin").write_bytes(b"pickle")
    (tiny / "consolidated.safetensors").write_bytes(b"")
    found = look(str(tiny))
    assert failed(found)["one_weight_set"] == (
        "1 mistral file beside the safetensors weights: consolidated.safetensors; "
        "1 bin file beside the safetensors weights: pytorch_model.bin"
    )
    assert found.excluded["pytorch_model.bin"] == "a second set of weights"
    assert "pytorch_model.bin" not in digests(found)


def test_a_split_gguf_is_one_closed_list_whichever_part_is_named(tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "configs" / "gguf-split-two"
    folder = Path(shutil.copytree(source, tmp_path / "model"))
    (folder / "expected.json").unlink()
    names = sorted(path.name for path in folder.iterdir())
    assert [sorted(digests(look(str(folder / name)))) for name in names] == [names, names]
    assert {"shards_indexed", "files_complete"} <= passed(look(str(folder)))
    (folder / names[1]).unlink()
    assert failed(look(str(folder / names[0])))["files_complete"].startswith(f"{names[1]} is missing by its number")


def test_several_gguf_models_in_a_folder_must_be_told_apart(tmp_path: Path, tiny_gguf: Path) -> None:
    shutil.copy(tiny_gguf, tmp_path / "other.gguf")
    found = look(str(tmp_path))
    assert "2 GGUF models lie here" in failed(found)["one_weight_set"]
    assert ("checkpoint", "architecture") in {gap.path for gap in found.unobserved}
    assert set(digests(look(str(tmp_path / "other.gguf")))) == {"other.gguf"}


def test_a_gguf_through_a_snapshot_keeps_its_name_and_commit(tmp_path: Path, tiny_gguf: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(tiny_gguf, source / "tiny.gguf")
    snapshot = cache(tmp_path / "hub", source)
    found = look(str(snapshot / "tiny.gguf"))
    assert value(found, "checkpoint.commit") == COMMIT
    assert digests(found) == digests(look(str(tiny_gguf)))
    assert failed(found) == {}


def test_names_that_are_no_plain_text_are_findings(tiny: Path) -> None:
    (tiny / "model\n.safetensors").write_bytes(b"x")
    (tiny / "CONFIG.json").write_bytes(b"x")
    with open(os.fsencode(str(tiny)) + b"/\xff.json", "wb") as file:
        file.write(b"x")
    detail = failed(look(str(tiny)))["file_names"]
    assert "'model\\n.safetensors' its name holds control characters or no UTF-8" in detail
    assert "'\\udcff.json' its name" in detail
    assert "'CONFIG.json' and 'config.json' are one name on some systems" in detail


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda path: None, "no checkpoint at {path}: no such file or directory"),
        (lambda path: path.write_bytes(b"text"), "{path} is a file, not a checkpoint"),
        (lambda path: path.mkdir(), "{path} is empty"),
        (lambda path: (path.mkdir(), (path / "notes.txt").write_text("x")),
         "no checkpoint in {path}: no config.json, no weights, no tokenizer"),
        (os.mkfifo, "{path} is a pipe, not a checkpoint"),
        (lambda path: (path.mkdir(), (path / "model_index.json").write_text("{}")),
         "{path} is a diffusers pipeline, not a language model"),
    ],
    ids=["missing", "file", "empty", "notes", "pipe", "diffusers"],
)  # fmt: skip
def test_what_is_no_checkpoint_is_one_clear_error(tmp_path: Path, make: object, want: str) -> None:
    path = tmp_path / "model"
    make(path)  # type: ignore[operator]
    with pytest.raises(UsageError) as caught:
        look(str(path))
    assert caught.value.what == want.format(path=path)


def test_a_ref_to_a_snapshot_that_is_not_there_is_said(tmp_path: Path, tiny: Path) -> None:
    repo = cache(tmp_path / "hub", tiny).parent.parent
    (repo / "refs" / "main").write_text(OTHER)
    with pytest.raises(UsageError) as caught:
        look(str(repo))
    assert caught.value.what == f"ref 'main' names commit {OTHER}, whose snapshot is not in the cache"
    assert value(look(str(repo), revision=COMMIT), "checkpoint.commit") == COMMIT


@pytest.mark.parametrize("revision", ["../../x", "a b", "", "main\n"])
def test_a_hostile_revision_reads_no_file(tmp_path: Path, tiny: Path, revision: str) -> None:
    repo = cache(tmp_path / "hub", tiny).parent.parent
    found, _ = hub.snapshot(str(repo), revision)
    assert (found is None) == (revision != "")


def test_the_caches_place_follows_the_environment() -> None:
    home = "/home/a"
    assert hub.cache_root({}, home) == "/home/a/.cache/huggingface/hub"
    assert hub.cache_root({"XDG_CACHE_HOME": "/x"}, home) == "/x/huggingface/hub"
    assert hub.cache_root({"HF_HOME": "~/hf"}, home) == "/home/a/hf/hub"
    assert hub.cache_root({"HF_HOME": "/hf", "HF_HUB_CACHE": "/c"}, home) == "/c"


def test_the_files_of_another_process_are_read_in_its_own_view(tiny: Path) -> None:
    view = f"/proc/{os.getpid()}/root{tiny}"
    (tiny / "linked.json").symlink_to(tiny / "config.json")  # absolute: must not lead out of the view
    assert links.real(view) == view
    found = look(view)
    assert found.layout.root == view
    assert failed(found) == {}
    assert dict(digests(found))["linked.json"] == digests(found)["config.json"]


def test_the_sha256_of_a_file_is_that_of_its_bytes(tiny: Path) -> None:
    for name, (size, digest) in digests(look(str(tiny))).items():
        raw = (tiny / name).read_bytes()
        assert (size, digest) == (len(raw), hashlib.sha256(raw).hexdigest())


def test_a_built_engine_is_read_by_rank(tmp_path: Path) -> None:
    config = {
        "version": "0.20.0", "build_config": {"max_seq_len": 8192, "max_batch_size": 64},
        "pretrained_config": {
            "architecture": "LlamaForCausalLM", "dtype": "bfloat16", "mapping": {"world_size": 2, "tp_size": 2},
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
        },
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "rank0.engine").write_bytes(b"plan")
    found = look(str(tmp_path))
    assert failed(found) == {"files_complete": "rank1.engine is missing, config.json asks for 2"}
    (tmp_path / "rank1.engine").write_bytes(b"plan")
    found = look(str(tmp_path))
    assert failed(found) == {}
    assert value(found, "engine.artifact_version") == "0.20.0"
    assert value(found, "quantization.kv_cache") == "fp8"
    assert value(found, "serve.tensor_parallel_size") == 2
    lines = "".join(f"{hashlib.sha256(b'plan').hexdigest()}  rank{rank}.engine\n" for rank in (0, 1))
    assert value(found, "engine.artifact_sha256") == hashlib.sha256(lines.encode()).hexdigest()


def test_a_blob_of_ollama_is_a_gguf_whose_name_claims_its_digest(tmp_path: Path, tiny_gguf: Path) -> None:
    raw = tiny_gguf.read_bytes()
    blob = tmp_path / f"sha256-{hashlib.sha256(raw).hexdigest()}"
    blob.write_bytes(raw)
    found = look(str(blob), engine="ollama")
    assert value(found, "checkpoint.format") == "gguf"
    assert list(digests(found)) == [blob.name + ".gguf"]
    assert look(str(blob), hashing="quick").content_sha256 == found.content_sha256
    assert "claimed_digests" in passed(found)
    blob.write_bytes(raw[:-1] + b"x")
    assert "claimed_digests" in failed(look(str(blob)))


def test_the_commit_of_foreign_code_is_that_of_the_cache_it_lies_in(tmp_path: Path) -> None:
    source = Path(__file__).parent / "data" / "configs" / "remote-code"
    snapshot = cache(tmp_path / "hub", source)
    gap = next(gap for gap in look(str(snapshot)).unobserved if gap.path == ("checkpoint", "code_commit"))
    assert gap.reason == "example-org/shared-code: the cache has no ref 'main' of this repository"
    cache(tmp_path / "hub", source, "example-org/shared-code")
    assert value(look(str(snapshot)), "checkpoint.code_commit") == COMMIT
