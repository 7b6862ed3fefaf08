#!/usr/bin/env python3
"""Runs workload 3 (examples/turboquant.cc) again and again, each run a process of its own, with all
safeties and without retention, and counts the runs that were good.

A run is bad if a result is wrong, the validator reports something, the process crashes, or it does
not end. Prints a Markdown table; exits with 1 where a run with all safeties was bad.
"""
import argparse
import os
import signal
import subprocess
import sys

MODES = {
    "plain": {},
    "validate": {"HOLDFAST_VALIDATE": "1"},
    "adversary": {"HOLDFAST_ADVERSARY": "seed={seed}"},
}
SETTINGS = ["HOLDFAST_VALIDATE", "HOLDFAST_ADVERSARY", "HOLDFAST_ABLATE"]


def outcome(program, options, environment, seconds):
    """'good', or what was bad."""
    clean = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    try:
        run = subprocess.run([program, *options], env={**clean, **environment}, timeout=seconds,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return "hang"
    text = run.stdout.decode(errors="replace")
    if run.returncode == 0:
        return "good"
    if "holdfast validate:" in text:
        return "validator"
    if run.returncode < 0:
        return signal.Signals(-run.returncode).name
    if "WRONG" in text:
        return "wrong"
    return "error"


def cell(outcomes):
    bad = {}
    for what in outcomes:
        if what != "good":
            bad[what] = bad.get(what, 0) + 1
    text = f"{len(outcomes) - sum(bad.values())} / {len(outcomes)}"
    if bad:
        text += " (" + ", ".join(f"{what} {count}" for what, count in sorted(bad.items())) + ")"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="holdfast_example_turboquant of a dev or bench build")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 16, 17, 32])
    parser.add_argument("--tokens", type=int, default=140)
    parser.add_argument("--ablate", default="bound-not-held", help="what a run lacks")
    parser.add_argument("--seconds", type=float, default=300, help="a run that takes longer hangs")
    arguments = parser.parse_args()

    safe = True
    print("| good runs | " + " | ".join(f"{mode}, {which}" for mode in MODES
                                             for which in ("all safeties", "no retention")) + " |")
    print("|---" * (1 + 2 * len(MODES)) + "|")
    for sequences in arguments.sequences:
        row = [f"B = {sequences}"]
        for mode, settings in MODES.items():
            for ablated in (False, True):
                outcomes = []
                for seed in range(1, arguments.runs + 1):
                    environment = {k: v.format(seed=seed) for k, v in settings.items()}
                    if ablated:
                        environment["HOLDFAST_ABLATE"] = arguments.ablate
                    options = ["--sequences", str(sequences), "--tokens", str(arguments.tokens),
                               "--seed", str(seed)]
                    outcomes.append(outcome(arguments.program, options, environment,
                                            arguments.seconds))
                    print(f"\r  {row[0]}, {mode}{', ablated' if ablated else ''}: {cell(outcomes)}",
                          end="\033[K", file=sys.stderr)
                row.append(cell(outcomes))
                if not ablated:
                    safe = safe and all(what == "good" for what in outcomes)
        print("\r\033[K", end="", file=sys.stderr)
        print("| " + " | ".join(row) + " |", flush=True)
    return 0 if safe else 1


if __name__ == "__main__":
    sys.exit(main())
