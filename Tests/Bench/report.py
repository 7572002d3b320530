"""What was measured, as Markdown."""
import statistics


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "rounds": values}


def summarised(rounds):
    """The metrics of several rounds, each as median, least and most."""
    return {metric: summary([each[metric] for each in rounds]) for metric in rounds[0]}


def ratios(results, name="sallyport"):
    """Cost of `name` as a multiple of nginx's and of the cheapest peer's, round by round."""
    peers = [peer for peer in results if peer != name and not peer.endswith(("-seen", "-root"))]
    if name not in results or not peers:
        return {}
    def over(peer):
        own, others = results[name]["cost"]["rounds"], results[peer]["cost"]["rounds"]
        return summary([a / b for a, b in zip(own, others) if b > 0] or [0])
    best = min(peers, key=lambda peer: results[peer]["cost"]["median"])
    found = {"best peer": {**over(best), "peer": best}}
    if "nginx" in peers:
        found["nginx"] = over("nginx")
    return found


def span(values, digits):
    return "{0:.{3}f} [{1:.{3}f}-{2:.{3}f}]".format(values["median"], values["least"], values["most"], digits)


def table(head, rows):
    lines = [head, ["---"] * len(head)] + rows
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def costs(report):
    names = report["proxies"]
    rows = []
    for label, result in report["results"].items():
        digits = 2 if "MiB" in result["unit"] else 1
        done = result["proxies"]
        cells = [span(done[name]["cost"], digits) if name in done else "can't" for name in names]
        nginx, best = result["ratios"].get("nginx"), result["ratios"].get("best peer")
        rows.append([f"{label}: {result['text']}", result["unit"], *cells, f"{nginx['median']:.2f}" if nginx else "",
                     f"{best['median']:.2f} ({best['peer']})" if best else ""])
    return table(["workload", "unit", *names, "sallyport / nginx", "sallyport / best peer"], rows)


def circumstances(report):
    """Rates, latencies and who was busy: they tell whether a row above can be believed."""
    rows = []
    for label, result in report["results"].items():
        for name, row in result["proxies"].items():
            median = {metric: values["median"] for metric, values in row.items()}
            rows.append([label, name, f"{median['rate']:.0f}", *(
                f"{median[metric]:.0f}" if metric in median else "" for metric in ("p50_us", "p99_us", "p999_us")), *(
                f"{median[metric]:.0%}" for metric in ("proxy_busy", "load_busy", "others_busy"))])
    return table(["workload", "proxy", "units a second", "p50 µs", "p99 µs", "p99.9 µs", "proxy busy", "load busy", "others busy"],
                 rows)


def counted(report):
    rows = []
    for label, proxies in report["counts"].items():
        for name, row in proxies.items():
            libraries = ", ".join(f"{place} {number:,.0f}" for place, number in row["by_library"].items()
                                  if number >= row["instructions"] / 100)
            calls = ", ".join(f"{call} {number:.2f}" for call, number in row["by_call"].items() if number >= 0.01)
            rows.append([label, name, f"{row['instructions']:,.0f}", libraries, f"{row['system_calls']:.2f}", calls])
    return table(["workload", "proxy", "user instructions a unit", "of them in", "system calls a unit", "of them"], rows)


def markdown(report):
    parts = [f"Seen on {report['day']}: {report['machine']}. " + ", ".join(report["versions"].values()) + "."]
    if report["results"]:
        parts += [
            "The proxy's own CPU time (idle: memory) a unit of work, median [least-most] of "
            f"{report['rounds']} interleaved rounds:", costs(report),
            "One CPU is 100 %. Where the load or others were near it, rates and latencies say little.",
            circumstances(report)]
    if report["counts"]:
        parts += ["Counts, which do not depend on what else the machine does:", counted(report)]
    return "\n\n".join(parts)
