"""`lock` and `verify` hold the files that the engine's loader chooses, by its release and its load format."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import SPEC, Call

CONSOLIDATED = "consolidated.safetensors"


def _twice(folder: Path, version: str, load_format: str | None) -> None:
    """A checkpoint with a second, consolidated copy of its weights."""
    shutil.copy(folder / "model" / "model.safetensors", folder / "model" / CONSOLIDATED)
    given = f'\n[serve]\nload_format = "{load_format}"\n' if load_format else ""
    (folder / "llm.toml").write_text(SPEC.replace("0.10.2", version) + given)


@pytest.mark.parametrize(
    ("version", "load_format", "read", "unread"),
    [
        ("0.10.2", "mistral", CONSOLIDATED, "model.safetensors"),
        ("0.33.0", None, CONSOLIDATED, "model.safetensors"),
        ("0.33.0", "hf", CONSOLIDATED, None),
        ("0.10.2", None, CONSOLIDATED, None),
        ("0.10.2", None, "model.safetensors", None),
    ],
)
def test_only_a_change_of_the_set_that_is_loaded_is_a_mismatch(
    folder: Path, call: Call, version: str, load_format: str | None, read: str, unread: str | None
) -> None:
    _twice(folder, version, load_format)
    assert call("lock").code == 0
    assert call("verify", "--stage", "preflight").code == 0
    if unread is not None:
        (folder / "model" / unread).unlink()
        assert call("verify", "--stage", "preflight").code == 0
    raw = (folder / "model" / read).read_bytes()
    (folder / "model" / read).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    done = call("verify", "--stage", "preflight")
    assert (done.code, f'checkpoint.files."{read}"' in done.out) == (1, True)


@pytest.mark.parametrize(
    "name", ["optimizer_model.py", "readme_x.py", "eval/x.py", "original/m.py", "license-x.safetensors"]
)
def test_code_and_weights_of_any_name_are_held(folder: Path, call: Call, name: str) -> None:
    file = folder / "model" / name
    file.parent.mkdir(exist_ok=True)
    plain = (folder / "model" / "model.safetensors").read_bytes() if name.endswith(".safetensors") else b"x = 1\n"
    assert call("lock").code == 0
    file.write_bytes(plain)
    assert call("verify", "--stage", "preflight").code == 1
    assert call("lock").code == 0
    assert call("verify", "--stage", "preflight").code == 0
    file.write_bytes(plain[:-2] + b"2\n")
    assert call("verify", "--stage", "preflight").code == 1


def test_a_diff_says_that_images_become_other_tokens(folder: Path, call: Call) -> None:
    limits = folder / "model" / "preprocessor_config.json"
    limits.write_text('{"max_pixels": 1003520}')
    assert call("lock").code == 0
    (folder / "llm.lock").rename(folder / "old.lock")
    limits.write_text('{"max_pixels": 12845056}')
    assert call("lock").code == 0
    done = call("diff", "old.lock", "llm.lock")
    told = " ".join(done.out.split())
    assert "step change: images, video or sound become other tokens" in told
    assert "max_pixels 1003520 -> 12845056" in told
