"""Load of ``suwr serve``: 200 concurrent clients for a minute, and a server that is killed.

    python benchmarks/deployment/load.py

Every client answers the questions of one row after another over one connection, and sends the next
request as soon as it has the answer. Latencies are those of ``POST /next``, as the clients measure
them. The clients share the cores with the server. In the second part the server is killed with
SIGKILL between any two answers of a session and started again, while the client repeats its request
until it is answered. Needs fastapi and uvicorn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from sklearn.datasets import load_breast_cancer

from common import machine, write_json
from helpers.services import free_port, start_server
from suwr import SUWRClassifier

HERE = Path(__file__).parent
CLIENTS = 200


async def post(reader, writer, answers: dict) -> dict:
    """Send one request over an open connection."""
    body = json.dumps({"answers": answers}).encode()
    head = f"POST /next HTTP/1.1\r\nHost: service\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    header = await reader.readuntil(b"\r\n\r\n")
    status = int(header.split(b" ", 2)[1])
    length = int(header.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    content = json.loads(await reader.readexactly(length))
    if status != 200:
        raise RuntimeError(f"status {status}")
    return content


async def client(number: int, port: int, rows: list[dict], until: float, found: dict) -> None:
    """Answer row after row until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.perf_counter() < until:
            row, answers = rows[number % len(rows)], {}
            number += CLIENTS
            while time.perf_counter() < until:
                start = time.perf_counter()
                state = await post(reader, writer, answers)
                found["seconds"].append(time.perf_counter() - start)
                if state["done"]:
                    found["sessions"] += 1
                    break
                for column in state["question"]["columns"]:
                    answers[column["name"]] = row[column["name"]]
    except (OSError, RuntimeError, asyncio.IncompleteReadError) as error:
        found["errors"].append(repr(error))
    finally:
        writer.close()


async def load(port: int, rows: list[dict], seconds: float) -> dict:
    """Run all clients."""
    found: dict = {"seconds": [], "sessions": 0, "errors": []}
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(i, port, rows, until, found) for i in range(CLIENTS)))
    return found


async def patient(port: int, answers: dict) -> dict:
    """Repeat a request until it is answered."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            state = await post(reader, writer, answers)
            writer.close()
            return state
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.2)


def killed(path: Path, row: dict, expected: tuple[float, ...], log) -> dict:
    """Kill and restart the server between any two answers."""
    port, answers, kills = free_port(), {}, 0
    while True:
        process = start_server(path, port, log)
        state = asyncio.run(patient(port, answers))
        process.kill()
        process.wait()
        kills += 1
        if state["done"]:
            break
        for column in state["question"]["columns"]:
            answers[column["name"]] = row[column["name"]]
    same = tuple(state["answer"]["probabilities"]) == expected
    return {"kills": kills, "same_prediction": same}


def main() -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = SUWRClassifier(sparsity_weight=0.01, max_steps=8, max_epochs=10, random_state=0)
    model.fit(X, y)
    rows = X.to_dict("records")
    explanation = model.explain(X)
    longest = max(range(len(X)), key=lambda i: len(explanation[i].steps))
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w") as log:
        path = Path(folder) / "m.suwr"
        model.save(path)
        port = free_port()
        words = ["--workers", str(options.workers), "--quiet"]
        process = start_server(path, port, log, *words)
        try:
            before = os.getloadavg()[0]
            found = asyncio.run(load(port, rows, options.seconds))
        finally:
            os.killpg(process.pid, 9)
            process.wait()
        restarted = killed(path, rows[longest], explanation[longest].prediction, log)
    times = sorted(found["seconds"])
    median = statistics.median(times)
    p99 = times[int(0.99 * len(times))]
    record = {
        **machine(),
        "fastapi": version("fastapi"),
        "uvicorn": version("uvicorn"),
        "clients": CLIENTS,
        "workers": options.workers,
        "duration_seconds": options.seconds,
        "load_average_before": before,
        "requests": len(times),
        "sessions": found["sessions"],
        "errors": found["errors"],
        "requests_per_second": len(times) / options.seconds,
        "median_seconds": median,
        "p99_seconds": p99,
        "p99_over_median": p99 / median,
        "slowest_seconds": times[-1],
        "restarts": restarted,
    }
    write_json(HERE / "load.json", record)
    lines = [
        "# Load of the service\n",
        f"{CLIENTS} clients, each sending its next request as soon as it has the answer, for "
        f"{options.seconds:g} seconds; {options.workers} processes of `suwr serve`, which share",
        f"{record['machine']} with the clients. A model of 30 columns and 3 × 128 hidden units, "
        f"{record['date']}; load average before the start {before:.1f}.\n",
        "| | |",
        "| --- | ---: |",
        f"| requests | {len(times):,} |",
        f"| finished sessions | {found['sessions']:,} |",
        f"| errors | {len(found['errors'])} |",
        f"| requests per second | {record['requests_per_second']:.0f} |",
        f"| median latency, ms | {1000 * median:.0f} |",
        f"| 99th percentile, ms | {1000 * p99:.0f} |",
        f"| 99th percentile / median | {p99 / median:.1f} |",
        f"| slowest, ms | {1000 * times[-1]:.0f} |\n",
        f"Killed and restarted {restarted['kills']} times, between any two answers of one session: "
        f"the prediction is {'the same' if restarted['same_prediction'] else 'different'}.",
    ]
    (HERE / "load.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
