"""Checks config/grafana-dashboard.json.

    dashboard.py fields FILE    fails if Grafana's own types do not know a field or do not take its value
    dashboard.py rules FILE     prints its expressions as recording rules, for promtool
"""

import json
import sys


def fields(dashboard):
    # Fields unknown to the types are lost in the conversion.
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    understood = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    lost = list(missing(dashboard, understood, "dashboard"))
    assert not lost, "\n".join(lost)

    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids), f"two panels have one id: {ids}"
    cells = {}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, f"{panel['title']} sticks out"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = cells.setdefault((x, y), panel["title"])
                assert other == panel["title"], f"{panel['title']} lies upon {other}"


def missing(wanted, there, path):
    if isinstance(wanted, dict) and isinstance(there, dict):
        for key, value in wanted.items():
            if key in there:
                yield from missing(value, there[key], f"{path}.{key}")
            else:
                yield f"Grafana does not know {path}.{key}"
    elif isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        for index, value in enumerate(wanted):
            yield from missing(value, there[index], f"{path}[{index}]")
    elif wanted != there:
        yield f"Grafana takes {path} for {there!r}, not {wanted!r}"


def rules(dashboard):
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 10, f"only {len(expressions)} expressions"
    record = [
        {"record": f"dashboard:{index}", "expr": filled_in(expression)}
        for index, expression in enumerate(expressions)
    ]
    # JSON is YAML.
    print(json.dumps({"groups": [{"name": "dashboard", "rules": record}]}, indent=1))


def filled_in(expression):
    filled = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
    assert "$" not in filled, f"what is this variable: {expression}"
    return filled


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        {"fields": fields, "rules": rules}[sys.argv[1]](json.load(file))
