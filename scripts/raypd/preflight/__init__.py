"""What account, registry, hub and cluster must have before anything is created or paid for.

A check is a function that takes a Site and yields outcomes: findings, and what it has Seen. Where it
cannot look it raises NotChecked, or yields it and goes on. Adding one is writing it and naming it, with
a title, in its file's CHECKS; its codes get entries in data/rules.yaml, the calls that it makes one in
docs/preflight/iam-policy.json or docs/preflight/rbac.yaml.
"""
