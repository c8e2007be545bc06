"""What the devcluster's authority signs is what TLS and Kubernetes read out of it."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cluster.devcluster.certificates import Authority
from raypd import yaml_text


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def _handshake(
    authority: Authority, server: tuple[Path, Path], client: tuple[Path, Path], name: str
):
    """The subject that the server sees of the client, after both have checked each other."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_cert_chain(*server)
    asking = ssl.create_default_context(cafile=authority.certificate)
    asking.load_cert_chain(*client)
    ends = socket.socketpair()
    seen = []

    def serve() -> None:
        try:
            with serving.wrap_socket(ends[0], server_side=True) as connection:
                seen.append(connection.getpeercert())
                connection.sendall(b"hello")
        except ssl.SSLError:
            ends[0].close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with asking.wrap_socket(ends[1], server_hostname=name) as connection:
            assert connection.recv(5) == b"hello"
    finally:
        ends[1].close()
        thread.join(10)
    return {key: value for ((key, value),) in seen[0]["subject"]}


def test_server_and_client_accept_each_other(authority):
    server = authority.issue("server", "server", hosts=["10.77.0.1", "kubernetes.default.svc"])
    client = authority.issue("node", "system:node:gpu-a", ["system:nodes"])
    for name in ("10.77.0.1", "kubernetes.default.svc"):
        subject = _handshake(authority, server, client, name)
        assert subject["commonName"] == "system:node:gpu-a"
        assert subject["organizationName"] == "system:nodes"


def test_another_name_is_refused(authority):
    server = authority.issue("server", "server", hosts=["10.77.0.1"])
    client = authority.issue("client", "admin")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(authority, server, client, "10.78.0.1")


def test_another_authority_is_refused(authority, tmp_path):
    server = Authority(tmp_path / "other").issue("server", "server", hosts=["10.77.0.1"])
    client = authority.issue("client", "admin")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(authority, server, client, "10.77.0.1")


def test_kubeconfig_holds_user_server_and_authority(authority, tmp_path):
    path = authority.kubeconfig(
        tmp_path / "kubeconfig", "https://10.77.0.1:6443", "admin", ["masters"]
    )
    written = yaml_text.load(path.read_text())
    (cluster,), (user,) = written["clusters"], written["users"]
    assert cluster["cluster"]["server"] == "https://10.77.0.1:6443"
    data = cluster["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == authority.certificate.read_bytes()
    certificate = x509.load_pem_x509_certificate(
        base64.b64decode(user["user"]["client-certificate-data"])
    )
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "admin"


def test_keys_are_for_their_owner_alone(authority, tmp_path):
    _, key = authority.issue("client", "admin")
    path = authority.kubeconfig(tmp_path / "kubeconfig", "https://10.77.0.1:6443", "admin")
    for secret in (key, path, authority.key_pair("service-accounts")[1]):
        assert secret.stat().st_mode & 0o077 == 0
