#!/usr/bin/env python3
"""Measured against simulated, on this machine: writes the tables of src/schedule/MEASURED.md to
standard output. Runs `chimera bench schedule` for every depth, with threads and under mpirun, in
rounds one after the other, and prints medians over the rounds.

    scripts/measure_schedules.py build/chimera --rounds 3 > tables.md
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def measure(chimera, transport, depth, steps):
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows.json")
        launcher = ["mpirun", "-n", str(depth)] if transport == "mpi" else []
        command = launcher + [chimera, "bench", "schedule", "-D", str(depth), "--steps", str(steps)]
        subprocess.run(command + ["--json", rows], check=True, stdout=subprocess.DEVNULL)
        with open(rows) as file:
            return [row for row in json.load(file)["rows"] if "refusal" not in row]


def table(head, names, cell):
    lines = ["| schedule | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for name in names:
        lines.append("| " + name + " | " + " | ".join(cell(name, column) for column in head) + " |")
    return "\n".join(lines)


def percent(share):
    return "%.1f" % (100 * share + 1e-9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("chimera", help="the program")
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--transports", nargs="+", default=["local", "mpi"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    a = parser.parse_args()
    measured = {}  # (transport, depth, schedule): rows, one per round
    names = []
    for round_number in range(a.rounds):
        for depth in a.depths:
            for transport in a.transports:
                load = os.getloadavg()[0]
                print(f"round {round_number + 1}, D = {depth}, {transport}: load {load:.1f}", file=sys.stderr)
                for row in measure(a.chimera, transport, depth, a.steps):
                    name = row["schedule"] + (" *" if row["overlapping"] else "")
                    if name not in names:
                        names.append(name)
                    measured.setdefault((transport, depth, name), []).append(row)

    def median(transport, depth, name, key):
        return statistics.median(row[key] for row in measured[transport, depth, name])

    columns = {f"{t} {d}": (t, d) for t in a.transports for d in a.depths}

    def ratio(name, column):
        return "%.3f" % median(*columns[column], name, "ratio") if (*columns[column], name) in measured else ""

    def bubbles(name, column):
        depth = int(column.split()[-1])
        present = [t for t in a.transports if (t, depth, name) in measured]
        if not present:
            return ""
        simulated = median(present[0], depth, name, "simulated_bubble")
        return " / ".join([percent(simulated)] +
                          [percent(median(t, depth, name, "measured_bubble")) for t in present])

    print("Measured / simulated seconds per step:\n")
    print(table(list(columns), names, ratio))
    print("\nBubbles in percent, simulated / measured (" + ", ".join(a.transports) + "):\n")
    print(table([f"D = {d}" for d in a.depths], names, bubbles))


if __name__ == "__main__":
    main()
