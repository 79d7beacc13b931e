"""Values of the chart that enable everything."""

from rig.pki import Authority
from tests.chart.conftest import NAMESPACE

KEY = "0123456789abcdefghijklmnopqrstuvwxyz"
EVERYTHING = {
    "credentialNamespaces": ["team-a", "team-b", NAMESPACE],
    "monitoring": {"monitors": True, "rules": True, "dashboard": True},
    "sources": {
        "hfEndpoint": "https://hub.example.com",
        "s3Endpoint": "http://s3.example.com:9000",
        "s3Addressing": "virtual",
        "s3Region": "eu-central-1",
        "allowAddresses": ["10.1.0.0/16", "fd00::/8"],
        "caBundle": {"configMap": "sources"},
    },
    "admission": {"pathKeys": [KEY], "clientCA": Authority().ca_pem.decode(), "clientNames": ["kube-apiserver"]},
    "networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}], "egress": [{"ports": [{"port": 443}]}]},
    "devices": {"enabled": True, "exampleConfigMap": "devices", "prefixes": ["larder.dev/", "example.com/gpu-"]},
    "imagePullSecrets": [{"name": "registry"}],
}
