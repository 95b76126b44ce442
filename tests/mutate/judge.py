"""Plants faults in `judge/` with mutmut, and fails where its tests catch fewer than 95 of 100.

python -m tests.mutate.judge
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LEAST = 0.95
MUTMUT = str(Path(sys.executable).parent / "mutmut")
STATS = Path("mutants") / "mutmut-cicd-stats.json"
_CAUGHT = ("killed", "timeout", "suspicious", "segfault")
_MISSED = ("survived", "no_tests")


def main() -> int:
    subprocess.run([MUTMUT, "run"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([MUTMUT, "export-cicd-stats"], check=True, stdout=subprocess.DEVNULL)
    counts = json.loads(STATS.read_text())
    caught, missed = (sum(counts.get(name, 0) for name in names) for names in (_CAUGHT, _MISSED))
    subprocess.run([MUTMUT, "results"], check=True)
    share = caught / (caught + missed)
    print(f"judge: {caught} of {caught + missed} planted faults are caught ({share:.1%}), at least {LEAST:.0%} must be")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
