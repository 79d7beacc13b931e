"""The hosts of the storage services of the clouds, as narrow patterns: other names in their domains can be anyone's."""

_S3_OF_A_REGION = ("s3", "s3.dualstack", "s3-fips", "s3-fips.dualstack")
_ACCESS_POINTS = (
    "s3-accesspoint",
    "s3-accesspoint.dualstack",
    "s3-accesspoint-fips",
    "s3-accesspoint-fips.dualstack",
)
_IN_CHINA = ("s3", "s3.dualstack")

AWS_HOSTS = (
    "s3.amazonaws.com",
    "*.s3.amazonaws.com",
    *(f"{front}{service}.*.amazonaws.com" for service in _S3_OF_A_REGION for front in ("", "*.")),
    "*.s3-accelerate.amazonaws.com",
    "*.s3-accelerate.dualstack.amazonaws.com",
    *(f"*.{service}.*.amazonaws.com" for service in _ACCESS_POINTS),
    "*.accesspoint.s3-global.amazonaws.com",
    "*.s3.*.vpce.amazonaws.com",
    "*.s3-outposts.*.amazonaws.com",
    *(f"{front}{service}.*.amazonaws.com.cn" for service in _IN_CHINA for front in ("", "*.")),
    *(f"*.{service}.*.amazonaws.com.cn" for service in _ACCESS_POINTS[:2]),
)
GOOGLE_HOSTS = ("storage.googleapis.com",)
AZURE_HOSTS = ("*.blob.core.windows.net",)
ORACLE_HOSTS = ("objectstorage.*.oraclecloud.com",)
ORACLE_S3_HOSTS = ("*.compat.objectstorage.*.oraclecloud.com",)  # these speak S3, so Secrets for s3:// may name them
