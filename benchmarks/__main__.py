"""Run all benchmarks, or those named: ``python -m benchmarks [name …]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

_TOOLS = {"__main__", "census", "runner", "tables"}


def main(chosen: list[str]) -> int:
    """Run benchmarks in turn; says which failed and goes on with the next."""
    known = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in _TOOLS]
    unknown = [name for name in chosen if name not in known]
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; known are {', '.join(known)}")
        return 2
    failed = []
    for name in chosen or known:
        sys.argv = [name]
        print(f"== {name}", flush=True)
        try:
            importlib.import_module(f"benchmarks.{name}").main()
        except Exception as error:
            print(f"{name} failed: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
