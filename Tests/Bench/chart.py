"""What was measured, as a chart: SVG that a browser and a Markdown page show, in light and dark."""
from xml.sax.saxutils import escape

COLOURS = {"sallyport": "#0f766e", "nginx": "#9aa5b1", "haproxy": "#7b8794", "caddy": "#cbd2d9"}
OTHER = "#b8a37a"
STYLE = """text { font: 13px system-ui, sans-serif; fill: #1f2933 } .small { font-size: 11px }
  .own { font-weight: 600 } line { stroke: #9aa5b1; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) { text { fill: #e4e7eb } line { stroke: #616e7c } }"""
LEFT, WIDTH, BAR, GAP = 110, 460, 15, 18
# A bar that costs more than this many times the best peer is cut off, and its figure says how long it is.
LONGEST = 3.0


def drawn(report):
    """One group of bars a workload: each proxy's cost as a multiple of the cheapest peer's, which is the dashed line."""
    parts, top = [], 34
    scale = WIDTH / LONGEST
    for label, result in report["results"].items():
        costs = {name: row["cost"]["median"] for name, row in result["proxies"].items()}
        peers = [cost for name, cost in costs.items() if not name.startswith("sallyport")] or list(costs.values())
        best = min(peers)
        if best <= 0:
            continue
        parts.append(f'<text x="0" y="{top + BAR}" class="own">{escape(label)}</text>')
        parts.append(f'<text x="0" y="{top + 2 * BAR + 1}" class="small">{escape(result["unit"])}</text>')
        begin = top
        for name, cost in costs.items():
            ratio = cost / best
            length = max(1.0, min(ratio, LONGEST) * scale)
            digits = 2 if cost < 10 else 1 if cost < 100 else 0
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR - 3}" rx="2" '
                         f'fill="{COLOURS.get(name, OTHER)}"/>')
            parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{top + BAR - 5}" '
                         f'class="small{" own" if name == "sallyport" else ""}">'
                         f'{escape(name)} {cost:.{digits}f} ({ratio:.2f})</text>')
            top += BAR
        parts.append(f'<line x1="{LEFT + scale:.1f}" x2="{LEFT + scale:.1f}" y1="{begin - 4}" y2="{top}"/>')
        top += GAP
    title = "The proxy's own cost a unit of work, as a multiple of the cheapest peer's. Shorter is better."
    names = ", ".join(report["versions"].values())
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 170} {top + 12}" role="img">\n'
            f'<title>{escape(title)}</title>\n<style>{STYLE}</style>\n<text x="0" y="16">{escape(title)}</text>\n'
            + "\n".join(parts)
            + f'\n<text x="0" y="{top + 4}" class="small">{escape(report["day"])}: {escape(names)}</text>\n</svg>\n')
