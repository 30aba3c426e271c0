"""Two hosts on one machine: network namespaces with a virtual cable between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["two_hosts"]

Prefix = list[str]


@contextmanager
def two_hosts() -> Iterator[tuple[str, Prefix, Prefix]]:
    """The first host's address, and what to put before a command to run it on either host.

    Skips the test where the machine does not allow namespaces.
    """
    if shutil.which("ip") is None:
        pytest.skip("no network namespaces here: the command `ip` is missing")
    number = os.getpid() % 10_000
    first, second = f"sfumato-p{number}", f"sfumato-q{number}"
    commands = [
        f"ip netns add {first}",
        f"ip netns add {second}",
        f"ip link add sfp{number} netns {first} type veth peer name sfq{number} netns {second}",
        f"ip -n {first} addr add 10.99.8.1/24 dev sfp{number}",
        f"ip -n {second} addr add 10.99.8.2/24 dev sfq{number}",
        f"ip -n {first} link set sfp{number} up",
        f"ip -n {second} link set sfq{number} up",
    ]
    try:
        for command in commands:
            done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
        prefixes = [["ip", "netns", "exec", name] for name in (first, second)]
        yield "10.99.8.1", prefixes[0], prefixes[1]
    finally:
        for name in (first, second):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
