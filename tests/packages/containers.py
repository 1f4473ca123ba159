"""Checks the containers of a compose file or of Kubernetes manifests: the proxy itself reads their settings, and what is
said of ports, probes and labels has to agree.

    containers.py PROXY DOCKERFILE FILE...
"""

import os
import re
import subprocess
import sys
import tempfile

import yaml


def main(proxy, dockerfile, *files):
    of_the_image = dict(re.findall(r"(REDLOCK_PROXY_\w+)=(\S+)", read(dockerfile)))
    # The tests of the documentation compare that page with the settings.
    variables = re.findall(r"REDLOCK_PROXY_\w+", read("docs/configuration.md"))
    for file in files:
        documents = [it for it in yaml.safe_load_all(read(file)) if it]
        containers = list(proxies(documents))
        assert containers, f"{file} has no proxy"
        for name, environment, arguments, mounts in containers:
            environment = of_the_image | environment
            with tempfile.TemporaryDirectory() as directory:
                settings = laid_out(environment, mounts, directory)
                run([proxy, *arguments, "--test-config"], settings)
            # No program reads a misspelled setting.
            unknown = set(environment) - set(variables)
            assert not unknown, f"{file}, {name}: there is no {unknown}"
        agree([it for it in documents if "kind" in it], file)


def run(line, environment):
    answer = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def proxies(documents):
    """Yields name, environment, arguments and mounted directories of each proxy."""
    for document in documents:
        for name, service in document.get("services", {}).items():
            if is_proxy(service):
                yield name, service.get("environment", {}), service.get("command", []), []
        pod = pod_of(document)
        for container in containers_of(pod):
            volumes = {it["name"] for it in pod.get("volumes", [])}
            mounts = container.get("volumeMounts", [])
            assert {it["name"] for it in mounts} <= volumes, f"{mounts} of {volumes}"
            paths = [it["mountPath"] for it in mounts]
            yield container["name"], environment_of(container), container.get("args", []), paths


def is_proxy(container):
    return container["image"].split("/")[-1].startswith("redlock-proxy")


def pod_of(document):
    return document.get("spec", {}).get("template", {}).get("spec", {})


def containers_of(pod):
    return [it for it in pod.get("initContainers", []) + pod.get("containers", []) if is_proxy(it)]


def environment_of(container):
    return {it["name"]: it["value"] for it in container.get("env", [])}


def laid_out(environment, mounts, directory):
    """Puts the files that settings name under a directory of our own, and returns settings that say so.

    The contents of a mounted secret are unknown, so every file in it counts as present.
    """
    moved = dict(environment)
    for name, path in environment.items():
        if any(path.startswith(mount + "/") for mount in mounts):
            moved[name] = directory + path
            os.makedirs(os.path.dirname(moved[name]), exist_ok=True)
            write_secret(moved[name])
    return moved


def write_secret(path):
    certificate, key = (os.path.join(os.path.dirname(path), name) for name in ("tls.crt", "tls.key"))
    if path not in (certificate, key):
        with open(path, "w", encoding="utf-8") as file:
            file.write("secret\n")
    elif not os.path.exists(path):
        request = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=proxy"
        run([*request.split(), "-out", certificate, "-keyout", key], {"PATH": os.environ["PATH"]})


def agree(objects, file):
    """Whatever one object says of another is so."""
    pods = [it["spec"]["template"] for it in objects if pod_of(it)]
    for pod in pods:
        for container in containers_of(pod["spec"]):
            probes_and_ports(container, file)
    services = [it for it in objects if it["kind"] == "Service"]
    for it in objects:
        spec = it["spec"]
        if it["kind"] == "Service":
            (pod,) = selected(spec["selector"], pods)
            ports = [port for container in pod["spec"]["containers"] for port in container["ports"]]
            for port in spec["ports"]:
                assert port["targetPort"] in [known["name"] for known in ports], f"{file}: {port}"
        elif it["kind"] == "PodDisruptionBudget":
            assert selected(spec["selector"]["matchLabels"], pods), file
        elif it["kind"] == "ServiceMonitor":
            (service,) = selected(spec["selector"]["matchLabels"], services)
            names = [port["name"] for port in service["spec"]["ports"]]
            for endpoint in spec["endpoints"]:
                assert endpoint["port"] in names and is_page(endpoint["path"]), f"{file}: {endpoint}"
        elif it["kind"] == "Deployment":
            assert selected(spec["selector"]["matchLabels"], [spec["template"]]), file


def selected(labels, objects):
    return [it for it in objects if labels.items() <= it["metadata"].get("labels", {}).items()]


def probes_and_ports(container, file):
    """Probes ask pages that there are, at the admin port, and a port that is named is one at which the proxy listens."""
    environment = environment_of(container)
    listens = {
        name: int(environment[f"REDLOCK_PROXY_{name}"].rsplit(":", 1)[1])
        for name in ("LISTEN", "TLS_LISTEN", "ADMIN")
        if f"REDLOCK_PROXY_{name}" in environment
    }
    ports = {it["name"]: it["containerPort"] for it in container.get("ports", [])}
    assert set(ports.values()) <= set(listens.values()), f"{file}: {ports}, but {listens}"
    probes = [container[name]["httpGet"] for name in container if name.endswith("Probe")]
    assert probes, f"{file}: no probe"
    for probe in probes:
        assert is_page(probe["path"]), f"{file}: {probe}"
        assert ports.get(probe["port"], probe["port"]) == listens["ADMIN"], f"{file}: {probe}"


def is_page(path):
    return f"| `{path}` |" in read("docs/observing.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
