"""Who has run a job at a site, when, and how large: verified.yaml next to accounts.yaml.

`lab site verify` writes it. The profiles of the template stay as they are, and a name of yours
does not get into a repository.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

import yaml

from ...project import read_yaml
from ...record.files.atomic import write_file
from ..schedulers import scheduler_of
from .site import Site, user_file

FILE = "verified.yaml"


@dataclass(frozen=True)
class Verification:
    """A job that ran at a site as the profile says.

    Args:
        day: in ISO 8601.
        level: what it had: "2 nodes, 4 GPUs each".
        profile: sha256 of the profile's text.
    """

    by: str
    day: str
    level: str
    run: str
    job: str
    profile: str


def verification_of(site: Site) -> Verification | None:
    """What `lab site verify` has written for a site; None where it never did."""
    path = user_file(FILE)
    if not path.is_file():
        return None
    entry = read_yaml(path).get(site.name)
    return Verification(**entry) if entry else None


def write_verification(site: Site, verification: Verification) -> None:
    """Puts the verification of a site in the place of an earlier one."""
    path = user_file(FILE)
    entries = read_yaml(path) if path.is_file() else {}
    entries[site.name] = asdict(verification)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, yaml.safe_dump(entries, sort_keys=True))


def hash_of_profile(site: Site) -> str:
    return hashlib.sha256(site.text.encode()).hexdigest()


def is_experimental(site: Site) -> bool:
    """Whether nobody has run this scheduler's job script, as far as is known here."""
    return scheduler_of(site.scheduler).experimental and verification_of(site) is None


def describe_trust(site: Site) -> str:
    """Who has run a job with this profile, in one line; or how to become the first."""
    verification = verification_of(site)
    if verification is None:
        return describe_shipped(site)
    text = f"verified by {verification.by} on {verification.day}: {verification.level}"
    if verification.profile == hash_of_profile(site):
        return text
    return f"{text}, with an earlier text of the profile; again: lab site verify site={site.name}"


def describe_shipped(site: Site) -> str:
    """What the profile itself says of it."""
    if site["verified"]:
        return f"verified: {site['verified']}"
    text = f"not verified; a job of one minute does it: lab site verify site={site.name}"
    if scheduler_of(site.scheduler).experimental:
        return f"experimental ({site.scheduler} was never run), {text}"
    return text
