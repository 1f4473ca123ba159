"""Takes one application of `applications.tsv` through its checks. `run` calls it."""

import importlib
import importlib.metadata
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def main(application):
    _, _, versions, _, _, _, program = row_of(application)
    try:
        for package in versions.split(", "):
            compare_version(*package.split(" "))
        importlib.import_module(f"programs.{program}").run(application)
        code = 0
    except Exception as error:
        traceback.print_exc()
        print(f"{application}: {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Exits without cleaning up after a failed check, so that its sentence stays the last line.
    os._exit(code)


def row_of(application):
    table = (HERE / "applications.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    return next(row for row in rows if row[0] == application)


def compare_version(package, version):
    installed = importlib.metadata.version(package)
    assert installed == version, f"the table says {package} {version}, and {installed} is installed"


if __name__ == "__main__":
    main(*sys.argv[1:])
