"""Has the proxy itself check the settings that the containers of a compose file or of Kubernetes manifests give it.

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
        containers = list(proxies(list(yaml.safe_load_all(read(file)))))
        assert containers, f"{file} has no proxy"
        for name, environment, arguments, mounts in containers:
            environment = of_the_image | environment
            with tempfile.TemporaryDirectory() as directory:
                run([proxy, *laid_out(arguments, mounts, directory), "--test-config"], environment)
            # No program reads a misspelled setting.
            unknown = set(environment) - set(variables)
            assert not unknown, f"{file}, {name}: there is no {unknown}"


def run(line, environment):
    answer = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def proxies(documents):
    for document in documents:
        for name, service in document.get("services", {}).items():
            if service["image"].startswith("redlock-proxy"):
                yield name, service.get("environment", {}), service.get("command", []), {}
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            if container["image"].startswith("redlock-proxy"):
                environment = {it["name"]: it["value"] for it in container.get("env", [])}
                mounts = dict(mounted(container, pod, documents))
                yield container["name"], environment, container.get("args", []), mounts


def mounted(container, pod, documents):
    maps = {it["metadata"]["name"]: it["data"] for it in documents if it["kind"] == "ConfigMap"}
    volumes = {it["name"]: it for it in pod.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        volume = volumes[mount["name"]]
        if "configMap" in volume:
            yield mount["mountPath"], maps[volume["configMap"]["name"]]
        else:
            # The contents of a secret are unknown, so every file in it counts as present.
            yield mount["mountPath"], None


def laid_out(arguments, mounts, directory):
    """Puts what is mounted under a directory of our own, and says so in the arguments."""
    for path, files in mounts.items():
        for name, text in (files or {}).items():
            write(directory + path, name, moved(text, mounts, directory))
            for place, secret in asked_for(text, mounts):
                write(directory + place, secret, "secret\n")
    return [moved(argument, mounts, directory) for argument in arguments]


def asked_for(text, mounts):
    for path, files in mounts.items():
        if files is None:
            yield from ((path, name) for name in re.findall(re.escape(path) + r"/([\w.-]+)", text))


def moved(text, mounts, directory):
    for path in mounts:
        text = text.replace(path + "/", f"{directory}{path}/")
    return text


def write(directory, name, text):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
