"""The cluster's certificate authority, what it signs, and the kubeconfigs made from that."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=7)


class Authority:
    """Signs for one cluster; everything lies in `folder`, its own certificate as ca.crt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("devcluster-ca", [])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._write("ca.crt", builder.sign(self._key, hashes.SHA256()))

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def issue(
        self,
        name: str,
        user: str,
        groups: list[str] | None = None,
        hosts: list[str] | None = None,
    ) -> tuple[Path, Path]:
        """Certificate and key as NAME.crt and NAME.key, for `user` as a client and, with `hosts`
        (names or addresses), as a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(_name(user, groups or []), key.public_key())
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(alternatives, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return self._write(f"{name}.crt", builder.sign(self._key, hashes.SHA256())), self._key_file(
            name, key
        )

    def key_pair(self, name: str) -> tuple[Path, Path]:
        """A bare key pair: NAME.pub and NAME.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self.folder / f"{name}.pub"
        encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(encoding, form))
        return public, self._key_file(name, key)

    def kubeconfig(
        self, path: Path, server: str, user: str, groups: list[str] | None = None
    ) -> Path:
        """A kubeconfig for `user`, with certificate and key inside."""
        certificate, key = self.issue(path.stem, user, groups)
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "devcluster",
            "contexts": [
                {"name": "devcluster", "context": {"cluster": "devcluster", "user": user}}
            ],
            "clusters": [
                {
                    "name": "devcluster",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _data(self.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _data(certificate),
                        "client-key-data": _data(key),
                    },
                }
            ],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(minutes=5),
            not_valid_after=now + LIFETIME,
        )

    def _write(self, name: str, certificate: x509.Certificate) -> Path:
        path = self.folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def _key_file(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self.folder / f"{name}.key"
        path.touch(mode=0o600)
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        return path


def _name(user: str, groups: list[str]) -> x509.Name:
    """Kubernetes reads the user from the common name and the groups from the organizations."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
