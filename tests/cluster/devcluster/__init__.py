"""A real Kubernetes on this one machine, without Docker: what eksctl/g6.yaml would make, in miniature.

One control plane, three nodes with a kubelet, a containerd and kube-router's firewall each, CoreDNS
and the KubeRay operator. Everything lives in namespaces below one process, so that ending this
process ends all of it.
"""
