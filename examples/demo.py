"""`make demo`: the main job on a real server. Everything it writes lies in .demo/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers import start

TINY = Path(__file__).parent / "tiny"
HOST = Path(".demo") / "host"
SERVER = ("-m", "tiny.gguf", "-np", "2", "-b", "1024", "-ub", "512")
PULLED = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] | trim }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def main() -> None:
    """Locks a server, verifies it, changes two things and verifies it again."""
    shutil.rmtree(HOST, ignore_errors=True)
    home = start.llama_home(HOST.absolute())
    for name in ("llm.toml", "tiny.gguf"):
        shutil.copy(TINY / name, home / name)

    say("A host runs llama.cpp's server on a tiny checkpoint. Here is what it is meant to be:")
    print((home / "llm.toml").read_text())
    with start.llama_server(home, *SERVER, "-c", "1024") as server:
        shown(server)
        say("Look at the host, and lock what was seen. In a repository, llm.lock is committed and reviewed.")
        run(home, 0, "observe", "--server", server.url, "-o", "host.json")
        run(home, 0, "lock", "--observation", "host.json")
        say("Nothing moved: the host is what the lock says.")
        run(home, 0, "verify", "--server", server.url)

    say("Now the checkpoint is pulled again, with another chat template in it, and somebody halves the context.")
    (home / "pulled.jinja").write_text(PULLED)
    made: list[str | Path] = [
        sys.executable,
        str(TINY / "make.py"),
        "--out",
        str(home),
        "--template",
        str(home / "pulled.jinja"),
    ]
    subprocess.run(made, check=True)
    with start.llama_server(home, *SERVER, "-c", "512") as server:
        shown(server)
        run(home, 1, "verify", "--server", server.url)
        say("Were it meant to be, the spec would say so, and a reviewer would read this:")
        spec = (home / "llm.toml").read_text().replace("max_model_len = 512", "max_model_len = 256")
        (home / "llm.toml").write_text(spec)
        shutil.copy(home / "llm.lock", home / "before.lock")
        run(home, 0, "observe", "--server", server.url, "-o", "host.json")
        run(home, 0, "lock", "--observation", "host.json", "--upgrade")
    run(home, 0, "diff", "before.lock", "llm.lock")
    say(f"That is the whole loop. Look around in {HOST}.")


def say(text: str) -> None:
    """One line of the story."""
    print(f"\n# {text}", flush=True)


def shown(server: start.Server) -> None:
    """The command line that the server runs under."""
    print(f"  running: {' '.join(server.argv)}", flush=True)


def run(folder: Path, code: int, *arguments: str) -> None:
    """Shows a command, runs it, and expects its exit code."""
    print(f"\n$ lockllm {' '.join(arguments)}", flush=True)
    environ = {**os.environ, "LOCKLLM_CACHE": str(folder.parent / "cache")}
    command: list[str | Path] = [Path(sys.executable).parent / "lockllm", *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, stderr=subprocess.STDOUT, check=False)
    print(f"[exit {done.returncode}]", flush=True)
    if done.returncode != code:
        raise SystemExit(f"the demo expected exit {code}")


if __name__ == "__main__":
    main()
