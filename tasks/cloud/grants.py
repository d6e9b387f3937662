"""Roles that are given to members, on projects, service accounts and buckets: policies are read and written whole.

Somebody else may write a policy at any time, so it is written with the etag that it was read with, again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.cloud.container_errors import Busy, NotFound, Refused, Unavailable
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.things import Thing
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

On = Literal["project", "account", "bucket", "subnetwork"]
"""Subnetworks are only read: their policies are the host project's."""


@dataclass(frozen=True)
class Given:
    """A role that somebody has. `condition`: its title, where it holds only under one."""

    role: str
    member: str
    condition: str | None = None


@dataclass(frozen=True)
class Grants:
    """See Sort. `scope` is the project, the account's e-mail, the bucket, or
    "project/regions/region/subnetworks/name"; the name is "ROLE for MEMBER"."""

    on: On
    timing: Timing | None = None

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort."""
        role, member = parts(name)
        try:
            policy = self._read(scope)
        except NotFound:  # what it would be on is not there
            return None
        given = any(
            one.get("role") == role and member in one.get("members", ()) and not one.get("condition")
            for one in policy.get("bindings", ())
        )
        return Thing(f"{name} on {scope}", {"role": role, "member": member}) if given else None

    def given(self, scope: str) -> list[Given]:
        """Returns all roles on one thing; none where it is not there. Raises ContainerError."""
        try:
            policy = self._read(scope)
        except NotFound:
            return []
        return [
            Given(str(one.get("role")), str(member), _title(one.get("condition")))
            for one in policy.get("bindings", ())
            for member in one.get("members", ())
        ]

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort. An account that was just made is not known to policies for a while: it is asked again."""
        role, member = parts(name)

        def add(bindings: list[dict[str, Any]]) -> bool:
            for one in bindings:
                if one.get("role") == role and not one.get("condition"):
                    if member in one["members"]:
                        return False
                    one["members"].append(member)
                    return True
            bindings.append({"role": role, "members": [member]})
            return True

        self._rewrite(f"give {role} to {member}", scope, add)

    def delete(self, scope: str, name: str) -> None:
        """See Sort. What is left of an account that went before it goes as well."""
        role, member = parts(name)

        def take(bindings: list[dict[str, Any]]) -> bool:
            found = False
            for one in bindings:
                if one.get("role") == role and not one.get("condition"):
                    kept = [each for each in one["members"] if not _is(each, member)]
                    found = found or kept != one["members"]
                    one["members"] = kept
            bindings[:] = [one for one in bindings if one["members"]]
            return found

        self._rewrite(f"take {role} from {member}", scope, take)

    def give_within(self, scope: str, role: str, member: str, condition: Mapping[str, str]) -> bool:
        """Gives a role that holds only under a condition (`title`, `expression`); one of this title is replaced.

        Returns whether it was not so already.
        """

        def add(bindings: list[dict[str, Any]]) -> bool:
            wanted = {"role": role, "members": [member], "condition": dict(condition)}
            if wanted in bindings:
                return False
            title = condition["title"]
            bindings[:] = [one for one in bindings if not _is_titled(one, role, member, title)] + [wanted]
            return True

        return self._rewrite(f"give {role} to {member}", scope, add)

    def take_all(self, scope: str, member: str) -> None:
        """Takes every role from a member, under whatever condition."""

        def take(bindings: list[dict[str, Any]]) -> bool:
            found = False
            for one in bindings:
                kept = [each for each in one["members"] if not _is(each, member)]
                found = found or kept != one["members"]
                one["members"] = kept
            bindings[:] = [one for one in bindings if one["members"]]
            return found

        self._rewrite(f"take all roles from {member}", scope, take)

    def _rewrite(self, doing: str, scope: str, edit: Callable[[list[dict[str, Any]]], bool]) -> bool:
        """Edits a policy; returns whether anything had to be changed."""
        for pause in pauses(self._timing, f"iam: {doing}"):
            try:
                policy = self._read(scope)
                bindings = [{**one, "members": list(one["members"])} for one in policy.get("bindings", ())]
                changed = edit(bindings)
                if changed:
                    version = {"version": 3} if any("condition" in one for one in bindings) else {}
                    self._write(doing, scope, {**policy, **version, "bindings": bindings})
                return changed
            except (Busy, Unavailable, Refused) as error:
                # IAM says of an account that it does not know yet INVALID_ARGUMENT, as of all else that is wrong in a
                # policy, with no detail that tells them apart: only its words do.
                if pause is None or (isinstance(error, Refused) and "does not exist" not in str(error)):
                    raise
                tried(str(error))
                time.sleep(pause)
        raise AssertionError("the last pause is None")

    @property
    def _timing(self) -> Timing:
        return self.timing or Timing()

    def _read(self, scope: str) -> Document:
        doing = f"read who may do what on {scope}"
        match self.on:
            case "project":
                body = {"options": {"requestedPolicyVersion": 3}}
                return self._rest.ask("POST", doing, f"v3/projects/{scope}:getIamPolicy", body)
            case "account":
                path = f"{_account(scope)}:getIamPolicy?options.requestedPolicyVersion=3"
                return self._rest.ask("POST", doing, path)
            case "subnetwork":
                path = f"compute/v1/projects/{scope}/getIamPolicy?optionsRequestedPolicyVersion=3"
                return self._rest.get(doing, path)
            case "bucket":
                path = f"storage/v1/b/{scope}/iam?optionsRequestedPolicyVersion=3"
                return self._rest.get(doing, path)

    def _write(self, doing: str, scope: str, policy: Document) -> None:
        match self.on:
            case "project":
                self._rest.send("POST", doing, f"v3/projects/{scope}:setIamPolicy", {"policy": policy})
            case "account":
                path = f"{_account(scope)}:setIamPolicy"
                self._rest.send("POST", doing, path, {"policy": policy})
            case "subnetwork":
                raise AssertionError("nobody gives roles in a host project from here")
            case "bucket":
                self._rest.send("PUT", doing, f"storage/v1/b/{scope}/iam", policy)

    @property
    def _rest(self) -> Rest:
        hosts = {
            "project": "cloudresourcemanager",
            "account": "iam",
            "bucket": "storage",
            "subnetwork": "compute",
        }
        return Rest(f"{hosts[self.on]}.googleapis.com", timing=self.timing)


def parts(name: str) -> tuple[str, str]:
    """Returns role and member of a grant's name."""
    role, _, member = name.partition(" for ")
    return role, member


def _account(email: str) -> str:
    """Returns the path of a service account, with its project.

    With `-` in its place IAM says of one that is not there that one may not look at it.
    """
    name, *above = email.partition("@")[2].removesuffix(".iam.gserviceaccount.com").split(".")
    # A project example.com:mine is called mine.example.com there.
    project = f"{'.'.join(above)}:{name}" if above else name
    return f"v1/projects/{project}/serviceAccounts/{email}"


def _title(condition: Mapping[str, Any] | None) -> str | None:
    return str(condition.get("title", "")) if condition else None


def _is_titled(binding: Mapping[str, Any], role: str, member: str, title: str) -> bool:
    same = (binding.get("role"), binding.get("members")) == (role, [member])
    return same and (binding.get("condition") or {}).get("title") == title


def _is(there: str, member: str) -> bool:
    return there == member or there.startswith(f"deleted:{member}?")
