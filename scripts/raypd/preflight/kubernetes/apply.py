"""Every object of the render, tried by the API server without keeping it."""

from __future__ import annotations

from collections.abc import Iterator

from raypd.lint.subject import error
from raypd.live.cluster import Forbidden, Refused
from raypd.live.install.facts import RAY_API
from raypd.preflight.outcome import NotChecked, Outcome, Seen
from raypd.preflight.site import Site
from raypd.report import UsageError

_UNKNOWN_FIELD = (
    "field not declared in schema"  # which an apply refuses at every level of strictness
)


def server_accepts(site: Site) -> Iterator[Outcome]:
    """Server-side apply as a dry run: schemas, admission webhooks and policies, all but keeping it."""
    case = site.kube.case
    if case.facts.namespace is None and "the namespace" not in case.facts.unseen:
        raise NotChecked(f"the namespace {site.namespace} is not there, and a dry run makes none")
    known = case.facts.kinds
    tried = 0
    unseen: dict[str, list[str]] = {}
    for manifest in site.rendered.manifests:
        version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
        title = f"{kind} {manifest['metadata']['name']}"
        if kind not in (known.get(version) or {}):
            continue  # RPD680 and RPD681 say so
        whole = {**manifest, "metadata": {"namespace": site.namespace, **manifest["metadata"]}}
        try:
            # Fields of a RayService that the CRD does not know are told by RPD682, with the remedy.
            site.kube.cluster.try_out(whole, strict=version != RAY_API)
        except Forbidden as refusal:
            unseen.setdefault(str(refusal), []).append(title)
        except Refused as refusal:
            if version == RAY_API and _UNKNOWN_FIELD in str(refusal):
                continue
            yield error(
                "RPD850",
                title,
                f"The API server refuses it: {refusal}",
                "What its words name: a value, a policy of the cluster, or an object of that name "
                "that cannot be changed.",
            )
        except UsageError as failure:
            raise NotChecked(str(failure)) from failure
        tried += 1
    for why, titles in unseen.items():
        yield NotChecked(f"{', '.join(titles)}: {why} (a dry run takes the rights of an install)")
    yield Seen(f"{tried - sum(map(len, unseen.values()))} objects tried")


CHECKS = [("the render, tried by the API server (dry run)", server_accepts)]
