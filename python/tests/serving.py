"""A server of the real command for tests, and the rows that it is asked."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "datasets" / "digits"


def command():
    """The command `mercer` of this source tree, or the installed one."""
    built = ROOT / "target" / "debug" / "mercer"
    found = os.environ.get("MERCER_COMMAND") or (str(built) if built.exists() else shutil.which("mercer"))
    if not found:
        pytest.skip("the command mercer is not built; `cargo build` does it")
    return found


def event_named(process, name):
    """The next event of this name that a server tells."""
    while line := process.stderr.readline():
        event = json.loads(line)
        if event["event"] == name:
            return event
    raise AssertionError(f"the server ended before it told '{name}'")


class Server:
    """Serves the digits until the block ends; `options` become a TOML file."""

    def __init__(self, *arguments, folder=None, **options):
        if options:
            path = folder / "serve.toml"
            path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items()))
            arguments = [*arguments, "--config", str(path)]
        listen = ["serve", str(DIGITS / "digits.model"), "--json", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        self.process = subprocess.Popen([command(), *listen, *arguments], stderr=subprocess.PIPE, text=True)
        event = event_named(self.process, "listening")
        self.http, self.grpc = event["address"], event["grpc"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def digits_rows(count=40):
    table = np.zeros((count, 64))
    lines = (DIGITS / "queries.svm").read_text().splitlines()[:count]
    for row, line in enumerate(lines):
        for pair in line.split()[1:]:
            column, value = pair.split(":")
            table[row, int(column) - 1] = float(value)
    return table
