"""`raypd verify` from the command's side, against a release whose engines behave as told: real HTTP
messages, metrics in Prometheus' form, logs and counters as they lie in a pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from raypd.live import verify
from raypd.live.proof import counters
from raypd.live.proof.verdicts import Check
from raypd.report import UsageError

RAYSERVICE, RAYCLUSTER = "llm-ray-pd-llm", "llm-ray-pd-llm-abcde"
_TOKENS = "ray_vllm_prompt_tokens_by_source"


@dataclass
class Release:
    """A release and its cluster. `way` is what happens to a prompt: "received", "computed" (by
    decode), "recomputed" (by decode, after a load that failed), "cached" (it was seen before)."""

    way: str = "received"
    prefill: int = 1
    decode: int = 1
    aggregated: bool = False
    backend: str = "UCX"
    made: str = "UCX"
    efa: bool = False
    efa_carries: bool = True
    telemetry: bool = False
    late: int = 0  # scrapes after which a request is counted
    noise: str = ""  # way of another request that comes with every one of ours
    restarts: bool = False  # an engine is replaced by every request
    error: int = 0
    exec_refused: bool = False
    stale: bool = False

    tokens: dict[tuple[str, str], int] = field(default_factory=dict)
    transfers: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    requests: int = 0
    pending: list[tuple[int, Any]] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roles = ("engine",) if self.aggregated else ("prefill", "decode")
        counts = {"engine": 1, "prefill": self.prefill, "decode": self.decode}
        self.names = {role: [f"{role}-{n}" for n in range(counts[role])] for role in roles}
        everyone = ["head-0", *(name for names in self.names.values() for name in names)]
        self.hosts = {name: f"10.0.0.{n}" for n, name in enumerate(everyone, 1)}
        pairs = [
            (p, d) for p in self.names.get("prefill", []) for d in self.names.get("decode", [])
        ]
        self.turn = cycle(pairs)

    # The cluster's side

    def list(self, path: str, selector: str = "") -> list[dict]:
        assert selector == "app.kubernetes.io/instance=llm"
        return (
            [self._rayservice()]
            if path.endswith("rayservices")
            else list(map(self._pod, self.hosts))
        )

    def exec(self, namespace: str, pod: str, container: str, command: list[str]) -> str:
        assert (namespace, container) == ("inference", "ray-worker")
        if self.exec_refused:
            raise UsageError("pods/exec is forbidden")
        if "hw_counters" in command[-1]:
            return self._adapters(pod)
        engine = f"abc-{self.hosts[pod]}-20000"
        lines = [
            f"(Worker pid=7) INFO 12-02 [base_worker.py:250] Initializing NIXL worker {engine}",
            f"(Worker pid=7) 2026-12-02 NIXL INFO _api.py:390 Backend {self.made} was instantiated",
        ]
        if self.stale and self.requests and pod == "decode-0":
            context = {
                "failure_type": "handshake_failed",
                "remote_engine_id": "old-10.0.0.99-20000",
            }
            context |= {"remote_host": "10.0.0.99", "remote_port": 20000}
            lines.append(
                "(Worker pid=7) ERROR 12-02 [base_worker.py:888] NIXL transfer failure:"
                f" handshake_failed | Context: {context}"
            )
        return "\n".join(lines)

    def _rayservice(self) -> dict:
        def config(role: str) -> dict:
            kwargs: dict = {"max_model_len": 4096}
            if role != "engine":
                extra = {"backends": [self.backend]}
                kwargs["kv_transfer_config"] = {"kv_connector_extra_config": extra}
            return {"model_loading_config": {"model_id": "m"}, "engine_kwargs": kwargs}

        args = (
            {"llm_configs": [config("engine")]}
            if self.aggregated
            else {f"{role}_config": config(role) for role in ("prefill", "decode")}
        )
        application = {"name": "llm", "route_prefix": "/", "args": args}
        return {
            "metadata": {"name": RAYSERVICE, "namespace": "inference"},
            "spec": {"serveConfigV2": yaml.safe_dump({"applications": [application]})},
            "status": {"activeServiceStatus": {"rayClusterName": RAYCLUSTER}},
        }

    def _pod(self, name: str) -> dict:
        role = name.partition("-")[0]
        labels = {"app.kubernetes.io/component": role, "ray.io/cluster": RAYCLUSTER}
        env = [{"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {}}}]
        if self.telemetry and role == "decode":
            env.append({"name": "NIXL_TELEMETRY_EXPORTER", "value": "prometheus"})
        if role == "prefill":
            labels["ray.io/serve"] = "true"
        limits = {"vpc.amazonaws.com/efa": "1"} if self.efa and role != "head" else {}
        container = {"name": "ray-worker", "env": env, "resources": {"limits": limits}}
        return {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "spec": {"containers": [container]},
            "status": {"phase": "Running", "podIP": self.hosts[name], "containerStatuses": []},
        }

    def _adapters(self, pod: str) -> str:
        folder = "/sys/class/infiniband/rdmap0s1/ports/1/hw_counters"
        over_efa, over_tcp = (self.moved, 0) if self.efa_carries else (0, self.moved)
        mine = {"decode": "rdma_read_bytes", "prefill": "rdma_read_resp_bytes"}[
            pod.partition("-")[0]
        ]
        return (
            f"{folder}/{mine} {over_efa}\n{folder}/lifespan \n"
            "Inter-|   Receive\n face |bytes    packets\n"
            f"    lo: 99999999 1 0 0\n  eth0: {5000 + over_tcp} 1 0 0\n"
        )

    # The pods' side

    def handle(self, pod: str, port: int, request: httpx.Request) -> httpx.Response:
        if port == 8265:
            replicas = [{"replica_id": f"r{self.requests if self.restarts else 0}"}]
            deployments = {"Decode:m": {"replicas": replicas}}
            return httpx.Response(200, json={"applications": {"llm": {"deployments": deployments}}})
        if port == 8000:
            assert pod in ("head-0", "prefill-0")
            return self._chat(json.loads(request.content))
        if port == 9090:
            return httpx.Response(200, text=self._nixl())
        assert port == 8080
        self._report()
        return httpx.Response(200, text=self._metrics(pod))

    def _chat(self, body: dict) -> httpx.Response:
        assert body["model"] == "m"
        self.requests += 1
        if self.error:
            return httpx.Response(self.error, json={"error": {"message": "engine is dead"}})
        text = body["messages"][0]["content"]
        prompt = len(text) // 4 + 20
        if self.noise:
            self._serve(777, self.noise)
        self._serve(prompt, self.way)
        return httpx.Response(
            200,
            json={
                "id": "1", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}
                ],
                "usage": {"prompt_tokens": prompt, "completion_tokens": 4, "total_tokens": prompt + 4},
            },
        )  # fmt: skip

    def _serve(self, prompt: int, way: str) -> None:
        self.pending.append((self.late, lambda: self._count(prompt, way)))

    def _count(self, prompt: int, way: str) -> None:
        def add(counters: dict, key: Any, value: int) -> None:
            counters[key] = counters.get(key, 0) + value

        if self.aggregated:
            add(self.tokens, ("engine-0", "local_compute"), prompt)
            if way == "received":
                add(self.transfers, "engine-0", 1)
            return
        prefill, decode = next(self.turn)
        if way == "cached":
            add(self.tokens, (prefill, "local_cache_hit"), prompt)
            add(self.tokens, (decode, "local_cache_hit"), prompt)
        elif way == "computed":
            add(self.tokens, (decode, "local_compute"), prompt)
        else:
            add(self.tokens, (prefill, "local_compute"), prompt)
            add(self.tokens, (decode, "external_kv_transfer"), prompt)
            add(self.transfers if way == "received" else self.failed, decode, 1)
            self.moved += prompt * 4096 if way == "received" else 0

    def _report(self) -> None:
        due = [count for left, count in self.pending if left <= 0]
        self.pending = [(left - 1, count) for left, count in self.pending if left > 0]
        for count in due:
            count()

    def _metrics(self, pod: str) -> str:
        lines = [f"# TYPE {_TOKENS} counter"]
        for (place, source), value in self.tokens.items():
            if place == pod:
                lines.append(f'{_TOKENS}_total{{ReplicaId="r",source="{source}"}} {value}')
        if pod in self.failed:
            name = "ray_vllm_nixl_num_failed_transfers"
            lines += [f"# TYPE {name} counter", f"{name}_total {self.failed[pod]}"]
        if done := self.transfers.get(pod):
            for name, edges in (
                ("ray_vllm_nixl_bytes_transferred", ("524288.0", "33554432.0", "+Inf")),
                ("ray_vllm_nixl_xfer_time_seconds", ("0.005", "0.01", "+Inf")),
            ):
                lines.append(f"# TYPE {name} histogram")
                lines += [
                    f'{name}_bucket{{le="{edge}"}} {0 if n == 0 else done}'
                    for n, edge in enumerate(edges)
                ]
                lines += [f"{name}_count {done}", f"{name}_sum 1"]
        return "\n".join(lines) + "\n"

    def _nixl(self) -> str:
        reads = sum(self.transfers.values())
        return (
            f"agent_rx_bytes_total {self.moved}\nagent_rx_requests_num_total {reads}\n"
            f"agent_xfer_time_total {reads * 1000}\n"
        )


@pytest.fixture
def verified(monkeypatch, capsys):
    """Runs the verb on a release; returns its exit code and its JSON."""

    def run(release: Release) -> tuple[int, dict]:
        @contextmanager
        def forward(_: object, namespace: str, pod: str, port: int) -> Iterator[httpx.Client]:
            assert namespace == "inference"
            transport = httpx.MockTransport(lambda request: release.handle(pod, port, request))
            with httpx.Client(transport=transport, base_url=f"http://{pod}:{port}") as client:
                yield client

        for module in (counters, verify):
            monkeypatch.setattr(module, "forward", forward)
        monkeypatch.setattr(verify, "Cluster", lambda *_: release)
        # Nobody waits for real: what is late here is late by scrapes.
        monkeypatch.setattr(counters, "_PAUSE", 0.01)
        monkeypatch.setattr(counters, "_SLACK", 0.2)
        monkeypatch.setattr(counters, "_report_seconds", lambda _: 0.1)
        code = verify.run("llm", "inference", None, None, 30, None, "json")
        return code, json.loads(capsys.readouterr().out)

    return run


def checks(document: dict) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in document["checks"]}


def words(document: dict, name: str) -> str:
    return next(check["words"] for check in document["checks"] if check["name"] == name)


def test_prefill_and_decode_are_apart(verified):
    release = Release()
    code, document = verified(release)
    assert (code, document["proven"]) == (0, True)
    assert checks(document) == {
        "answer": "PASS",
        "disaggregation": "PASS",
        "transfers": "PASS",
        "pairs": "PASS",
        "backend": "PASS",
        "rate": "CANNOT TELL",  # the chart does not export NIXL's telemetry
        "efa": "NOT APPLICABLE",
        "peers": "PASS",
    }
    assert release.requests == 1


def test_nixl_telemetry_gives_the_rate(verified):
    code, document = verified(Release(telemetry=True))
    assert code == 0
    assert checks(document)["rate"] == "PASS"
    assert "GB/s" in words(document, "rate")


def test_counters_that_are_late_are_waited_for(verified):
    code, document = verified(Release(late=4))
    assert code == 0
    assert checks(document)["disaggregation"] == "PASS"


def test_decode_that_computes_is_found(verified):
    code, document = verified(Release(way="computed"))
    assert (code, document["proven"]) == (1, False)
    assert checks(document)["disaggregation"] == "FAIL"
    assert "were computed by decode" in words(document, "disaggregation")


def test_decode_that_computes_after_a_failed_load_is_found(verified):
    """Its tokens are counted as received, and the answer is right."""
    code, document = verified(Release(way="recomputed"))
    assert code == 1
    assert checks(document)["transfers"] == "FAIL"
    assert checks(document)["disaggregation"] == "CANNOT TELL"


def test_a_cache_proves_nothing(verified):
    code, document = verified(Release(way="cached"))
    assert code == 1
    assert checks(document)["disaggregation"] == "CANNOT TELL"


def test_other_traffic(verified):
    code, document = verified(Release(noise="received"))
    assert code == 0
    assert "other requests" in words(document, "disaggregation")
    code, document = verified(Release(noise="computed"))
    assert code == 1
    assert checks(document)["disaggregation"] == "CANNOT TELL"
    code, document = verified(Release(noise="received", way="computed"))
    assert code == 1
    assert checks(document)["disaggregation"] != "PASS"


def test_an_engine_that_is_replaced_meanwhile(verified):
    code, document = verified(Release(restarts=True))
    assert code == 1
    assert "replaced replicas" in words(document, "disaggregation")


def test_every_pair_is_reached(verified):
    release = Release(prefill=2, decode=2)
    code, document = verified(release)
    assert code == 0
    assert checks(document)["pairs"] == "PASS"
    assert "4 of 4 pairs" in words(document, "pairs")
    assert release.requests <= 24


def test_pairs_that_are_not_reached(verified):
    release = Release(prefill=2, decode=2)
    release.turn = cycle([("prefill-0", "decode-1")])
    code, document = verified(release)
    assert code == 0
    assert checks(document)["pairs"] == "CANNOT TELL"
    assert "1 of 4 pairs: prefill-0 -> decode-1" in words(document, "pairs")
    assert release.requests == 24


def test_an_error_is_said_in_the_servers_words(verified):
    code, document = verified(Release(error=500, stale=True))
    assert code == 1
    assert "engine is dead" in words(document, "answer")
    assert checks(document)["disaggregation"] == "CANNOT TELL"
    assert checks(document)["peers"] == "FAIL"  # which is why
    assert "old-10.0.0.99-20000" in words(document, "peers")


def test_the_wrong_backend(verified):
    code, document = verified(Release(backend="LIBFABRIC", made="UCX"))
    assert code == 1
    assert checks(document)["disaggregation"] == "PASS"
    assert checks(document)["backend"] == "FAIL"


def test_without_the_right_to_exec_the_claim_is_still_proven(verified):
    code, document = verified(Release(exec_refused=True))
    assert code == 0
    assert checks(document)["backend"] == checks(document)["peers"] == "CANNOT TELL"
    assert "pods/exec is forbidden" in words(document, "backend")


def test_efa(verified):
    settings = {"backend": "LIBFABRIC", "made": "LIBFABRIC", "efa": True}
    code, document = verified(Release(**settings))
    assert code == 0
    assert checks(document)["efa"] == "PASS"
    code, document = verified(Release(**settings, efa_carries=False))
    assert code == 1
    assert checks(document)["efa"] == "FAIL"


def test_aggregated(verified):
    code, document = verified(Release(aggregated=True, way="computed"))
    assert code == 0
    assert checks(document) == {
        "answer": "PASS",
        "aggregation": "PASS",
        "backend": "NOT APPLICABLE",
        "rate": "NOT APPLICABLE",
        "efa": "NOT APPLICABLE",
        "peers": "NOT APPLICABLE",
    }
    code, document = verified(Release(aggregated=True, way="received"))
    assert code == 1
    assert checks(document)["aggregation"] == "FAIL"


def test_no_release(verified, monkeypatch):
    release = Release()
    monkeypatch.setattr(release, "list", lambda *_: [])
    with pytest.raises(UsageError, match="no release llm"):
        verified(release)


def test_a_release_that_does_not_serve(verified):
    release = Release()
    for name in release.names["decode"]:
        del release.hosts[name]
    with pytest.raises(UsageError, match="no pod runs as decode"):
        verified(release)


def test_prompts_fit_and_are_new_each_time():
    for context in (1024, 4096, 131_072):
        for number in (1, 6):
            made = verify.prompts(number, context)
            assert len(set(made) | set(verify.prompts(number, context))) == 2 * number
            assert all(200 < len(prompt) <= context // 2 for prompt in made)
            heads = {prompt[:32] for prompt in made}
            assert len(heads) == number  # no beginning to share but the chat template's


def test_what_a_person_sees(capsys):
    release = SimpleNamespace(
        namespace="inference", model="m", engines={"prefill": [1], "decode": [1]}
    )
    check = Check("disaggregation", verify.Verdict.FAIL, "decode [computed] 400")
    verify._print("llm", verify.Verification(release, check, [check]))
    shown = capsys.readouterr().out
    assert "m of inference/llm: 1 prefill and 1 decode" in shown
    assert "decode [computed] 400" in shown
    assert "Not proven." in shown
