"""The model on the Hub: there, readable, and small enough."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from raypd.preflight.hub import gated_access, model_there, token_valid, weights_fit
from raypd.preflight.site import Site
from unit.preflight.simulated import Pages, codes, only, outcomes, seen, site, unseen, values

HUB = "https://huggingface.co"
MODEL = "Qwen/Qwen3.5-9B"
SECRET = {"existingSecret": {"name": "hf-token", "key": "HF_TOKEN"}}


def on(pages: Pages, token: str | None = None, **blocks: Any) -> Site:
    return site(web=pages.web, token=token, values=values(**blocks))


def test_a_token_that_the_hub_knows(pages: Pages) -> None:
    pages.put(f"{HUB}/api/whoami-v2", {"name": "ann"})
    found = outcomes(token_valid, on(pages, "hf_good"))
    assert (codes(found), seen(found)) == ([], "the token of ann")


def test_a_token_that_it_does_not(pages: Pages) -> None:
    pages.put(f"{HUB}/api/whoami-v2", status=401)
    finding = only(outcomes(token_valid, on(pages, "hf_old")), "RPD841")
    assert "hf_old" not in finding.message


def test_no_token_is_not_checked(pages: Pages) -> None:
    assert "$HF_TOKEN is not set" in unseen(outcomes(token_valid, on(pages)))


def test_a_model_that_is_there(pages: Pages) -> None:
    pages.model()
    assert seen(outcomes(model_there, on(pages))) == f"{MODEL} at c0ffeec0ffee"


@pytest.mark.parametrize("status", [401, 404])
def test_a_model_that_is_not(pages: Pages, status: int) -> None:
    pages.put(f"{HUB}/api/models/{MODEL}/revision/main", status=status)
    assert MODEL in only(outcomes(model_there, on(pages)), "RPD840").message


def test_a_revision_that_is_not(pages: Pages) -> None:
    pages.model()
    where = on(pages, model={"revision": "refs/pr/9"})
    assert "at refs/pr/9" in only(outcomes(model_there, where), "RPD840").message
    assert pages.asked[-1].endswith("/revision/refs%2Fpr%2F9")


def test_a_bad_token_does_not_hide_a_public_model(pages: Pages) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        refused = "Authorization" in request.headers
        return httpx.Response(401) if refused else httpx.Response(200, json={"sha": "1" * 40})

    pages.pages[f"{HUB}/api/models/{MODEL}/revision/main"] = answer
    assert codes(outcomes(model_there, on(pages, "hf_old"))) == []


def test_the_hub_is_asked_once_about_the_model(pages: Pages) -> None:
    pages.model()
    where = on(pages)
    for check in (model_there, gated_access, weights_fit):
        outcomes(check, where)
    assert len(pages.asked) == 1


@pytest.mark.parametrize("source", ["/cache/my-model", "s3://bucket/model", "gpt2"])
def test_a_model_from_elsewhere_is_not_checked(pages: Pages, source: str) -> None:
    found = outcomes(model_there, on(pages, model={"source": source}))
    assert "no repository of the Hub" in unseen(found)


def test_offline_engines_need_no_hub(pages: Pages) -> None:
    found = outcomes(model_there, on(pages, huggingface={"offline": True}))
    assert "offline" in unseen(found)


def test_a_hub_out_of_reach_is_not_checked(pages: Pages) -> None:
    for check in (model_there, gated_access, weights_fit):
        found = outcomes(check, on(pages))
        assert codes(found) == []
        assert "huggingface.co does not answer" in unseen(found)


def test_a_hub_that_limits_the_rate_is_not_checked(pages: Pages) -> None:
    pages.put(f"{HUB}/api/models/{MODEL}/revision/main", status=429)
    assert "HTTP 429" in unseen(outcomes(model_there, on(pages)))


def test_a_mirror_is_asked_instead(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.test/")
    pages.put(f"https://mirror.test/api/models/{MODEL}/revision/main", {"sha": "a" * 40})
    assert codes(outcomes(model_there, on(pages))) == []


def test_a_model_for_everybody(pages: Pages) -> None:
    pages.model()
    assert seen(outcomes(gated_access, on(pages))) == "not gated"


def test_a_gated_model_that_the_token_may_read(pages: Pages) -> None:
    pages.model(gated="manual")
    pages.put(f"{HUB}/api/models/{MODEL}/auth-check")
    found = outcomes(gated_access, on(pages, "hf_good", huggingface=SECRET))
    assert (codes(found), seen(found)) == ([], "gated, and this token may read it")


def test_a_gated_model_that_the_token_may_not_read(pages: Pages) -> None:
    pages.model(gated="auto")
    pages.put(f"{HUB}/api/models/{MODEL}/auth-check", status=403)
    finding = only(outcomes(gated_access, on(pages, "hf_good", huggingface=SECRET)), "RPD843")
    assert f"{HUB}/{MODEL}" in finding.remedy


def test_a_gated_model_without_a_token_for_the_pods(pages: Pages) -> None:
    pages.model(gated="auto")
    found = outcomes(gated_access, on(pages))
    assert only(found, "RPD842").path == "huggingface.existingSecret.name"
    assert "could try it" in unseen(found)


def test_a_private_model_needs_a_token_as_well(pages: Pages) -> None:
    pages.model(private=True)
    assert "is private" in only(outcomes(gated_access, on(pages)), "RPD842").message


def test_weights_on_the_nodes_nvme(pages: Pages) -> None:
    pages.model()
    found = outcomes(weights_fit, on(pages))
    assert codes(found) == []
    assert seen(found) == "18.0 GB of weights; the NVMe of a g6.8xlarge has 900.0 GB"


@pytest.mark.parametrize(
    ("cache", "what"),
    [
        (
            {"type": "persistentVolumeClaim", "persistentVolumeClaim": {"size": "15Gi"}},
            "the claim has 16.1 GB",
        ),
        ({"type": "emptyDir", "emptyDir": {"sizeLimit": "10G"}}, "the emptyDir has 10.0 GB"),
    ],
)
def test_weights_that_the_cache_is_too_small_for(
    pages: Pages, cache: dict[str, Any], what: str
) -> None:
    pages.model()
    assert what in only(outcomes(weights_fit, on(pages, cache=cache)), "RPD844").message


@pytest.mark.parametrize(
    "cache",
    [
        {"type": "persistentVolumeClaim", "persistentVolumeClaim": {"existingClaim": "w"}},
        {"type": "emptyDir", "emptyDir": {"sizeLimit": ""}},
        {"hostPath": {"path": "/data"}},
    ],
)
def test_a_cache_of_unknown_size_is_not_checked(pages: Pages, cache: dict[str, Any]) -> None:
    pages.model()
    found = outcomes(weights_fit, on(pages, cache=cache))
    assert codes(found) == []
    assert "18.0 GB of weights" in seen(found)
    assert unseen(found)


def test_only_what_an_engine_loads_is_counted(pages: Pages) -> None:
    files = {
        "model.safetensors": 10e9,
        "pytorch_model.bin": 10e9,
        "original/consolidated.00.pth": 10e9,
        "tokenizer.json": 1e9,
    }
    siblings = [{"rfilename": name, "size": int(size)} for name, size in files.items()]
    pages.model(siblings=siblings)
    assert "11.0 GB of weights" in seen(outcomes(weights_fit, on(pages)))
    pages.model(siblings=[{"rfilename": "model.safetensors"}])
    assert "no sizes" in unseen(outcomes(weights_fit, on(forgetful(pages))))


def forgetful(pages: Pages) -> Pages:
    """The same answers to a client that has asked nothing yet."""
    fresh = Pages()
    fresh.pages = pages.pages
    return fresh
