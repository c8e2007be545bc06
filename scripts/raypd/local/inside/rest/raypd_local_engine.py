"""vLLM's own way to run a function in every engine process, used by local runs.

The folder is put on PYTHONPATH; the dist-info beside this file names the function.
"""

import sys

PAUSE_MICROSECONDS = 10_000


def let_nixl_rest() -> None:
    """NIXL's progress thread waits for data instead of asking for it without a pause.

    NIXL's Python side fixes the pause at 0, which keeps one core of the machine busy for each
    engine: right beside a GPU on 32 cores, ruinous on the two that run everything here. A transfer
    does not wait for the pause to end, since data that arrives wakes the thread.
    """
    from vllm.distributed.nixl_utils import NixlWrapper

    bindings = sys.modules[NixlWrapper.__module__].nixlBind
    agent = bindings.nixlAgent

    def resting_agent(name, config):
        config.pthrDelay = PAUSE_MICROSECONDS
        return agent(name, config)

    bindings.nixlAgent = resting_agent
