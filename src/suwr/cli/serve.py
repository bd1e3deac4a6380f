"""``suwr serve``: the options of the HTTP service."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from suwr.cli.arguments import MeanFeatures, Model, report_errors
from suwr.cli.options import check_model

__all__ = ["serve"]


@report_errors
def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
    max_bytes: Annotated[int, typer.Option(help="Size of the body of a request.")] = 1_000_000,
    max_rows: Annotated[int, typer.Option(help="Rows per request.")] = 1000,
    seconds: Annotated[float, typer.Option(help="Time limit of a request.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log errors only.")] = False,
    mean_features: MeanFeatures = None,
) -> None:
    """Serve a model over HTTP: next questions, predictions, explanations, FHIR.

    No value of a request is logged. TLS and authentication are left to a proxy.
    """
    check_model(model)
    # Each process computes one request at a time; more threads would only compete.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from suwr.deploy.app import Limits, run_server

    limits = Limits(max_bytes=max_bytes, max_rows=max_rows, seconds=seconds)
    run_server(
        model, host=host, port=port, workers=workers, mean_features=mean_features, limits=limits,
        quiet=quiet,
    )  # fmt: skip
