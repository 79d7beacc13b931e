from rig.binaries import APISERVER, ETCD, HELM, HELM_VERSION, KUBERNETES_VERSION, SET_UP, VERSITYGW
from rig.compile import go_mod, link_flags, module_of

REQUIREMENTS = """
module k8s.io/kubernetes
require (
	github.com/google/uuid v1.6.0
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.140.0
	k8s.io/apimachinery v0.0.0 // indirect
)
replace k8s.io/api => ./staging/src/k8s.io/api
"""


def test_staging_modules_are_replaced_by_their_published_version() -> None:
    lines = go_mod("k8s.io/kubernetes", "v1.36.3", REQUIREMENTS).splitlines()
    assert "require k8s.io/kubernetes v1.36.3" in lines
    assert [line for line in lines if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.36.3",
        "replace k8s.io/apimachinery => k8s.io/apimachinery v0.36.3",
    ]


OF_KSERVE = """
module github.com/kserve/kserve
require k8s.io/api v0.35.1
replace sigs.k8s.io/controller-runtime => sigs.k8s.io/controller-runtime v0.22.5
replace (
	k8s.io/api => k8s.io/api v0.34.5 // held back
	example.com/old => example.com/new v1.0.0
	example.com/local => ./local
)
"""


def test_replacements_of_a_module_by_published_versions_are_carried_over() -> None:
    lines = go_mod("github.com/kserve/kserve", "v0.20.0", OF_KSERVE).splitlines()
    assert [line for line in lines if line.startswith("replace")] == [
        "replace sigs.k8s.io/controller-runtime => sigs.k8s.io/controller-runtime v0.22.5",
        "replace k8s.io/api => k8s.io/api v0.34.5",
        "replace example.com/old => example.com/new v1.0.0",
    ]


def test_kubernetes_is_stamped_with_its_version() -> None:
    flags = link_flags(APISERVER)
    assert f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}" in flags
    assert "version.gitMajor=1 " in flags
    assert "version.gitMinor=36 " in flags
    assert link_flags(ETCD) == link_flags(VERSITYGW) == "-s -w"
    assert link_flags(HELM).endswith(f"version.version=v{HELM_VERSION}")


def test_every_program_has_a_module() -> None:
    assert {module_of(binary) for binary in SET_UP} == {
        "github.com/distribution/distribution/v3", "github.com/fsouza/fake-gcs-server", "go.etcd.io/etcd/server/v3",
        "github.com/kserve/kserve", "github.com/versity/versitygw", "helm.sh/helm/v4", "k8s.io/kubernetes",
        "sigs.k8s.io/jobset", "sigs.k8s.io/karpenter", "sigs.k8s.io/kueue", "sigs.k8s.io/lws",
    }  # fmt: skip
