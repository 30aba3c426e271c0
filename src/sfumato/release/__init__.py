"""Releases: written once, read back, verified by code that did not make them, and certified."""

from sfumato.release.certificate import Certificate
from sfumato.release.promise import Finding, Promise
from sfumato.release.publish import Release, publish, rehearse

__all__ = ["Certificate", "Finding", "Promise", "Release", "publish", "rehearse"]
