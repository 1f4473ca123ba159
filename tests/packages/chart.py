"""Has Helm itself check and render the charts.

    chart.py check CHART.tgz DIRECTORY        # one file for each set of values, for those who check manifests
    chart.py manifests CHART.tgz DIRECTORY    # config/kubernetes, which nobody writes by hand
"""

import os
import re
import shutil
import sys
import tempfile

import helm_python as helm
import yaml

MASTERS = ["redis-a.example.org:6379", "redis-b.example.org:6379", "redis-c.example.org:6379"]

# Sets of values with which pools are rendered.
POOLS = {
    "plain": {"masters": MASTERS},
    "password": {"masters": MASTERS, "password": {"secret": "redlock-proxy"}},
    "settings": {
        "masters": MASTERS,
        "settings": {
            "data": "redis://data.example.org:6379",
            "lock-keys": ["lock:*", "semaphore:*"],
            "vote-timeout": "20ms",
            "max-clients": 10000000,
            "drift": 0.02,
            "allow-flush": True,
        },
    },
    "shards": {"settings": {"shards": ["a=a1:6379,a2:6379,a3:6379", "b=b1:6379,b2:6379,b3:6379"]}},
    "certificates": {
        "masters": MASTERS,
        "settings": {
            "tls-listen": "0.0.0.0:6380",
            "tls-cert-file": "/etc/redlock-proxy/tls/tls.crt",
            "tls-key-file": "/etc/redlock-proxy/tls/tls.key",
        },
        "volumes": [{"name": "tls", "secret": {"secretName": "proxy-tls"}}],
        "volumeMounts": [{"name": "tls", "mountPath": "/etc/redlock-proxy/tls", "readOnly": True}],
    },
    "everything": {
        "masters": MASTERS,
        "image": {"repository": "registry.example.org/redlock-proxy", "tag": "next", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "password": {"secret": "clients", "key": "password"},
        "pool": {
            "replicas": 2,
            "service": {"type": "LoadBalancer", "port": 16379, "annotations": {"example.org/internal": "true"}},
            "annotations": {"example.org/team": "locks"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "locks", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
        },
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
}

# What the chart has to refuse, and a word of the reason.
REFUSED = {
    "name the masters": {},
    "masters": {"masters": "redis-a.example.org:6379"},
    "vote-timout": {"masters": MASTERS, "settings": {"vote-timout": "20ms"}},
    "listen": {"masters": MASTERS, "settings": {"listen": "127.0.0.1:6379"}},
    "replicaCount": {"masters": MASTERS, "replicaCount": 2},
    "not both": {"masters": MASTERS, "settings": {"shards": ["a=a1:6379,a2:6379,a3:6379"]}},
}

# Settings that the chart makes, and those that are of no use in a container.
NOT_OF_OPERATORS = {"masters", "listen", "admin", "requirepass", "requirepass-file", "protected-mode", "handover"}

POOL_HEAD = """\
# A pool of proxies behind one Service, for masters that run elsewhere. Clients use redlock-proxy:6379.
#
# The masters must be independent. Three Services in front of one Redis are not, and neither are the replicas of a
# StatefulSet that share a disk. Each proxy needs the same list. A secret holds the password for clients:
#
#     kubectl create secret generic redlock-proxy --from-literal=requirepass=...
#
# `UPDATE_DOCS=1 make test-packages` renders this file from config/helm/redlock-proxy.
"""
SIDECAR_HEAD = """\
# `UPDATE_DOCS=1 make test-packages` renders this file from config/helm/application.
#
"""


def check(archive, directory):
    """Checks the charts, and renders the pools and the application."""
    with helm.Chart.load(archive) as chart:
        settings_are_those_of_the_proxy(chart)
        for name, values in POOLS.items():
            lint(archive, values)
            text = render(chart, values, "redlock-proxy")
            write(directory, name, text)
            write(f"{directory}/built-in", name, without_extensions(text))
        for reason, values in REFUSED.items():
            refuses(chart, values, reason)
        with_another_name(chart)
        notes(chart)
    for name, values in [("application", {}), ("application-password", {"redlock-proxy": {"password": {"secret": "it"}}})]:
        text = render_application(archive, values)
        write(directory, name, text)
        write(f"{directory}/built-in", name, text)


def lint(chart, values):
    """Lints as `helm lint --strict`: an icon is all that the chart may lack."""
    report = helm.lint(chart, values, strict=True)
    found = [it["error"] for it in report["messages"] if it["error"] != "icon is recommended"]
    assert not found and not report["errors"], (found, report["errors"])


def settings_are_those_of_the_proxy(chart):
    """No setting is missing in the schema, and none is only there."""
    with open("docs/configuration.md", encoding="utf-8") as page:
        variables = set(re.findall(r"\| `REDLOCK_PROXY_(\w+)` \|", page.read()))
    settings = {name.lower().replace("_", "-") for name in variables} - NOT_OF_OPERATORS
    schema = set(chart.schema["properties"]["settings"]["propertyNames"]["enum"])
    assert schema == settings, f"missing: {settings - schema}, unknown: {schema - settings}"


def refuses(chart, values, reason):
    """Neither a user who forgets something, nor one who misspells it, gets a proxy that does not know."""
    try:
        chart.render(values, name="redlock-proxy")
    except helm.HelmError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(f"rendered, although {reason}")


def with_another_name(chart):
    """Two releases in one namespace have nothing in common."""
    names = [{it["metadata"]["name"] for it in parse(render(chart, POOLS["plain"], name))} for name in ("one", "other")]
    assert names == [{"one-redlock-proxy"}, {"other-redlock-proxy"}], names


def notes(chart):
    """They say where clients connect, and warn of a pool that needs no password."""
    for values, warns in [(POOLS["plain"], True), (POOLS["password"], False)]:
        text = chart.render(values, name="redlock-proxy", namespace="locks")["redlock-proxy/templates/NOTES.txt"]
        assert "redlock-proxy.locks.svc:6379" in text and ("no password" in text) == warns, text


def render(chart, values, name):
    """Returns the objects as one YAML text, in the order in which they are easiest to read."""
    chart.validate_schema(chart.merge_values(values))
    files = chart.render(values, name=name)
    texts = [text.strip() for path, text in sorted(files.items()) if path.endswith(".yaml") and text.strip()]
    return "\n---\n".join(sorted(texts, key=lambda text: ORDER.index(parse(text)[0]["kind"]))) + "\n"


def without_extensions(text):
    """Leaves out objects for which Kubernetes itself has no schema."""
    return yaml.safe_dump_all(it for it in parse(text) if not it["apiVersion"].startswith("monitoring.coreos.com"))


ORDER = ["Deployment", "Service", "PodDisruptionBudget"]


def render_application(archive, values):
    """Renders config/helm/application as its author would: with the chart that it depends on."""
    with tempfile.TemporaryDirectory() as directory:
        application = shutil.copytree("config/helm/application", f"{directory}/application")
        helm.expand(directory, archive)
        helm.dependency_update(application)
        lint(application, values)
        with helm.Chart.load(application) as chart:
            return render(chart, values, "application")


def manifests(archive, directory):
    """Renders config/kubernetes."""
    with helm.Chart.load(archive) as chart:
        write(directory, "pool", POOL_HEAD + render(chart, POOLS["password"], "redlock-proxy"))
    write(directory, "sidecar", SIDECAR_HEAD + render_application(archive, {}))


def parse(text):
    """Returns the objects of a YAML text."""
    return [it for it in yaml.safe_load_all(text) if it]


def write(directory, name, text):
    """Writes a file."""
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/{name}.yaml", "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    {"check": check, "manifests": manifests}[sys.argv[1]](*sys.argv[2:])
