"""Checks an image of scripts/oci-image, and unpacks it.

    image.py IMAGE.tar DOCKERFILE DIRECTORY

Every blob has the digest and the size that it is named by, the layer is the one that the configuration names, and the
configuration is that of the Dockerfile's last stage. Then the files lie in DIRECTORY. Prints the user, and what the
image runs.
"""

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile


def main(image, dockerfile, directory):
    """Checks and unpacks."""
    with tarfile.open(image) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}

    def blob(descriptor):
        content = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"]
        assert len(content) == descriptor["size"]
        return content

    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    (layer,) = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    for_docker = json.loads(files["manifest.json"])[0]
    assert all(path in files for path in [for_docker["Config"], *for_docker["Layers"]])

    with open(dockerfile, encoding="utf-8") as file:
        compare(config["config"], file.read())
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        assert {(entry.uid, entry.gid) for entry in archive} == {(0, 0)}
        archive.extractall(directory)
    print(config["config"]["User"], *config["config"]["Entrypoint"])


def compare(config, dockerfile):
    """Compares a configuration with the instructions of the last stage."""
    joined = re.sub(r"\\\n\s*", " ", dockerfile)
    stage = joined[joined.rindex("\nFROM "):]
    said = {}
    for instruction, rest in re.findall(r"^([A-Z]+) (.*)$", stage, re.MULTILINE):
        said.setdefault(instruction, []).append(rest)
    pairs = lambda text: dict(re.findall(r'([\w.]+)=("[^"]*"|\S+)', text))
    unquoted = {name: value.strip('"') for name, value in pairs(said["LABEL"][0]).items()}
    assert config["Labels"] == unquoted, unquoted
    variables = pairs(said["ENV"][0])
    assert {f"{name}={value}" for name, value in variables.items()} <= set(config["Env"]), variables
    assert said["USER"] == [config["User"]]
    assert [f"{port}/tcp" for port in said["EXPOSE"]] == list(config["ExposedPorts"])
    assert said["STOPSIGNAL"] == [config["StopSignal"]]
    assert [json.loads(said["ENTRYPOINT"][0])] == [config["Entrypoint"]]
    health = config["Healthcheck"]
    flags = dict(re.findall(r"--([a-z-]+)=(\d+)", said["HEALTHCHECK"][0]))
    seconds = {name: int(flags[name]) * 10**9 for name in ("interval", "timeout", "start-period")}
    assert [health["Interval"], health["Timeout"], health["StartPeriod"]] == list(seconds.values())
    assert health["Retries"] == int(flags["retries"])
    command = said["HEALTHCHECK"][0].split(" CMD ")[1]
    assert health["Test"] == ["CMD", *json.loads(command)]


if __name__ == "__main__":
    main(*sys.argv[1:])
