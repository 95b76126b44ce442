"""Whose program starts: what installers write for one entry point is alike, and anything else is its own digest."""

from __future__ import annotations

import pytest

from lockllm.observe.server.program import value

PIP = """#!/opt/venv/bin/python
# -*- coding: utf-8 -*-
import re
import sys
from vllm.entrypoints.cli.main import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""
NEW_PIP = """#!/opt/venv/bin/python3
import sys
from vllm.entrypoints.cli.main import main
if __name__ == '__main__':
    if sys.argv[0].endswith('.exe'):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit(main())
"""
UV = """#!/bin/sh
'''exec' '/a path/bin/python' "$0" "$@"
' '''
# -*- coding: utf-8 -*-
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    if sys.argv[0].endswith("-script.pyw"):
        sys.argv[0] = sys.argv[0][:-11]
    elif sys.argv[0].endswith(".exe"):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit(main())
"""


@pytest.mark.parametrize("text", [PIP, NEW_PIP, UV])
def test_the_scripts_of_installers_hand_over_to_one_package(text: str) -> None:
    assert value(text.encode()) == "vllm"
    assert value(text.replace("from vllm.", "from evil.").encode()) == "evil"


@pytest.mark.parametrize("text", [PIP, NEW_PIP, UV])
@pytest.mark.parametrize(
    "more", ["import evil\n", "main()\n", "import sys; evil()\n", "from evil import main\n", "sys.exit(other())\n"]
)
def test_a_script_that_does_anything_else_is_a_digest(text: str, more: str) -> None:
    assert value((text + more).encode()).startswith("sha256:")
    assert value(text.replace("import sys\n", f"import sys\n{more}").encode()).startswith("sha256:")


def test_the_interpreters_path_is_no_part_of_a_digest_and_a_binary_is_one_whole() -> None:
    assert value(b"#!/a/python\nprint()\n") == value(b"#!/b/python3\nprint()\n") != value(b"#!/a/python\nprint(1)\n")
    assert value(b"\x7fELF\n1") != value(b"\x7fELX\n1")
