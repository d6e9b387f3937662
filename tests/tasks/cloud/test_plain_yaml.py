"""Plain YAML: what is read means to PyYAML the same, and kubeconfigs as programs write them are read."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.cloud.plain_yaml import plain_yaml

GCLOUD = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUVMVENDQXBXZ0F3SUJBZ0==
    server: https://34.90.1.2
  name: gke_p_europe-west4-a_c
contexts:
- context:
    cluster: gke_p_europe-west4-a_c
    namespace: team
    user: gke_p_europe-west4-a_c
  name: gke_p_europe-west4-a_c
current-context: gke_p_europe-west4-a_c
kind: Config
preferences: {}
users:
- name: gke_p_europe-west4-a_c
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - --use_application_default_credentials
      - x
      command: gke-gcloud-auth-plugin
      env: null
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin
      provideClusterInfo: true
""".replace("      - --use_application_default_credentials\n", "")

MINIKUBE = """\
# made by hand
apiVersion: v1

clusters:
  - name: minikube
    cluster:
      certificate-authority: /home/me/.minikube/ca.crt
      insecure-skip-tls-verify: false
      extensions:
      - extension:
          provider: minikube.sigs.k8s.io
        name: cluster_info
      server: "https://[::1]:8443"
contexts:
  - {context: {cluster: minikube, user: me}, name: minikube}
users:
  - name: me
    user:
      token: 'a: b'
      env: []
"""

READABLE = (GCLOUD, MINIKUBE.replace("{context: {cluster: minikube, user: me}, name: minikube}", "x"))


@pytest.mark.parametrize("text", READABLE, ids=["gcloud", "minikube"])
def test_kubeconfigs_as_programs_write_them_are_read(text: str) -> None:
    found = plain_yaml(text)
    assert found is not None
    assert found == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "- a", "a: b: c", "a: &x b", "a: *x", "a: |\n  b", "a: >\n  b", "a: [b]", "a: {b: c}", "a: 1", "a: -x",
        "a: yes", "yes: a", "a: b\na: c", "a: b # c", "a: b\n\n  c", "a: b\n  c: d", "a:\n  b", "a:\n  b: c\n d: e",
        "a: 'b''c'", 'a: "b\\n"', "a: 'b'\n  c", "a:\tb", "a: ü", "---\na: b", "a: b\r\nc: d", "a: 2026-01-01", "a: .5",
        "a: ~", "a: b:", "<<: a", "a: !x b", "a:\n- - b", "a:\n- ", "a: b\n- c", "a: %b", "? a\n: b",
        "a: b\n  # c\n  d",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_alone(text: str) -> None:
    assert plain_yaml(text) is None


WORDS = st.sampled_from(
    ["a", "b", "yes", "null", "true", "1", "x: y", "- ", ": ", " #", "#", "'", '"', "{}", "[]", "\n", "  ", "\n  ", ".",
     "-", ":", "\t", "c:", "\n- ", "\n  - ", "&", "~", "é", "|", "\\", "0x1", "..."]
)  # fmt: skip


@given(st.lists(WORDS, max_size=14).map("".join))
def test_no_text_means_another_thing_to_pyyaml(text: str) -> None:
    check(text)


@given(st.data())
def test_no_kubeconfig_that_was_edited_does(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(READABLE))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(WORDS) + text[at + cut :]
    check(text)


def check(text: str) -> None:
    found = plain_yaml(text)
    if found is not None:
        assert_same(found, yaml.safe_load(text))


def assert_same(found: Any, meant: Any) -> None:
    assert found == meant
    assert repr(found) == repr(meant)  # True is not 1
