#!/usr/bin/env python3
"""summary.py REPORT: the report of a run (ps-run --report) for people, on one screen."""

import json
import sys


def size(n_bytes):
    """1536000 -> 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return ""


def per_server(report):
    """Bytes that each server served, and how far they are apart; "" when not reported."""
    served = report.get("bytes_served_per_server") or []
    if not served:
        return ""
    apart = 100 * (max(served) - min(served)) / max(served) if max(served) else 0
    return f"{', '.join(size(n) for n in served)} ({apart:.0f} % apart)"


def lines(report):
    """(what, value) of everything that the report has."""
    def has(*keys):
        return all(report.get(k) is not None for k in keys)

    if has("model", "data", "rows_train"):
        yield "trained", f"{report['model']} on {report['data']}, {report['rows_train']} rows"
    if has("servers", "workers", "consistency"):
        yield "cluster", (f"{report['servers']} servers, {report['workers']} workers, "
                          f"{report['consistency']}")
    if has("test_accuracy"):
        yield "test accuracy", f"{report['test_accuracy']:.4f}"
    elif has("test_loss"):
        yield "test loss", f"{report['test_loss']:.4f}"
    if has("examples_per_s", "wall_s"):
        yield "speed", f"{report['examples_per_s']:.0f} examples/s, {report['wall_s']:.1f} s"
    if has("staleness_mean", "staleness_max"):
        bound = report.get("staleness_bound")
        yield "staleness", (f"mean {report['staleness_mean']:.2f}, most {report['staleness_max']}"
                            + (f", bound {bound}" if bound is not None else ""))
    if has("rows_trained_min", "rows_trained_max"):
        yield "each row", (f"trained {report['rows_trained_min']} to "
                           f"{report['rows_trained_max']} times")
    if has("bytes_pushed", "bytes_pulled"):
        yield "traffic", (f"{size(report['bytes_pushed'])} pushed, "
                          f"{size(report['bytes_pulled'])} pulled")
    if per_server(report):
        yield "per server", per_server(report)
    if has("model_path"):
        yield "model", report["model_path"]


def main():
    if len(sys.argv) != 2:
        print("usage: summary.py REPORT", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as stream:
            report = json.load(stream)
    except (OSError, ValueError) as error:
        print(f"summary.py: {sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    for what, value in lines(report):
        print(f"{what + ':':16}{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
