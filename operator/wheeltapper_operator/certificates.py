"""The webhook's certificate and the authority behind it: what is to be made anew, and when. Pure but for the keys.

A client that trusts the old authority must never meet a certificate of the new one: a new authority is told about
first, and signs only after :data:`SETTLE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_FOR = timedelta(days=3650)
CERTIFICATE_FOR = timedelta(days=90)
"""Renewed when a third of it is left: a month in which a cluster may be without any operator."""

SETTLE = timedelta(hours=1)
"""From a new authority to its first certificate: every API server has read the new bundle long before."""

SKEW = timedelta(minutes=10)
"""Clocks of two machines may differ by so much."""

CERTIFICATE, KEY = "tls.crt", "tls.key"
BUNDLE, AUTHORITY_KEY = "ca.crt", "ca.key"

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def renewed(files: Files, hosts: Sequence[str], now: datetime) -> dict[str, bytes] | None:
    """Return what is to stand in the place of *files* at *now* (UTC); None when they are good as they are.

    The bundle holds every authority that has not run out, the newest last; ``ca.key`` is the newest one's.
    """
    bundle = [each for each in _certificates(files.get(BUNDLE, b"")) if each.not_valid_after_utc > now]
    newest = _newest(bundle, files.get(AUTHORITY_KEY, b""))
    made = newest is None or newest.certificate.not_valid_after_utc - now < AUTHORITY_FOR / 2
    if newest is None or made:
        newest = _make_authority(now)
        bundle.append(newest.certificate)
    served = _served(files, bundle, hosts, now)
    due = served is None or served.not_valid_after_utc - now < CERTIFICATE_FOR / 3
    has_settled = now - newest.certificate.not_valid_before_utc - SKEW >= SETTLE
    signs = due and (has_settled or served is None)
    if not made and not signs:
        return None
    pair = _sign(newest, hosts, now) if signs else {name: files[name] for name in (CERTIFICATE, KEY)}
    return {BUNDLE: b"".join(map(_pem, bundle)), AUTHORITY_KEY: _key_pem(newest.key), **pair}


def _newest(bundle: Sequence[x509.Certificate], key: bytes) -> _Authority | None:
    try:
        loaded = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not bundle or not isinstance(loaded, ec.EllipticCurvePrivateKey):
        return None
    return _Authority(bundle[-1], loaded) if bundle[-1].public_key() == loaded.public_key() else None


def _served(
    files: Files, bundle: Sequence[x509.Certificate], hosts: Sequence[str], now: datetime
) -> x509.Certificate | None:
    """Return the certificate that stands there; None when nobody could rely on it."""
    found = _certificates(files.get(CERTIFICATE, b""))
    try:
        key = serialization.load_pem_private_key(files.get(KEY, b""), None)
        names = found[0].extensions.get_extension_for_class(x509.SubjectAlternativeName) if found else None
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return None
    if names is None or found[0].public_key() != key.public_key() or found[0].not_valid_after_utc <= now:
        return None
    if set(names.value.get_values_for_type(x509.DNSName)) != set(hosts):
        return None
    return found[0] if any(_is_of(found[0], each) for each in bundle) else None


def _is_of(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature):
        return False
    return True


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _make_authority(now: datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own: a client looks an issuer up by it.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"wheeltapper {now:%Y-%m-%dT%H:%M:%SZ}")])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(name, name, key, now, AUTHORITY_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Authority(builder.sign(key, hashes.SHA256()), key)


def _sign(authority: _Authority, hosts: Sequence[str], now: datetime) -> dict[str, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wheeltapper webhook")])
    issuer = authority.certificate
    builder = (
        _builder(subject, issuer.subject, key, now, CERTIFICATE_FOR)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return {CERTIFICATE: _pem(builder.sign(authority.key, hashes.SHA256())), KEY: _key_pem(key)}


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + lasts)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
