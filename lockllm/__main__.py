"""`python -m lockllm`."""

from __future__ import annotations

from lockllm.cli import main

if __name__ == "__main__":
    main()
