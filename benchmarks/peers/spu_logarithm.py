"""Logarithms of shared numbers with SecretFlow SPU; run by `benchmarks.secure`.

Reads ``{"protocol": "CHEETAH", "numbers": […], "repetitions": 3}`` from standard input, shares the
numbers, starts one process a party, joined by SPU's own network link on loopback, and prints wall
seconds and the CPU seconds of each party: for the first run, which sets up what the protocol keeps
(keys, base transfers), and for the best of the later ones. Neither connecting nor compiling counts.
"""

import json
import subprocess
import sys
import time

import numpy as np
from spu import Io, Runtime, __version__, libspu
from spu.utils import frontend

PORTS = (19271, 19272)


def settings(protocol):
    return libspu.RuntimeConfig(
        protocol=getattr(libspu.ProtocolKind, protocol),
        field=libspu.FieldType.FM64,
        fxp_fraction_bits=18,
    )


def packed(share):
    return {"meta": share.meta.hex(), "chunks": [chunk.hex() for chunk in share.share_chunks]}


def unpacked(stored):
    share = libspu.Share()
    share.meta = bytes.fromhex(stored["meta"])
    share.share_chunks = [bytes.fromhex(chunk) for chunk in stored["chunks"]]
    return share


def party(rank, task):
    import jax.numpy as jnp

    description = libspu.link.Desc()
    for number, port in enumerate(PORTS):
        description.add_party(f"party{number}", f"127.0.0.1:{port}")
    link = libspu.link.create_brpc(description, rank)
    runtime = Runtime(link, settings(task["protocol"]))
    executable, _ = frontend.compile(
        frontend.Kind.JAX,
        jnp.log,
        (np.zeros(task["count"], np.float32),),
        {},
        ["x"],
        [libspu.Visibility.VIS_SECRET],
        lambda outputs: ["out"],
    )
    runtime.set_var("x", unpacked(task["share"]))
    times = []
    for _ in range(1 + task["repetitions"]):
        wall, cpu = time.perf_counter(), time.process_time()
        runtime.run(executable)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = min(times[1:])
    first = {"wall": times[0][0], "cpu": times[0][1]}
    answer = {"wall": wall, "cpu": cpu, "first": first, "share": packed(runtime.get_var("out"))}
    link.stop_link()  # before printing: the other party may wait for us, and we for a reader
    print("\n" + json.dumps(answer), flush=True)


def main():
    question = json.load(sys.stdin)
    io = Io(2, settings(question["protocol"]))
    numbers = np.array(question["numbers"], np.float32)
    shares = io.make_shares(numbers, libspu.Visibility.VIS_SECRET)
    parties = []
    for rank, share in enumerate(shares):
        task = {**question, "numbers": None, "count": len(numbers), "share": packed(share)}
        process = subprocess.Popen(
            [sys.executable, __file__, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdin.write(json.dumps(task))
        process.stdin.close()
        parties.append(process)
    answers = []
    for process in parties:  # SPU's own messages go to the same stream
        lines = [line for line in process.stdout.read().splitlines() if line.startswith("{")]
        answers.append(json.loads(lines[-1]))
        process.wait()
    values = io.reconstruct([unpacked(answer["share"]) for answer in answers])
    summary = {
        "wall": max(answer["wall"] for answer in answers),
        "cpu": [answer["cpu"] for answer in answers],
        "first_wall": max(answer["first"]["wall"] for answer in answers),
        "first_cpu": [answer["first"]["cpu"] for answer in answers],
        "values": [float(v) for v in values],
        "version": __version__,
    }
    print("\n" + json.dumps(summary))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        party(int(sys.argv[1]), json.load(sys.stdin))
    else:
        main()
