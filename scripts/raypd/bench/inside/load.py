"""Puts load on an endpoint with vLLM's own generator, `vllm bench serve`.

    python load.py      (runs in the runtime's Python; reads jobs from standard input, a line each)

A job is {"api_key": the endpoint's or null, "parts": [what runs side by side]}, a part {"arguments": those of
`vllm bench serve`, "after": seconds to wait first}. The answer to it is one line on standard output: {"results": [what vLLM hands
back for each part]} or {"error": words}. One process for all jobs, since vLLM takes seconds to import.
"""

import asyncio
import json
import os
import sys
import traceback


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM prints tables of its own

    from vllm.benchmarks.serve import add_cli_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    for line in sys.stdin:
        try:
            answer = {"results": asyncio.run(_job(parser, **json.loads(line)))}
        except (Exception, SystemExit) as error:  # SystemExit: argparse refuses an argument
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


async def _job(parser, parts, api_key):
    # Where vLLM looks for it; as an argument every process of the machine could read it.
    os.environ.pop("OPENAI_API_KEY", None)
    if api_key:
        os.environ["OPENAI_API_KEY"] = api_key
    return await asyncio.gather(*(_part(parser, **part) for part in parts))


async def _part(parser, arguments, after=0.0):
    from vllm.benchmarks.serve import main_async

    parsed = parser.parse_args([*arguments, "--save-detailed", "--disable-tqdm"])
    await asyncio.sleep(after)
    result = await main_async(parsed)
    del result["generated_texts"]
    return result


if __name__ == "__main__":
    main()
