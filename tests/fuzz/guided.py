"""`python -m tests.fuzz.guided gguf [libFuzzer options]`: atheris drives a binary reader by the lines that a file reaches."""

from __future__ import annotations

import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["lockllm"]):
    from tests.fuzz.binary import TARGETS


def main() -> None:
    """Fuzz the reader that is named, until libFuzzer's options say that it is enough."""
    name = sys.argv.pop(1)
    target = TARGETS[name]

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        random = Random(seed)
        made = atheris.Mutate(data, longest) if random.random() < 0.5 else target.spoil(data, random)
        return bytes(made[:longest])

    atheris.Setup(sys.argv, target.run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
