import subprocess
from rig.pods import *
def test_x(site):
    for lim in ("500GB","lots",0, "-1"):
        r=site.kubectl("create","-f","-",stdin={"apiVersion":"serving.kserve.io/v1alpha1","kind":"ModelCacheNodeGroup","metadata":{"name":"g"},"spec":{"storageLimit":lim}})
        print(lim, r.stdout, r.stderr)
    assert 0
