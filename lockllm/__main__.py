"""`lockllm` and `python -m lockllm`."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself imports for 2 ms, in which an interrupt prints a traceback


def main() -> int:
    """Run the command line and exit. An interrupt ends it quietly from here on, while everything else is still imported."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from lockllm.cli import main as run

    return run()


if __name__ == "__main__":
    main()
