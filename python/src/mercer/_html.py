"""The HTML representation of a model in notebooks: a table and two charts, without scripts or external files."""

from __future__ import annotations

from html import escape

WIDTH, BAR = 420, 16


def page(title, rows, tuning):
    """HTML of pairs of names and values, and of the tuning report where there is one."""
    if tuning is not None:
        times = tuning["exact_times"], tuning["plan_times"]
        rows = [
            *rows,
            ("contract", f"{tuning['contract']}, for {tuning['aim']}"),
            ("reason", tuning["reason"]),
            ("one query", "{:.2f} → {:.2f} µs".format(*(time["single_us"] for time in times))),
            ("in batches", "{:.2f} → {:.2f} µs".format(*(time["batch_us"] for time in times))),
            (
                "tested",
                f"{tuning['final_test']['queries']} other queries,"
                f" {tuning['final_test']['disagreements']} disagreements with exact",
            ),
        ]
    cells = "".join(f"<tr><th>{escape(str(a))}</th><td>{escape(str(b))}</td></tr>" for a, b in rows)
    table = f"<table><caption>{escape(title)}</caption>{cells}</table>"
    return table if tuning is None else f"<div>{table}{_times(tuning)}{_costs(tuning)}</div>"


def _times(tuning):
    """Bar chart: microseconds per query of every measured plan."""
    tried = sorted(tuning["tried"], key=lambda trial: trial["us"])
    if not tried:
        return ""
    longest = max(trial["us"] for trial in tried) or 1.0
    bars = []
    for place, trial in enumerate(tried):
        top, length = 18 + place * (BAR + 18), 1 + (WIDTH - 2) * trial["us"] / longest
        bars.append(
            f'<text x="0" y="{top}">{escape(trial["plan"])}: {trial["us"]:.2f} µs</text>'
            f'<rect x="0" y="{top + 4}" width="{length:.1f}" height="{BAR - 6}" fill="#4477aa"/>'
        )
    return _svg("time per query of each plan", 14 + len(tried) * (BAR + 18), "".join(bars))


def _costs(tuning):
    """Line chart: costs of queries in increasing order, and the cost of an exact evaluation."""
    costs, exact = tuning["final_test"]["costs"], tuning["final_test"]["exact_cost"]
    if len(costs) < 2 or not exact:
        return ""
    top = max(exact, *costs)
    points = " ".join(
        f"{WIDTH * place / (len(costs) - 1):.1f},{120 - 90 * cost / top:.1f}"
        for place, cost in enumerate(costs)
    )
    level = 120 - 90 * exact / top
    inside = (
        '<text x="0" y="14">multiply-adds, easiest to hardest query; dashed: exact</text>'
        f'<line x1="0" y1="{level:.1f}" x2="{WIDTH}" y2="{level:.1f}" stroke="currentColor"'
        ' stroke-dasharray="4 4"/>'
        f'<polyline points="{points}" fill="none" stroke="#aa3377" stroke-width="2"/>'
    )
    return _svg("cost of queries from the easiest to the hardest", 126, inside)


def _svg(title, height, inside):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' style="max-width:{WIDTH}px;width:100%;display:block" font-size="11" fill="currentColor">'
        f"<title>{escape(title)}</title>{inside}</svg>"
    )
