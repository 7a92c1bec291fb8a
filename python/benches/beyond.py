"""Attributions beside shap, prediction sets beside MAPIE and updates beside trainings from the start: all figures of one run.

    python python/benches/beyond.py [--repeats 3]

The three parts are `attributions.py`, `prediction_sets.py` and `updates.py`; this runs them one after the other in one process, and says on
which machine, with which versions and how long.
"""

import argparse
import os
import platform
import time

import mapie
import numpy
import shap
import sklearn

import attributions
import mercer
import prediction_sets
import updates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    packages = {"mercer": mercer, "numpy": numpy, "scikit-learn": sklearn, "shap": shap, "MAPIE": mapie}
    versions = ", ".join(f"{name} {package.__version__}" for name, package in packages.items())
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load not known"
    print(f"Python {platform.python_version()}, {versions}")
    print(f"{os.cpu_count()} processors, {mercer._mercer.instruction_set()}, {load} before")
    start = time.perf_counter()
    for title, run in (
        ("Attributions", lambda: attributions.run(repeats=repeats)),
        ("Prediction sets", lambda: prediction_sets.run(repeats)),
        ("Updates", lambda: updates.run(repeats)),
    ):
        print(f"\n== {title}", flush=True)
        run()
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
