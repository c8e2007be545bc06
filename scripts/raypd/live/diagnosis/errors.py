"""Errors of engines that raypd knows the way out of, by the words of the libraries that raise them.

Words of vLLM 0.26 (v1/core/kv_cache_utils.py, v1/worker/utils.py), PyTorch 2.11, huggingface_hub 1.x
and transformers 5, Ray 2.58, and NIXL 1.3 (nixl/_api.py, libnixl, libplugin_LIBFABRIC).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Match = re.Match[str]


@dataclass(frozen=True)
class Known:
    """One kind of error: what it `says` and the `remedy`, or what makes them of the words that
    `pattern` found. {role} in a remedy stands for the values' block of the engine that has it."""

    code: str
    pattern: re.Pattern[str]
    says: str | Callable[[Match], str]
    remedy: str | Callable[[Match], str]


@dataclass(frozen=True)
class Explained:
    """A known error in its own words: `code`, what it means, and what to do."""

    code: str
    message: str
    remedy: str


def explain(words: str) -> Explained | None:
    """What the error means; None when it is not known. `words` may be a whole log or traceback."""
    for known in _KNOWN:
        if found := known.pattern.search(words):
            said, remedy = (
                part if isinstance(part, str) else part(found)
                for part in (known.says, known.remedy)
            )
            return Explained(known.code, said, remedy)
    return None


def _fits(found: Match) -> str:
    shorter = (
        f"model.maxModelLen {found['longest']} or less"
        if found["longest"]
        else "A shorter model.maxModelLen"
    )
    return (
        f"{shorter}, a higher {{role}}.gpuMemoryUtilization, or more GPUs for the engine "
        "({role}.parallelism.tensor, {role}.instanceType)."
    )


def _no_room(found: Match) -> str:
    longest = f" The longest that fits is {found['longest']} tokens." if found["longest"] else ""
    return (
        f"The GPU has no room for one request of model.maxModelLen {found['wanted']}: its KV cache "
        f"takes {found['needed']} GiB, and {found['room']} GiB are left beside the weights.{longest}"
    )


_LARGER = (
    "A larger GPU or more of them ({role}.instanceType, {role}.parallelism.tensor), or a quantized "
    "model."
)
_TOKEN = (
    "Accept the model's conditions on its page at huggingface.co, and give the token of that account "
    "in a Secret: huggingface.existingSecret."
)


def _backend(found: Match) -> str:
    name = found["unsupported"] or found["failed"] or found["missing"]
    what = {
        "unsupported": "its plugin, or a library that the plugin needs, cannot be loaded",
        "failed": "it finds nothing to work with",
        "missing": "NIXL has no plugin of that name",
    }
    (why,) = (text for group, text in what.items() if found[group])
    return f"NIXL cannot use the backend {name}: {why}. No KV cache can move."


def _backend_remedy(found: Match) -> str:
    name = found["unsupported"] or found["failed"] or found["missing"]
    if name == "LIBFABRIC":
        return (
            "An image with libfabric and its EFA provider, as AWS's serve-llm-cuda; pods with EFA "
            "interfaces (transport.efa.interfacesPerPod). To go without EFA: transport.fabric tcp."
        )
    return "An image with that plugin's libraries; the backend comes from transport.fabric."


_KNOWN = [
    Known(
        "RPD651",
        re.compile(
            r"max seq len \((?P<wanted>\d+)\), \((?P<needed>[\d.]+) GiB KV cache is needed, which is "
            r"larger than the available KV cache memory \((?P<room>[\d.]+) GiB\)"
            r"(?:\. Based on the available memory, the estimated maximum model length is "
            r"(?P<longest>\d+))?"
        ),
        _no_room,
        _fits,
    ),
    Known(
        "RPD651",
        re.compile(r"No available memory for the cache blocks"),
        "The weights fill the GPU: no memory is left for a KV cache.",
        _LARGER,
    ),
    Known(
        "RPD652",
        re.compile(
            r"Free memory on device \S+ \((?P<free>[\d.]+)/(?P<all>[\d.]+) GiB\) on startup is less "
            r"than desired GPU memory utilization \([\d.]+, (?P<wanted>[\d.]+) GiB\)"
        ),
        lambda found: (
            f"Of the GPU's {found['all']} GiB only {found['free']} are free when the engine starts, "
            f"and it wants {found['wanted']}: another process holds the rest."
        ),
        (
            "The end of the other process: `nvidia-smi` on the node; an engine that was killed may "
            "leave one behind. Else a lower {role}.gpuMemoryUtilization."
        ),
    ),
    Known(
        "RPD652",
        re.compile(
            r"CUDA out of memory\. Tried to allocate (?P<wanted>[\d.]+ \w+)"
            r"(?:.*?total capacity of (?P<all>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free)?"
        ),
        lambda found: (
            f"The GPU is full: {found['wanted']} more were wanted"
            + (f", and of {found['all']} {found['free']} were free." if found["all"] else ".")
        ),
        (
            "Less beside the KV cache: a lower {role}.gpuMemoryUtilization or "
            "{role}.maxNumBatchedTokens. Where the weights do not fit: more GPUs "
            "({role}.parallelism.tensor, {role}.instanceType)."
        ),
    ),
    Known(
        "RPD653",
        re.compile(r"gated repo|GatedRepoError|Access to model \S+ is restricted"),
        (
            "The model is gated, and Hugging Face does not give it to the pod's token, or the pod "
            "has none."
        ),
        _TOKEN,
    ),
    Known(
        "RPD653",
        re.compile(r"Invalid credentials in Authorization header|Invalid username or password"),
        "Hugging Face does not accept the pod's token.",
        _TOKEN,
    ),
    Known(
        "RPD654",
        re.compile(r"Revision Not Found|RevisionNotFoundError|is not a valid git identifier"),
        "The model has no such revision.",
        "model.revision with a branch, tag or commit that the repository has.",
    ),
    Known(
        "RPD654",
        re.compile(
            r"Repository Not Found|RepositoryNotFoundError|is not a valid model identifier|"
            r"is not a local folder|HFValidationError"
        ),
        (
            "There is no such model, or it is private and the pod's token may not see it: Hugging "
            "Face answers both alike."
        ),
        (
            "model.source as `owner/name` of a repository or as a path under cache.mountPath; for a "
            "private one a token in huggingface.existingSecret."
        ),
    ),
    Known(
        "RPD655",
        re.compile(
            r"offline mode is enabled|OfflineModeIsEnabled|outgoing traffic has been disabled|"
            r"outgoing traffic is disabled"
        ),
        "The weights are not in the cache, and huggingface.offline forbids fetching.",
        (
            "huggingface.offline false for the first start, or the weights under cache.mountPath "
            "(cache.prefetch)."
        ),
    ),
    Known(
        "RPD655",
        re.compile(
            r"couldn't connect to '(?P<hub>[^']+)'|LocalEntryNotFoundError|"
            r"Max retries exceeded with url|429 (?:Client Error|Too Many Requests)|"
            r"httpx\.Connect(?:Error|Timeout)"
        ),
        (
            "The pod cannot fetch the model: the hub does not answer, or sends it away as one of too "
            "many."
        ),
        (
            "A way from the pods to huggingface.co (NAT gateway, proxy in model.env), a token against "
            "the limits for the nameless, or weights that are there: cache.prefetch, model.source."
        ),
    ),
    Known(
        "RPD656",
        re.compile(r"No space left on device|Disk quota exceeded"),
        "The disk is full.",
        (
            "A larger disk under cache (hostPath: the node's NVMe; a larger claim), or old models "
            "out of it. /dev/shm is full where the words name it: "
            "{role}.sharedMemory."
        ),
    ),
    Known(
        "RPD659",
        re.compile(r"Permission denied: '(?P<path>[^']+)'"),
        lambda found: f"The engine's user may not write {found['path']}.",
        (
            "cache.hostPath.setOwner true, which gives the folder to the engine's user; for a claim, "
            "a driver that minds fsGroup."
        ),
    ),
    Known(
        "RPD657",
        re.compile(
            r"driver on your system is too old(?: \(found version (?P<version>\d+)\))?|"
            r"driver version is insufficient|forward compatibility was attempted|"
            r"unsupported display driver"
        ),
        lambda found: (
            "The node's NVIDIA driver is too old for the CUDA of the image"
            + (f" (it is made for CUDA {_cuda(found['version'])})." if found["version"] else ".")
        ),
        (
            "Nodes with a driver for CUDA 13 (580 or newer): a newer EKS image of the node group. "
            "Or an image made for an older CUDA."
        ),
    ),
    Known(
        "RPD658",
        re.compile(
            r"No CUDA GPUs are available|Found no NVIDIA driver|Failed to infer device type|"
            r"libcuda\.so\.1: cannot open|CUDA_ERROR_NO_DEVICE|no CUDA-capable device"
        ),
        "The engine finds no GPU in its container.",
        (
            "The GPU in the pod's limits (runtime.device cuda) and the NVIDIA container runtime on "
            "the node: `kubectl exec` into the pod and run nvidia-smi; {role}.instanceType with a GPU."
        ),
    ),
    Known(
        "RPD633",
        re.compile(r"InvalidCxxCompiler|Failed to find C compiler|No working C\+\+ compiler"),
        "The image has no compiler, which Triton and TorchInductor need at run time.",
        ("An image with gcc or g++; else model.engineArgs.enforce_eager true, which is slower."),
    ),
    Known(
        "RPD661",
        re.compile(r"NIXL is not available"),
        (
            "vLLM finds no NIXL: the package nixl, which it imports, is missing in the image or does "
            "not fit the CUDA of nixl-cu12 or nixl-cu13 beside it."
        ),
        ("An image with nixl and nixl-cu13 of one version, as files/versions.yaml has."),
    ),
    Known(
        "RPD660",
        re.compile(
            r"createBackend: unsupported backend '(?P<unsupported>\w+)'|"
            r"createBackend: backend (?:initialization|creation) (?:error|failed) for '(?P<failed>\w+)'|"
            r"Skipping backend registration (?P<missing>\w+) due to the missing plugin"
        ),
        _backend,
        _backend_remedy,
    ),
    Known(
        "RPD664",
        re.compile(r"NIXL compatibility hash mismatch"),
        (
            "Prefill and decode do not agree on what the KV cache looks like (model, data type, "
            "block size, versions), so decode does not take prefill's."
        ),
        (
            "The same image and the same model block on both sides; what a role's engineArgs change "
            "must be in both. Then a new pod for both: `raypd up`."
        ),
    ),
    Known(
        "RPD665",
        re.compile(
            r"(?:Address already in use|EADDRINUSE)(?: \(addr='tcp://(?P<address>[^']+)'\))?"
        ),
        lambda found: (
            f"The port {found['address']} is taken."
            if found["address"]
            else "A port that the engine wants to listen on is taken."
        ),
        (
            "Port bases that are free and far enough apart: transport.ports. On a restart the "
            "process before may still hold it: `kubectl delete pod` of it."
        ),
    ),
    Known(
        "RPD631",
        re.compile(r"killed due to the node running low on memory"),
        (
            "Ray's memory monitor has killed a process of the engine, because the pod's memory was "
            "nearly used up."
        ),
        "More in {role}.resources.memory.",
    ),
]


def _cuda(version: str) -> str:
    """CUDA's number as its API has it ("12080"), as people write it ("12.8")."""
    return f"{int(version) // 1000}.{int(version) % 1000 // 10}"
