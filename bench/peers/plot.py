"""Draws the ratios of cases as SVG: a row for each, with the median, and a line from the least to the most."""

from html import escape
from math import log

ROW = 16
LEFT, WIDTH, TOP = 380, 480, 60
# The ratios that are aimed at, beside one.
MARKS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10)
OURS, THEIRS = "#0072b2", "#d55e00"


def place(ratio):
    """The place of a ratio; one outside of the marks is at an end."""
    part = log(max(ratio, MARKS[0]) / MARKS[0]) / log(MARKS[-1] / MARKS[0])
    return LEFT + WIDTH * min(part, 1.0)


def ratios(entries):
    height = TOP + ROW * len(entries) + 20
    peers = ", ".join(sorted({entry["peer"] for entry in entries}))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{height}"'
           ' font-family="sans-serif" font-size="11">',
           f'<rect width="{LEFT + WIDTH + 60}" height="{height}" fill="white"/>',
           f'<text x="10" y="20">packets per second, ours to those of {escape(peers)}: median, and least to most</text>']
    for mark in MARKS:
        colour = "#000" if mark == 1 else "#ddd"
        out.append(f'<path d="M{place(mark):.1f} {TOP - 10}V{height - 15}" stroke="{colour}"/>'
                   f'<text x="{place(mark):.1f}" y="{TOP - 15}" text-anchor="middle">{mark}</text>')
    for row, entry in enumerate(entries):
        at = TOP + ROW * row + 4
        median, runs = entry["ratio_median"], entry["ratio_runs"]
        colour = OURS if median >= 1 else THEIRS
        out.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{escape(entry["case"])}</text>'
                   f'<path d="M{place(min(runs)):.1f} {at}H{place(max(runs)):.1f}" stroke="{colour}" stroke-width="2"/>'
                   f'<circle cx="{place(median):.1f}" cy="{at}" r="4" fill="{colour}"/>'
                   f'<text x="{LEFT + WIDTH + 8}" y="{at + 4}">{median:.2f}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
