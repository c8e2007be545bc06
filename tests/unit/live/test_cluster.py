"""The connection to a cluster, against an API server of a few answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from raypd.live.cluster import Cluster, Forbidden, Refused
from raypd.report import UsageError

PODS = "/api/v1/namespaces/inference/pods"


class Server(ThreadingHTTPServer):
    """`answers` by path: a status and an object or a text; `asked` has every request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, object]] = {}
        self.asked: list[tuple[str, str, dict[str, list[str]], bytes, dict[str, str]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def answer(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(url.query)
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.server.asked.append((self.command, url.path, query, body, headers))
        status, content = self.server.answers.get(url.path, (404, {"message": "not found"}))
        if callable(content):
            content = content(query)
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(timeout=10)


def kubeconfig(folder: Path, address: str, **changes: object) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": {"server": address}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
        **changes,
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def cluster(server: Server, tmp_path: Path) -> Cluster:
    return Cluster(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}"))


def test_an_object_as_it_is_with_the_users_token(cluster, server):
    server.answers[f"{PODS}/a"] = (200, {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}})
    assert cluster.get(f"{PODS}/a") == {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}
    assert server.asked[0][4]["authorization"] == "Bearer secret"


def test_a_list_over_several_pages(cluster, server):
    def page(query):
        if "continue" in query:
            return {"items": [{"n": 2}], "metadata": {}}
        return {"items": [{"n": 1}], "metadata": {"continue": "more"}}

    server.answers[PODS] = (200, page)
    assert cluster.list(PODS, "a=b,c!=d") == [{"n": 1}, {"n": 2}]
    assert all(query["labelSelector"] == ["a=b,c!=d"] for _, _, query, _, _ in server.asked)


def test_an_empty_list_may_be_null(cluster, server):
    server.answers[PODS] = (200, {"items": None, "metadata": {}})
    assert cluster.list(PODS) == []


def test_what_is_not_there_is_a_lookup_error(cluster):
    with pytest.raises(LookupError, match="not found"):
        cluster.get(f"{PODS}/none")


def test_forbidden_names_verb_and_resource(cluster, server):
    words = 'pods is forbidden: User "me" cannot list resource "pods" in API group "" in ...'
    server.answers[PODS] = (403, {"kind": "Status", "message": words})
    with pytest.raises(Forbidden, match='cannot list resource "pods"') as refusal:
        cluster.list(PODS)
    assert "Role" in str(refusal.value)


def test_credentials_that_have_run_out(cluster, server):
    server.answers[PODS] = (401, {"message": "Unauthorized"})
    with pytest.raises(UsageError, match="update-kubeconfig"):
        cluster.list(PODS)


def test_another_refusal_has_the_servers_words(cluster, server):
    server.answers[PODS] = (500, {"message": "etcdserver: request timed out"})
    with pytest.raises(UsageError, match="etcdserver: request timed out"):
        cluster.list(PODS)


def test_logs(cluster, server):
    server.answers[f"{PODS}/a/log"] = (200, "one\ntwo\n")
    assert cluster.logs("inference", "a", "ray-head", tail=50, previous=True) == "one\ntwo\n"
    _, _, query, _, _ = server.asked[0]
    assert query == {"container": ["ray-head"], "tailLines": ["50"], "previous": ["true"]}


def test_a_container_that_has_not_started_has_no_log(cluster, server):
    words = 'container "ray-head" in pod "a" is waiting to start: ContainerCreating'
    server.answers[f"{PODS}/a/log"] = (400, {"message": words})
    assert cluster.logs("inference", "a", "ray-head") == ""


RESOURCES = {
    "resources": [
        {"name": "deployments/status", "kind": "Deployment", "namespaced": True},
        {"name": "deployments", "kind": "Deployment", "namespaced": True},
        {"name": "clusterthings", "kind": "ClusterThing", "namespaced": False},
    ]
}


def manifest(kind="Deployment"):
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}}


def test_apply_is_server_side(cluster, server):
    path = "/apis/apps/v1/namespaces/b/deployments/a"
    server.answers |= {"/apis/apps/v1": (200, RESOURCES), path: (200, {"applied": True})}
    assert cluster.apply(manifest()) == {"applied": True}
    method, asked, query, body, headers = server.asked[-1]
    assert (method, asked) == ("PATCH", path)
    assert query == {"fieldManager": ["raypd"], "force": ["true"]}
    assert json.loads(body) == manifest()
    assert headers["content-type"] == "application/apply-patch+yaml"


@pytest.mark.parametrize(("strict", "validation"), [(True, "Strict"), (False, "Ignore")])
def test_a_dry_run_keeps_nothing(cluster, server, strict, validation):
    path = "/apis/apps/v1/namespaces/b/deployments/a"
    server.answers |= {"/apis/apps/v1": (200, RESOURCES), path: (200, {})}
    cluster.try_out(manifest(), strict)
    method, asked, query, body, _ = server.asked[-1]
    assert (method, asked, json.loads(body)) == ("PATCH", path, manifest())
    assert (query["dryRun"], query["fieldValidation"]) == (["All"], [validation])


def test_a_refusal_is_told_from_a_server_that_is_away(cluster, server):
    path = "/apis/apps/v1/namespaces/b/deployments/a"
    words = {"message": "spec.x: unknown field"}
    server.answers |= {"/apis/apps/v1": (200, RESOURCES), path: (422, words)}
    with pytest.raises(Refused, match="unknown field"):
        cluster.try_out(manifest())


def test_paths_of_kinds(cluster, server):
    server.answers["/apis/apps/v1"] = (200, RESOURCES)
    assert cluster.path_of(manifest("ClusterThing")) == "/apis/apps/v1/clusterthings/a"
    with pytest.raises(LookupError, match="NoSuchKind"):
        cluster.path_of(manifest("NoSuchKind"))


def test_delete(cluster, server):
    server.answers[f"{PODS}/a"] = (200, {"status": "Success"})
    assert cluster.delete(f"{PODS}/a", propagationPolicy="Foreground")
    assert not cluster.delete(f"{PODS}/none")
    method, _, query, _, _ = server.asked[0]
    assert (method, query) == ("DELETE", {"propagationPolicy": ["Foreground"]})


def test_waiting_ends_in_time(cluster):
    looks = iter([False, False, True])
    assert cluster.wait(lambda: next(looks), seconds=5, pause=0)
    assert not cluster.wait(lambda: False, seconds=0.05, pause=0.01)


def test_exec_where_the_server_does_not_take_it(cluster):
    with pytest.raises(UsageError, match="`ls -l` in container c of pod inference/a cannot be run"):
        cluster.exec("inference", "a", "c", ["ls", "-l"])


class Ended:
    """What a command leaves: its output, its complaint, and the status that Kubernetes sends last."""

    def __init__(self, status: str) -> None:
        self.status = status

    def run_forever(self, timeout: float) -> None:
        pass

    def is_open(self) -> bool:
        return False

    def read_stdout(self, timeout: float) -> str:
        return "out"

    def read_stderr(self, timeout: float) -> str:
        return "no such file"

    def read_channel(self, channel: int, timeout: float) -> str:
        return self.status

    def close(self) -> None:
        pass


GONE = 'unable to upgrade connection: container not found ("ray-worker")'
EXIT = {
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "2"}]},
}
LOST = {"message": GONE, "details": {"causes": [{"message": GONE}]}}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (json.dumps({"status": "Success"}), None),
        (json.dumps({"status": "Failure", **EXIT}), "ended with 2: no such file"),
        (json.dumps({"status": "Failure", **LOST}), "cannot be run: unable to upgrade connection"),
        (
            json.dumps({"status": "Failure", "message": "gone", "details": None}),
            "cannot be run: gone",
        ),
        ("", "cannot be run: the connection ended"),
        ("[1]", "cannot be run"),
    ],
)
def test_what_a_command_came_to(cluster, monkeypatch, status, words):
    monkeypatch.setattr("raypd.live.cluster.stream", lambda *_, **__: Ended(status))
    if words is None:
        assert cluster.exec("inference", "a", "c", ["ls"]) == "out"
    else:
        with pytest.raises(UsageError, match=words):
            cluster.exec("inference", "a", "c", ["ls"])


def test_a_server_that_does_not_answer(tmp_path):
    away = Cluster(kubeconfig(tmp_path, "https://127.0.0.1:1"))
    with pytest.raises(UsageError, match="does not answer") as error:
        away.get("/version")
    assert "Connection refused" in str(error.value)
    assert "object at 0x" not in str(error.value)


def test_no_kubeconfig(tmp_path):
    with pytest.raises(UsageError, match=r"There is no kubeconfig at .*--kubeconfig"):
        Cluster(tmp_path / "none")


def test_the_variable_names_the_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "http://127.0.0.1:1")))
    assert Cluster().api.configuration.host == "http://127.0.0.1:1"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="There is no kubeconfig"):
        Cluster()


def test_an_unknown_context_and_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"has no context two\. It has: one\."):
        Cluster(kubeconfig(tmp_path, "http://127.0.0.1:1"), "two")


def test_a_kubeconfig_without_a_current_context(tmp_path):
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", **{"current-context": "gone"})
    with pytest.raises(UsageError, match="--context: one"):
        Cluster(path)


@pytest.mark.parametrize("content", ["", "just words", "a: [", "contexts: 7"])
def test_a_kubeconfig_that_is_none(tmp_path, content):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(UsageError, match="cannot be used"):
        Cluster(path)
