"""What has to be known before a release goes onto a cluster, what its upgrade does, and how its start is
watched."""
