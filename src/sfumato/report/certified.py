"""A release as its certificate describes it, checked again where it lies."""

from __future__ import annotations

import os
from dataclasses import fields

from sfumato.budget import Budget
from sfumato.errors import ParameterError
from sfumato.release.certificate import Certificate, certificate_path
from sfumato.release.publish import Release
from sfumato.release.verify import verify
from sfumato.tables import Table

__all__ = ["certified_release"]

_OF_THE_FILE = ("certificate", "sfumato", "input", "output", "promises")
"""Fields of a certificate that no release has."""


def certified_release(
    output: str | os.PathLike[str], original: Table, *, budget: Budget | None = None
) -> Release:
    """The release that lies at `output`, with its certificate beside it.

    Its promises are measured again; `findings` and `verified` are of now.

    Raises
    ------
    ParameterError
        If the certificate is about another table than `original`.
    PromiseError
        If the certificate was altered.
    """
    certificate = Certificate.read(certificate_path(output))
    body = dict(certificate.body)
    if body["input"]["fingerprint"] != original.fingerprint():
        raise ParameterError(
            "the release was made of another table",
            where=os.fspath(output),
            remedy=f"Give the table it was made of, {body['input']['name']}, unchanged.",
        )
    checked = verify(os.fspath(output), budget=budget)
    own = {field.name for field in fields(Release)} - {"certificate", "output", "details"}
    known = {name: body[name] for name in own if name in body}
    details = {n: v for n, v in body.items() if n not in own and n not in _OF_THE_FILE}
    known["warnings"] = tuple(body.get("warnings", ()))
    return Release(
        **known,
        findings=checked.findings,
        verified=True,
        output=os.fspath(output),
        details=details,
        certificate=certificate,
    )
