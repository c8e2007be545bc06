"""What a Kubernetes cluster must have: what `raypd up` looks at before an install, and what else a
person wants to know before the nodes are paid for."""
