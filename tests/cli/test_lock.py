"""`lockllm lock`: every option, what is written, and what stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lockllm.documents import lock as locks
from tests.cli.conftest import SPEC, Call, observation
from tests.observe.hosts import environment

H100 = "NVIDIA H100 80GB HBM3"


def spec(folder: Path, text: str = "", *, base: str = SPEC) -> None:
    (folder / "llm.toml").write_text(base + text)


def locked(folder: Path, name: str = "llm.lock") -> locks.Lock:
    return locks.read((folder / name).read_text(), name)


def host(folder: Path, facts: dict[str, Any], **more: Any) -> Path:
    """An observation of a host that runs the engine of the spec."""
    path = folder / "host.json"
    path.write_text(observation({"engine.name": "vllm", "engine.version": "0.10.2", **facts}, "process", **more))
    return path


def test_locking_twice_gives_the_same_bytes(folder: Path, call: Call) -> None:
    first = call("lock")
    once = (folder / "llm.lock").read_bytes()
    stat = (folder / "llm.lock").stat()
    second = call("lock")
    assert (first.code, second.code, (folder / "llm.lock").read_bytes()) == (0, 0, once)
    assert (folder / "llm.lock").stat().st_mtime_ns == stat.st_mtime_ns
    assert first.err.startswith("wrote llm.lock: ")
    assert second.err.startswith("llm.lock is up to date: ")


def test_the_same_checkpoint_locks_alike_from_any_place(folder: Path, call: Call, tmp_path_factory: Any) -> None:
    call("lock")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "model").rename(elsewhere / "other")
    (elsewhere / "llm.toml").write_text(SPEC.replace('"model"', '"other"'))
    assert call("lock", elsewhere / "llm.toml").code == 0
    assert (elsewhere / "llm.lock").read_text() == (folder / "llm.lock").read_text()
    assert str(elsewhere) not in (elsewhere / "llm.lock").read_text()


def test_what_was_locked_verifies_clean_where_it_was_locked(folder: Path, call: Call) -> None:
    call("lock")
    done = call("verify", "--stage", "preflight", "--format", "json")
    unseen = [each["fact"] for each in done.json["results"] if each["status"] not in ("match", "not_due")]
    assert (done.code, unseen) == (0, [])


def test_checking_a_fresh_lock_writes_nothing_and_is_good(folder: Path, call: Call) -> None:
    call("lock")
    before = (folder / "llm.lock").stat().st_mtime_ns
    done = call("lock", "--check")
    assert (done.code, done.out, done.err) == (0, "llm.lock is up to date with llm.toml\n", "")
    assert (folder / "llm.lock").stat().st_mtime_ns == before
    assert call("lock", "--check", "--quiet").out == ""


def test_checking_a_stale_lock_names_its_facts(folder: Path, call: Call) -> None:
    call("lock")
    before = (folder / "llm.lock").read_bytes()
    spec(folder, '[serve]\ndtype = "float16"\n')
    done = call("lock", "--check")
    assert done.code == 1
    assert done.out == (
        "llm.lock is stale: 2 facts\n  serve.dtype\n  serve.kv_cache_dtype\n  fix   run `lockllm lock`\n"
    )
    assert (folder / "llm.lock").read_bytes() == before


def test_checking_looks_at_spec_and_lock_alone(folder: Path, call: Call) -> None:
    call("lock")
    (folder / "model").rename(folder / "gone")
    assert call("lock", "--check").code == 0


def test_checking_without_a_lock_is_an_error(folder: Path, call: Call) -> None:
    done = call("lock", "--check")
    assert done.code == 2
    assert done.err == (
        "lockllm: no such file\n  in    llm.lock\n"
        "  fix   make one with `lockllm lock`, or name it: lockllm verify PATH\n"
    )


def test_comments_decide_nothing(folder: Path, call: Call) -> None:
    call("lock")
    text = (folder / "llm.lock").read_text()
    bare = "\n".join(line.partition("  # via ")[0] for line in text.splitlines() if not line.startswith("#")) + "\n"
    (folder / "llm.lock").write_text(bare)
    for arguments in (("lock", "--check"), ("verify", "--stage", "preflight"), ("lock",)):
        assert call(*arguments).code == 0
    assert (folder / "llm.lock").read_text() == text


def test_strict_is_1_where_anything_is_unpinned(folder: Path, call: Call) -> None:
    done = call("lock", "--strict")
    assert done.code == 1
    assert "not pinned: " in done.err
    assert locked(folder).unpinned


def test_strict_is_0_where_all_is_pinned(folder: Path, call: Call) -> None:
    lock = call("lock", "--dry-run", "--format", "json").json
    seen = {"host.gpu": H100, "host.python": "3.12", "packages.torch": "2.8.0", "cuda.runtime": "12.8", "kernels.attention": "FLASH_ATTN",
            "engine.image_digest": "sha256:" + "1" * 64, "serve.attention_backend": "FLASH_ATTN"}  # fmt: skip
    arguments = ("--observation", host(folder, seen), "--pin", "kernels.*", "--pin", "engine.*", "--pin", "serve.*")
    done = call("lock", "--strict", *arguments)
    assert (done.code, locked(folder).unpinned) == (0, {}), done.err
    assert lock["changes"]


def test_a_dry_run_prints_the_change_and_writes_nothing(folder: Path, call: Call) -> None:
    done = call("lock", "--dry-run")
    assert done.code == 0
    assert not (folder / "llm.lock").exists()
    assert done.err.startswith("llm.lock would change; nothing was written\n")
    call("lock")
    spec(folder, '[serve]\ndtype = "float16"\n')
    done = call("lock", "--dry-run")
    assert (done.code, "serve.dtype" in done.out, "bfloat16 -> float16" in done.out) == (0, True, True)
    assert locked(folder).get("serve.dtype") == "bfloat16"
    assert call("lock", "--dry-run", "--format", "json").json["verdict"] == "step"
    assert call("lock", "--dry-run", "--format", "markdown").out.startswith("#")


def test_a_lock_can_be_written_elsewhere(folder: Path, call: Call) -> None:
    (folder / "locks").mkdir()
    assert call("lock", "-o", "locks/prod.lock").code == 0
    assert not (folder / "llm.lock").exists()
    assert locked(folder, "locks/prod.lock").get("engine.name") == "vllm"


def test_a_lock_can_be_written_to_standard_output(folder: Path, call: Call) -> None:
    done = call("lock", "-o", "-")
    assert done.code == 0
    assert locks.read(done.out).get("engine.name") == "vllm"
    assert sorted(path.name for path in folder.iterdir()) == [".cache", "llm.toml", "model"]


def test_pyproject_holds_a_spec_where_there_is_no_llm_toml(folder: Path, call: Call) -> None:
    text = SPEC.replace("[checkpoint]", "[tool.lockllm.checkpoint]").replace("[engine]", "[tool.lockllm.engine]")
    (folder / "pyproject.toml").write_text(f'[project]\nname = "x"\n{text}')
    (folder / "llm.toml").unlink()
    assert call("lock").code == 0
    assert (folder / "llm.lock").read_text().startswith("# Locked by lockllm from pyproject.toml.")
    assert call("lock", "--check").out == "llm.lock is up to date with pyproject.toml\n"
    assert call("verify", "--stage", "preflight").code == 0


def test_variants_are_locked_beside_the_lock(folder: Path, call: Call) -> None:
    a100 = "NVIDIA A100-SXM4-80GB"
    spec(
        folder,
        f'[host]\ngpu = "{H100}"\n[variant.a100.host]\ngpu = "{a100}"\n[variant.a100.serve]\nmax_num_seqs = 64\n',
    )
    done = call("lock")
    assert done.code == 0
    one, other = locked(folder), locked(folder, "llm.a100.lock")
    assert (one.get("host.gpu"), other.get("host.gpu")) == (H100, a100)
    assert (one.get("serve.max_num_seqs"), other.get("serve.max_num_seqs")) == (1024, 64)
    assert call("lock", "--check").out == (
        "llm.lock is up to date with llm.toml\nllm.a100.lock is up to date with llm.toml\n"
    )
    (folder / "llm.a100.lock").unlink()
    assert call("lock", "--check").code == 2
    assert call("lock", "-o", "x.lock").code == 0
    assert (folder / "x.a100.lock").exists()


def test_either_variant_of_a_lock_will_do(folder: Path, call: Call) -> None:
    spec(folder, '[variant.half.serve]\ndtype = "float16"\n')
    call("lock")
    seen = {"engine.name": "vllm", "serve.dtype": "float16"}
    arguments = ("--observation", host(folder, seen), "--only", "serve.dtype")
    assert call("verify", "llm.lock", *arguments).code == 1
    done = call("verify", "llm.lock", "llm.half.lock", *arguments)
    assert (done.code, "llm.half.lock" in done.out.splitlines()[0]) == (0, True)
    assert "llm.lock: 1 mismatches, 0 unknown" in done.out


@pytest.mark.parametrize("variant", ["gpu/../x", "", "a b"])
def test_a_variant_has_a_plain_name(folder: Path, call: Call, variant: str) -> None:
    spec(folder, f'[variant."{variant}".host]\ngpu = "x"\n')
    done = call("lock")
    assert done.code == 2
    assert f"lockllm: {variant!r} is not a valid variant name\n" in done.err


def test_what_was_looked_for_and_not_there_stands_in_absent(folder: Path, call: Call) -> None:
    call("lock", "--observation", host(folder, {"packages.flash-attn": None, "packages.torch": "2.8.0"}))
    text = (folder / "llm.lock").read_text()
    assert 'packages = [\n  "flash-attn",\n]\n' in text
    seen = host(folder, {"packages.flash-attn": "2.8.1", "packages.torch": "2.8.0"})
    done = call("verify", "--observation", seen, "--only", "packages.*", "--format", "json")
    assert (done.code, [each["fact"] for each in done.json["results"] if each["blocking"]]) == (
        1,
        ["packages.flash-attn"],
    )


def test_a_range_stands_in_requires_and_makes_the_driver_compatible(folder: Path, call: Call) -> None:
    spec(folder, '[host]\ndriver = ">=550.54.14"\n')
    call("lock", "--observation", host(folder, {"host.driver": "550.90.07"}))
    lock = locked(folder)
    assert lock.get("host.driver") == "550.90.07"
    assert lock.requires == {("host", "driver"): ">=550.54.14"}
    for driver, code in (("550.90.07", 0), ("570.1", 0), ("550.54.13", 1), ("535.1", 1)):
        assert (
            call("verify", "--observation", host(folder, {"host.driver": driver}), "--only", "host.driver").code == code
        )


def test_a_laptop_locks_and_a_host_completes_it(folder: Path, call: Call) -> None:
    call("lock")
    assert {("host",), ("packages",)} <= set(locked(folder).unpinned)
    seen = host(folder, {"host.gpu": H100, "packages.torch": "2.8.0+cu128", "cuda.runtime": "12.8"})
    done = call("lock", "--observation", seen)
    assert done.code == 0
    lock = locked(folder)
    assert {("host",), ("packages",), ("cuda",)} & set(lock.unpinned) == set()
    again = call("lock")
    assert (again.code, locked(folder).values) == (0, lock.values)


def test_a_host_that_disagrees_is_an_error_and_the_old_lock_stays(folder: Path, call: Call) -> None:
    spec(folder, '[serve]\ndtype = "bfloat16"\n')
    call("lock")
    before = (folder / "llm.lock").read_bytes()
    seen = host(folder, {"serve.dtype": "float16", "serve.kv_cache_dtype": "float16", "serve.seed": 7})
    done = call("lock", "--observation", seen)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "lockllm: the host shows serve.dtype = float16, llm.toml resolves to bfloat16, and 1 fact follows from it\n"
        "  in    llm.toml, line 8; seen at seen\n"
        "  fix   change the spec, or the host, or take the host's: --accept-observed serve.dtype\n"
        "lockllm: the host shows serve.seed = 7, llm.toml resolves to 0\n"
        "  in    llm.toml; seen at seen\n"
        "  fix   change the spec, or the host, or take the host's: --accept-observed serve.seed\n"
    )
    assert (folder / "llm.lock").read_bytes() == before
    done = call("lock", "--observation", seen, "--accept-observed", "serve.*")
    assert done.code == 0
    assert (
        "warning  serve.seed is as the host shows it; to keep it, lock with --write, or write seed = 7 under [serve] of llm.toml"
        in done.err
    )
    assert (locked(folder).get("serve.dtype"), locked(folder).get("serve.seed")) == ("float16", 7)


def test_what_was_accepted_of_a_host_stays_until_it_is_asked_again(folder: Path, call: Call) -> None:
    spec(folder, '[serve]\ndtype = "bfloat16"\n')
    seen = host(folder, {"serve.seed": 7, "serve.dtype": "bfloat16", "sampling.temperature": 0.3})
    assert call("lock", "--observation", seen).code == 2
    taken = ("--accept-observed", "serve.seed", "--accept-observed", "sampling.temperature")
    assert call("lock", "--observation", seen, *taken).code == 0
    first = locked(folder)
    assert set(first.accepted) == {("serve", "seed"), ("sampling", "temperature")}
    for again in (call("lock", "--observation", seen), call("lock"), call("lock", "--check")):
        assert again.code == 0, again.err
        assert locked(folder) == first
    assert call("verify", "--observation", seen, "--only", "serve.seed").code == 0
    spec(folder, '[serve]\ndtype = "bfloat16"\nseed = 9\n')
    assert call("lock", "--check").code == 1
    call("lock")
    assert (locked(folder).get("serve.seed"), locked(folder).accepted) == (9, (("sampling", "temperature"),))
    call("lock", "--upgrade-fact", "sampling.*")
    assert (locked(folder).get("sampling.temperature") != 0.3, locked(folder).accepted) == (True, ())


def test_a_disagreement_is_told_in_values_that_people_read(folder: Path, call: Call) -> None:
    call("lock")
    held = locked(folder)
    config = held.values["checkpoint", "files", "config.json"]
    names = [path[1:] for path in held.values if path[0] == "prompt_probes" and path[-1] == "text"]
    probes = {f"prompt_probes.{'.'.join(name)}": "b" * 64 for name in names}
    seen = host(folder, {'checkpoint.files."config.json"': {"size": config["size"], "sha256": "a" * 64}, **probes})
    done = call("lock", "--observation", seen)
    assert done.code == 2
    assert "{'" not in done.err
    assert f"sha256:{'a' * 12}" in done.err or "a" * 12 in done.err
    assert len(done.err.splitlines()) < 40
    files = {
        f'checkpoint.files."{path[-1]}"': {"sha256": "c" * 64}
        for path in held.values
        if path[:2] == ("checkpoint", "files")
    }
    many = call("lock", "--observation", host(folder, files)).err
    assert f"the host shows other values of {len(files)} facts of checkpoint.files.*: " in many
    assert len(many.splitlines()) < 12


@pytest.mark.parametrize(("asked", "named"), [("0.10.1", "0.10.1"), (">=0.11", ">=0.11")])
def test_an_engine_outside_the_spec_is_an_error(folder: Path, call: Call, asked: str, named: str) -> None:
    spec(folder, base=SPEC.replace("0.10.2", asked))
    done = call("lock", "--observation", host(folder, {}))
    assert done.code == 2
    assert done.err == (
        f"lockllm: the host runs vllm 0.10.2, llm.toml asks for {named}\n"
        "  in    llm.toml, line 6\n  fix   change the version in the spec, or install another on the host\n"
    )


@pytest.mark.parametrize("option", ["--pin", "--accept-observed"])
def test_taking_facts_from_a_host_needs_an_observation(folder: Path, call: Call, option: str) -> None:
    done = call("lock", option, "kernels.*")
    assert done.code == 2
    assert done.err == (
        f"lockllm: this requires an observation\n  in    {option}\n"
        "  fix   give the observation of a host: --observation FILE\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--upgrade-fact", "serve.dtpye"), ("lockllm: 'serve.dtpye' matches no fact\n  in    --upgrade-fact\n"
         "  fix   did you mean serve.dtype?\n")),
        (("--upgrade-fact", "a..b"), ("lockllm: 'a..b' is not a key or glob\n  in    --upgrade-fact\n"
         "  fix   write host.* or checkpoint.files.\"config.json\"\n")),
        (("--pin", "kernels.x", "--observation", "host.json"), ("lockllm: 'kernels.x' matches no observed fact\n"
         "  in    --pin\n  fix   see the keys in the observation\n")),
        (("--upgrade-facts", "x"), ("lockllm: no such option --upgrade-facts; did you mean --upgrade-fact?\n"
         "  fix   see `lockllm lock --help`\n")),
    ],
)  # fmt: skip
def test_what_hits_nothing_is_an_error(folder: Path, call: Call, arguments: tuple[str, ...], message: str) -> None:
    host(folder, {})
    done = call("lock", *arguments)
    assert (done.code, done.err) == (2, message)


def test_one_fact_is_resolved_again_and_no_other(folder: Path, call: Call) -> None:
    seen = {"packages.torch": "2.8.0", "packages.triton": "3.4.0", "host.gpu": H100}
    call("lock", "--observation", host(folder, seen))
    call("lock", "--upgrade-fact", "packages.torch")
    lock = locked(folder)
    assert (lock.get("packages.torch"), lock.get("packages.triton"), lock.get("host.gpu")) == (None, "3.4.0", H100)
    call("lock", "--upgrade")
    assert locked(folder).get("packages.triton") is None


def test_an_engine_in_the_range_is_kept_until_an_upgrade(folder: Path, call: Call, tmp_path: Path) -> None:
    spec(folder, base=SPEC.replace('"0.10.2"', '">=0.10"'))
    old = environment(tmp_path / "old", {"vllm": "0.10.1", "torch": "2.7.1"})
    new = environment(tmp_path / "new", {"vllm": "0.10.2", "torch": "2.8.0"})
    assert call("lock", "--python", old / "bin" / "python").code == 0
    lock = locked(folder)
    assert (lock.get("engine.version"), lock.get("packages.torch")) == ("0.10.1", "2.7.1")
    assert call("lock", "--python", new / "bin" / "python").code == 0
    assert locked(folder).get("engine.version") == "0.10.1"
    assert call("lock", "--python", new / "bin" / "python", "--upgrade").code == 0
    lock = locked(folder)
    assert (lock.get("engine.version"), lock.get("packages.torch")) == ("0.10.2", "2.8.0")


def test_this_machines_gpus_are_locked_where_it_serves(folder: Path, call: Call) -> None:
    call("lock")
    assert ("host",) in locked(folder).unpinned
    assert call("lock", "--gpu", "none").code == 0
    assert ("host",) in locked(folder).unpinned
    assert call("lock", "--gpu", "auto").code == 0
    lock = locked(folder)
    assert lock.get("host.platform") in ("cpu", "cuda", "rocm")
    assert (lock.get("host.platform") == "cpu") == (("host", "gpu") in lock.absent)
    assert call("verify", "--stage", "preflight").code == 0


def test_blake3_digests_stand_in_a_table_of_their_own(folder: Path, call: Call) -> None:
    call("lock")
    plain = locked(folder)
    assert call("lock", "--blake3").code == 0
    lock = locked(folder)
    assert {path for path in lock.values if path[:2] == ("checkpoint", "blake3")} == {
        ("checkpoint", "blake3", path[2]) for path in plain.values if path[:2] == ("checkpoint", "files")
    }
    assert lock.get("checkpoint.content_sha256") == plain.get("checkpoint.content_sha256")
    assert call("verify", "--stage", "preflight").code == 0
    call("lock")
    assert locked(folder).values == lock.values


def test_offline_asks_no_index(folder: Path, call: Call) -> None:
    spec(folder, base=SPEC.replace('"0.10.2"', '">=99"'))
    done = call("lock", "--offline")
    assert (done.code, done.err) == (
        4, "lockllm: the engine's version is unknown, and --offline forbids looking it up\n"
        "  in    --offline\n  fix   give an exact version\n",
    )  # fmt: skip
    spec(folder)
    assert call("lock", "--offline").code == 0


def test_a_file_that_changed_is_locked_again(folder: Path, call: Call) -> None:
    call("lock")
    before = locked(folder)
    (folder / "model" / "chat_template.jinja").write_text("{{ messages }}")
    done = call("lock", "--dry-run", "--format", "json")
    moved = {each["fact"] for each in done.json["changes"] if each["because"] is None}
    assert 'checkpoint.files."chat_template.jinja"' in moved
    call("lock")
    assert locked(folder).get("chat_template.sha256") != before.get("chat_template.sha256")


def test_a_lock_that_cannot_be_read_is_never_overwritten(folder: Path, call: Call) -> None:
    (folder / "llm.lock").write_text("lock_version = 2\n")
    done = call("lock")
    assert (done.code, (folder / "llm.lock").read_text()) == (2, "lock_version = 2\n")
    assert done.err == (
        "lockllm: lock_version 2 is newer than this lockllm reads (1)\n  in    llm.lock, line 1\n"
        "  fix   upgrade lockllm on this host\n"
    )


def test_the_summary_is_quiet_on_request(folder: Path, call: Call) -> None:
    done = call("lock", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_lock_of_another_engine_keeps_nothing(folder: Path, call: Call) -> None:
    call("lock", "--observation", host(folder, {"packages.torch": "2.8.0"}))
    spec(folder, base=SPEC.replace("vllm", "sglang").replace("0.10.2", "0.5.2"))
    assert call("lock").code == 0
    assert locked(folder).get("packages.torch") is None


def test_json_of_a_dry_run_is_a_diff(folder: Path, call: Call) -> None:
    assert json.loads(call("lock", "--dry-run", "--format", "json").out)["diff_version"] == 1
