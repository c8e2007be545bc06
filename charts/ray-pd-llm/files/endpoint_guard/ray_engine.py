"""What Ray Serve LLM asks when it starts an engine (`callback_config`, Ray 2.56 to 2.60)."""

import logging

from ray.llm._internal.common.callbacks.base import CallbackBase

logger = logging.getLogger("ray.serve")


class NoDownload(CallbackBase):
    """Of a model that the engine itself finds or downloads: a folder, or a repository of a hub.

    Ray begins each start with a task that downloads from object storage (Ray 2.58,
    llm/_internal/serve/utils/node_initialization_utils.py). A process of its own imports all that an
    engine imports, the engine waits for it, and it finds nothing to do. To leave it out like this is
    in Ray's documentation of callbacks.
    """

    async def on_before_node_init(self) -> None:
        self.ctx.run_init_node = False
        logger.info("Nothing to download from object storage: the engine starts at once")
