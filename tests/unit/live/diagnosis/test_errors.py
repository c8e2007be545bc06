"""Errors of the libraries in their own words, and what raypd makes of them."""

from __future__ import annotations

import pytest

from raypd.live.diagnosis.errors import explain

SHORT_OF_KV = (
    "ValueError: To serve at least one request with the model's max seq len (32768), (4.5 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (1.12 GiB). Based on the "
    "available memory, the estimated maximum model length is 8144. Try increasing "
    "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing "
    "`max_model_len` when initializing the engine."
)


@pytest.mark.parametrize(
    ("words", "code", "says", "remedy"),
    [
        (SHORT_OF_KV, "RPD651", "The longest that fits is 8144", "model.maxModelLen 8144 or less"),
        (
            SHORT_OF_KV.replace(
                "Based on the available memory, the estimated maximum model length is 8144. ", ""
            ),
            "RPD651",
            "4.5 GiB, and 1.12 GiB are left",
            "A shorter model.maxModelLen",
        ),
        (
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine",
            "RPD651",
            "weights fill the GPU",
            "quantized model",
        ),
        (
            "ValueError: Free memory on device cuda:0 (3.2/21.95 GiB) on startup is less than desired "
            "GPU memory utilization (0.9, 19.76 GiB). Decrease GPU memory utilization or reduce GPU "
            "memory used by other processes.",
            "RPD652",
            "21.95 GiB only 3.2 are free",
            "nvidia-smi",
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a "
            "total capacity of 21.95 GiB of which 312.12 MiB is free. Process 4711 has 21.64 GiB "
            "memory in use.",
            "RPD652",
            "594.00 MiB more were wanted, and of 21.95 GiB 312.12 MiB were free",
            "gpuMemoryUtilization",
        ),
        (
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
            "https://huggingface.co/meta-llama/Llama-3.1-8B.\n401 Client Error.",
            "RPD653",
            "gated",
            "huggingface.existingSecret",
        ),
        (
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1)\n\nCannot "
            "access gated repo for url https://huggingface.co/api/models/x. Access to model x is "
            "restricted and you are not in the authorized list.",
            "RPD653",
            "gated",
            "conditions",
        ),
        (
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)"
            "\n\nRepository Not Found for url: https://huggingface.co/api/models/Qwen/Qwen9.",
            "RPD654",
            "no such model, or it is private",
            "model.source",
        ),
        (
            "huggingface_hub.errors.RevisionNotFoundError: 404 Client Error.\n\nRevision Not Found "
            "for url: https://huggingface.co/api/models/Qwen/Qwen3.5-9B/revision/v9",
            "RPD654",
            "no such revision",
            "model.revision",
        ),
        (
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/x: "
            "offline mode is enabled. To disable it, please unset the `HF_HUB_OFFLINE` environment "
            "variable.",
            "RPD655",
            "huggingface.offline forbids",
            "huggingface.offline false",
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
            "find them in the cached files.",
            "RPD655",
            "cannot fetch the model",
            "cache.prefetch",
        ),
        ("OSError: [Errno 28] No space left on device", "RPD656", "disk is full", "larger disk"),
        (
            "PermissionError: [Errno 13] Permission denied: '/cache/vllm'",
            "RPD659",
            "/cache/vllm",
            "cache.hostPath.setOwner",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please "
            "update your GPU driver by downloading and installing a new version",
            "RPD657",
            "CUDA 12.8",
            "580",
        ),
        ("RuntimeError: No CUDA GPUs are available", "RPD658", "no GPU", "instanceType"),
        (
            "torch._inductor.exc.InvalidCxxCompiler: No working C++ compiler found in "
            "torch._inductor.config.cpp.cxx: (None, 'g++')",
            "RPD633",
            "no compiler",
            "gcc",
        ),
        ("RuntimeError: NIXL is not available", "RPD661", "no NIXL", "nixl-cu13"),
        (
            "E0301 11:59:06.513791    6350 nixl_agent.cpp:322] createBackend: unsupported backend "
            "'LIBFABRIC'",
            "RPD660",
            "NIXL cannot use the backend LIBFABRIC: its plugin, or a library",
            "transport.fabric tcp",
        ),
        (
            "2026-03-01 11:59:15 NIXL WARNING _api.py:238 Skipping backend registration LIBFABRICS "
            "due to the missing plugin.",
            "RPD660",
            "no plugin of that name",
            "transport.fabric",
        ),
        (
            "RuntimeError: NIXL compatibility hash mismatch. Local: 1, Remote: 2. Prefill and decode "
            "instances have incompatible configurations.",
            "RPD664",
            "do not agree",
            "both sides",
        ),
        (
            "zmq.error.ZMQError: Address already in use (addr='tcp://10.0.3.30:22000')",
            "RPD665",
            "port 10.0.3.30:22000 is taken",
            "transport.ports",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
            "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
            "RPD665",
            "port that the engine wants",
            "transport.ports",
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "RPD631",
            "memory monitor",
            "resources.memory",
        ),
    ],
)
def test_known_errors(words, code, says, remedy):
    known = explain(words)
    assert known is not None
    assert known.code == code
    assert says in known.message
    assert remedy in known.remedy


def test_an_unknown_error_is_not_explained():
    assert explain("TypeError: 'NoneType' object is not subscriptable") is None
