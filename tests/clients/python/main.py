"""Takes one client of `clients.tsv` through its paces, or only holds or tries locks. `run` calls it."""

import importlib
import importlib.metadata
import os
import sys
from pathlib import Path

from checks import check
from libraries import Server

HOLD_S = 120


def main(action, client, *keys):
    library = library_of(row_of(client))
    actions = {"check": check, "hold": hold, "try": try_to_take}
    actions[action](library, *keys)
    sys.stdout.flush()
    # Exits without cleaning up: a library that cleaned up would release the locks it holds.
    os._exit(0)


def hold(library, *keys):
    for key in keys:
        name = library.name_of(key)
        if name is not None:
            assert library.lock(name, HOLD_S).acquire(), f"{key} is not free"
            print(f"held\t{key}")


def try_to_take(library, *keys):
    for key in keys:
        name = library.name_of(key)
        if name is not None:
            print(f"{'taken' if library.lock(name).acquire() else 'refused'}\t{key}")


def row_of(client):
    table = Path(__file__).with_name("clients.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return next(row for row in rows if row[0] == client)


def library_of(row):
    _, _, version, _, _, module, protocol = row
    library = importlib.import_module(f"libraries.{module}").LIBRARY
    installed = importlib.metadata.version(library.package)
    assert installed == version, f"the table says {library.package} {version}, and {installed} is installed"
    host, port = os.environ["REDLOCK_ADDRESS"].rsplit(":", 1)
    return library(Server(host, int(port), None if protocol == "-" else int(protocol)))


if __name__ == "__main__":
    main(*sys.argv[1:])
