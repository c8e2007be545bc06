"""Whether a server keeps the contract of OpenAI's API, as the official client and raw HTTP see it.

A check is a function that takes an Endpoint and yields outcomes: what is Wrong, and what it has Seen.
Where there is nothing to judge it raises NotApplicable. Adding one is writing it and naming it, with a
title, in its file's CHECKS, and adding to tests/unit/conformance/misbehaviours/ a server that it
finds wrong. A check judges the contract (fields, counts, reasons, order, equality), never what a
model says. A deviation that is known upstream has an entry in data/conformance.yaml.
"""
