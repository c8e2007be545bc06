"""One connection to a Kubernetes cluster: JSON as the API server gives it, errors for a person."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from kubernetes.stream import stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, WSClient

from raypd.lint.subject import mapping, sequence
from raypd.report import UsageError

Json = dict[str, Any]

_SECONDS = (10, 60)  # to connect, and to wait for more of an answer
_PAGE = 500  # objects of a list in one answer, as kubectl asks for them


class Forbidden(UsageError):
    """The server knows the user and does not let them; the message names verb and resource."""


class Refused(UsageError):
    """The server understood and refuses; the message has its own words."""


class Cluster:
    """The cluster of one context of a kubeconfig.

    `kubeconfig` None takes $KUBECONFIG, else ~/.kube/config; `context` None takes the current one.
    Paths are those of the REST API, as "/api/v1/namespaces/inference/pods". Every method raises
    UsageError when the server cannot be reached or does not accept the credentials, and Forbidden
    when the user may not do it.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        """Reads the kubeconfig; connects at the first call. Raises UsageError when there is no
        kubeconfig, when it cannot be read, or when it has no such context."""
        where = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "~/.kube/config")
        settings = client.Configuration()
        # Its default repeats three times, without a pause, what took a whole timeout to fail.
        settings.retries = urllib3.Retry(1)
        try:
            config.load_kube_config(where, context, settings, persist_config=False)
        except (ConfigException, yaml.YAMLError, TypeError, AttributeError, OSError) as error:
            raise UsageError(_unusable(where, context, error)) from error
        self.api: client.ApiClient = client.ApiClient(settings)

    def get(self, path: str, **query: str) -> Json:
        """The object at `path`. Raises LookupError when there is none."""
        return json.loads(self._call("GET", path, query))

    def list(self, path: str, selector: str = "") -> list[Json]:
        """All items at a list's path, with the labels that `selector` asks for, as "a=b,c!=d".

        Items carry no kind and no apiVersion. Raises LookupError when the server has no such kind.
        """
        items: list[Json] = []
        query = {"limit": str(_PAGE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self.get(path, **query)
            items += page["items"] or []
            more = page["metadata"].get("continue")
            if not more:
                return items
            query["continue"] = more

    def logs(
        self, namespace: str, pod: str, container: str, tail: int = 200, previous: bool = False
    ) -> str:
        """The last `tail` lines that the container wrote; `previous` means its run before this one.

        "" when there are none, as for a container that has not started. Raises LookupError when
        there is no such pod.
        """
        query = {"container": container, "tailLines": str(tail)}
        if previous:
            query["previous"] = "true"
        try:
            written = self._call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query)
        except _NotYet:
            return ""
        return written.decode(errors="replace")

    def exec(
        self, namespace: str, pod: str, container: str, command: list[str], seconds: float = 30
    ) -> str:
        """Standard output of a command that runs in the container.

        Raises UsageError when the command cannot be run there, fails (with what it wrote to
        standard error), or takes longer than `seconds`.
        """
        where = _where(namespace, pod, container, command)
        running = self.start(namespace, pod, container, command, stdin=False)
        running.run_forever(timeout=seconds)
        output, complaint = running.read_stdout(timeout=0), running.read_stderr(timeout=0)
        ended = not running.is_open()
        status = running.read_channel(ERROR_CHANNEL, timeout=0)
        running.close()
        if not ended:
            raise UsageError(f"{where} has not ended after {seconds:.0f} s.")
        code, words = _outcome(status)
        if code is None:
            raise UsageError(f"{where} cannot be run: {words}")
        if code:
            raise UsageError(f"{where} ended with {code}: {complaint.strip()}")
        return output

    def start(
        self, namespace: str, pod: str, container: str, command: list[str], stdin: bool = True
    ) -> WSClient:
        """A command that runs in the container, and is spoken to. Raises UsageError where it cannot be."""
        # The stream functions swap a method of the ApiClient while they connect, so it is their own.
        core = client.CoreV1Api(client.ApiClient(self.api.configuration))
        try:
            return stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                container=container,
                command=command,
                stdin=stdin,
                stdout=True,
                stderr=True,
                _preload_content=False,
            )
        except ApiException as error:
            where = _where(namespace, pod, container, command)
            raise UsageError(f"{where} cannot be run: {_words(error.reason or '')}") from error

    def apply(self, manifest: Json) -> Json:
        """Server-side apply with the field manager raypd, which takes fields from other managers.

        Returns the object as it is then. Raises UsageError with the server's words when it refuses
        the manifest, and LookupError when it does not know the kind.
        """
        return json.loads(
            self._call(
                "PATCH",
                self.path_of(manifest),
                {"fieldManager": "raypd", "force": "true"},
                manifest,
                "application/apply-patch+yaml",
            )
        )

    def try_out(self, manifest: Json, strict: bool = True) -> None:
        """Server-side apply as a dry run: all that the server looks at, and nothing is kept.

        `strict` refuses fields that the schema does not know. Raises Refused with the server's words,
        and LookupError when it does not know the kind or the namespace.
        """
        query = {
            "fieldManager": "raypd",
            "force": "true",
            "dryRun": "All",
            "fieldValidation": "Strict" if strict else "Ignore",
        }
        path = self.path_of(manifest)
        self._call("PATCH", path, query, manifest, "application/apply-patch+yaml")

    def create(self, path: str, manifest: Json) -> Json:
        """Posts an object to a list's path and returns what the server makes of it, as for the
        reviews that are answered and not kept. Raises UsageError when it is refused."""
        return json.loads(self._call("POST", path, {}, manifest))

    def delete(self, path: str, **query: str) -> bool:
        """Asks for the end of the object at `path`, which its finalizers may delay; `query` as
        propagationPolicy="Foreground". False when there is no such object."""
        try:
            self._call("DELETE", path, query)
        except LookupError:
            return False
        return True

    def path_of(self, manifest: Json) -> str:
        """The path of the object of a manifest. Raises LookupError when the server does not know
        the kind."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self.get(root)["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                inside = f"namespaces/{metadata['namespace']}/" if resource["namespaced"] else ""
                return f"{root}/{inside}{resource['name']}/{metadata['name']}"
        raise LookupError(f"{version} {kind}")

    @staticmethod
    def wait(condition: Callable[[], bool], seconds: float, pause: float = 1) -> bool:
        """Asks every `pause` seconds until `condition` holds; False when it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
        return True

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = {"Accept": "application/json, */*", "Content-Type": content_type}
        request = self.api.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self.api.call_api(*request, _request_timeout=_SECONDS)
            answer = response.read()
        except (urllib3.exceptions.HTTPError, ApiException) as error:
            raise UsageError(
                f"The API server {self.api.configuration.host} does not answer: "
                f"{_cause(error)}. Is the cluster up, and are you in its network? "
                "`kubectl cluster-info` has to work first; --kubeconfig and --context choose "
                "another cluster."
            ) from error
        if response.status < 400:
            return answer
        raise self._refusal(method, path, response.status, answer)

    def _refusal(self, method: str, path: str, status: int, answer: bytes) -> Exception:
        """The exception for an answer that is none."""
        words = _words(answer.decode(errors="replace"))
        if status == 404:
            return LookupError(words)
        if status == 401:
            return UsageError(
                f"The API server {self.api.configuration.host} does not accept the credentials of "
                "the kubeconfig: they have run out, or the program that gets them has failed. Log "
                "in again; for EKS: `aws eks update-kubeconfig --name CLUSTER --region REGION`."
            )
        if status == 403:
            return Forbidden(
                f"{words}. Ask for that verb on that resource in a Role or ClusterRole, or take "
                "another user with --context."
            )
        if status == 400 and path.endswith("/log"):
            return _NotYet(words)
        return Refused(f"The API server refuses {method} {path} (HTTP {status}): {words}")


class _NotYet(UsageError):
    """The container has written no log yet."""


def _where(namespace: str, pod: str, container: str, command: list[str]) -> str:
    return f"`{' '.join(command)}` in container {container} of pod {namespace}/{pod}"


def _unusable(where: str, context: str | None, error: Exception) -> str:
    """Why no connection can be made of the kubeconfig at `where`, and what to do."""
    files = [Path(part).expanduser() for part in where.split(os.pathsep) if part]
    if not any(file.is_file() for file in files):
        return (
            f"There is no kubeconfig at {where}, so no cluster to talk to. Name one with "
            "--kubeconfig or $KUBECONFIG; for EKS `aws eks update-kubeconfig --name CLUSTER "
            "--region REGION` writes it."
        )
    names = ", ".join(name for file in files for name in _contexts(file))
    if context is not None and names:
        return f"The kubeconfig {where} has no context {context}. It has: {names}."
    chosen = f"Choose a context with --context: {names}." if names else "Write it anew."
    return f"The kubeconfig {where} cannot be used: {error}. {chosen}"


def _contexts(file: Path) -> list[str]:
    """The names of a kubeconfig's contexts; [] where it has none or is no kubeconfig."""
    try:
        return [str(entry["name"]) for entry in yaml.safe_load(file.read_text())["contexts"]]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError):
        return []


def _outcome(status: str) -> tuple[int | None, str]:
    """A command's exit code from the status that Kubernetes sends in the end; None, with the server's
    words, when it was not run, because its container has just ended for example."""
    try:
        said = mapping(json.loads(status))
    except ValueError:
        return None, status or "the connection ended before it did"
    if said.get("status") == "Success":
        return 0, ""
    for cause in map(mapping, sequence(mapping(said.get("details")).get("causes"))):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"]), ""
    return None, str(said.get("message"))


def _words(answer: str) -> str:
    """The message of a Status object, or the answer as it is."""
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.strip()


def _cause(error: Exception) -> str:
    """The innermost reason, without the client's own objects around it."""
    reason = getattr(error, "reason", None) or error
    text = str(getattr(reason, "reason", None) or reason)
    return re.sub(r"^(<[^>]*>|HTTPS?Connection\w*\([^)]*\)): ", "", text).rstrip(".")
