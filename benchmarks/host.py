"""What a look at the machine and at the serving environment costs, against the limits that it must keep.

NVML is a fake library of eight GPUs (`tests/observe/fake_nvml.c`): the driver's own time is not in it, ours is.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.side_by_side import Row
from tests.observe import hosts, machines

_ROUNDS = 15
_TIMED = """
import time
{before}
began = time.perf_counter()
{timed}
print((time.perf_counter() - began) * 1000)
"""
_NVML = ("from lockllm.observe.gpu import probe", "assert len(probe.look('nvidia').cards) == 8")
_PROBE = (
    "import sys; from lockllm.observe.python import interpreter; from lockllm.observe.safe import child",
    "assert not isinstance(interpreter._run(interpreter.find(sys.argv[1])), str)",
)
_SCAN = (
    "import sys; from pathlib import Path; from lockllm.observe.python import distributions",
    "assert len(distributions.scan([Path(sys.argv[1])])[0]) == 100",
)
_METADATA = (
    "import sys",
    "from importlib import metadata; assert len([one.version for one in metadata.distributions(path=[sys.argv[1]])]) == 100",
)


def rows() -> Iterator[Row]:
    """Milliseconds beside the limit, and beside importlib.metadata."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        library = machines.build(folder / "nvml")
        (folder / "machine").write_text(machines.text(machines.EIGHT))
        env = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(folder / "machine"), "HOME": made}
        yield Row("NVML over a fake library, import and 8 GPUs (limit)", _took(_NVML, env), 60.0, 1.0)
        home = hosts.environment(folder / "venv", {f"package-{number}": f"1.{number}" for number in range(100)})
        yield Row("one probe of an interpreter (limit)", _took(_PROBE, {}, str(home / "bin/python")), 100.0, 1.0)
        site = str(hosts.site(home))
        yield Row("100 packages, against importlib.metadata", _took(_SCAN, {}, site), _took(_METADATA, {}, site), 1.0)


def _took(code: tuple[str, str], env: Mapping[str, str], *args: str) -> float:
    """The median over fresh interpreters of what is timed."""
    text = _TIMED.format(before=code[0], timed=code[1])
    times = []
    for _ in range(_ROUNDS):
        command = [sys.executable, "-c", text, *args]
        done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, check=True)
        times.append(float(done.stdout))
    return statistics.median(times)
