"""What pods may: users, the service account, and a head that offers itself to engines."""

from __future__ import annotations

from raypd.importer.draft import Draft
from raypd.importer.read import Original
from raypd.lint.subject import GPU, mapping, quantity


def rights(draft: Draft, original: Original) -> None:
    """Fills securityContext and serviceAccount."""
    head = mapping(original.subject.head.pod.get("securityContext"))
    for key in ("runAsUser", "fsGroup"):
        value = head.get(key)
        if isinstance(value, int) and value > 0:
            draft.put(f"securityContext.{key}", value)
    for group in original.homes.values():
        own = mapping(group.ray_container.get("securityContext"))
        if own.get("readOnlyRootFilesystem") is True:
            draft.put("securityContext.readOnlyRootFilesystem", True)
    account = original.subject.head.pod.get("serviceAccountName")
    account = account if isinstance(account, str) else None
    made = {
        str(m["metadata"]["name"]): m
        for m in original.others
        if m.get("kind") == "ServiceAccount" and mapping(m.get("metadata")).get("name")
    }
    if account in made:
        annotations = mapping(made[account]["metadata"].get("annotations"))
        if annotations:
            draft.put("serviceAccount.annotations", annotations)
    if account in made or account == original.name:
        if account != original.name:
            draft.put("serviceAccount.name", account)
    else:
        draft.put("serviceAccount.create", False, "the manifest's pods take one that is there")
        if account and account != "default":
            draft.put("serviceAccount.name", account)


def head_devices(draft: Draft, original: Original) -> None:
    """A head that offers CPUs or GPUs to Ray: the chart's runs no engine."""
    head = original.subject.head
    if head.path in {group.path for group in original.homes.values()}:
        message = "The engines run on the head; the chart gives them pods of their own, and the head none."
    elif head.gpus:
        message = f"The head takes {head.gpus:g} GPU(s), where an engine may land by luck; the chart's head has none."
    elif quantity(head.start_params.get("num-cpus", head.cpus)):
        message = "The head offers CPUs to Ray, so that replicas land beside the control plane; the chart's offers none."
    else:
        return
    draft.changed("RPD766", f"{head.path}.rayStartParams.num-cpus", message, "Nothing to do.")
    draft.told.add(f"{head.path}.rayStartParams.num-gpus")
    for place in ("limits", "requests"):
        draft.told.add(f'{head.pod_path}.containers[0].resources.{place}["{GPU}"]')
