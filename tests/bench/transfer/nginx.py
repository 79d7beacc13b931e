"""A static server in front of the rig's hub: nginx sends every file, the hub lists and redirects."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.processes import Process, Program
from rig.running import Running

_READY_S = 10.0


@dataclass(frozen=True)
class Front:
    """What nginx serves: `files` below /files/, `small` as the hub's small files, and at `store_port` its `contents`.

    `small` is the repository, `commit` its commit, `oids` the git blob id of each file. `connection_rate` limits each
    connection to so many bytes a second (0: no limit).
    """

    host: str
    port: int
    store_port: int
    hub: str
    files: Path
    contents: Path
    small: str
    commit: str
    oids: Mapping[str, str]
    connection_rate: int = 0


def configuration(front: Front, state: Path) -> str:
    """Return nginx.conf."""
    user = "user root;" if os.geteuid() == 0 else ""
    oids = "\n".join(f"    {name} {oid};" for name, oid in front.oids.items())
    return f"""\
{user}
daemon off;
worker_processes 2;
pid {state}/nginx.pid;
error_log {state}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  default_type application/octet-stream;
  client_body_temp_path {state}/body; proxy_temp_path {state}/proxy; fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi; scgi_temp_path {state}/scgi;
  map_hash_max_size 65536; map_hash_bucket_size 128;
  map $name $oid {{
{oids}
  }}
  server {{
    listen {front.host}:{front.port};
    limit_rate {front.connection_rate};
    location /files/ {{ alias {front.files}/; autoindex on; }}
    location ~ ^/{front.small}/resolve/[^/]+/(?<name>[^/]+)$ {{
      alias {front.files}/small/$name;
      etag off;
      add_header ETag '"$oid"';
      add_header X-Repo-Commit "{front.commit}";
    }}
    location / {{ proxy_pass {front.hub}; proxy_redirect off; }}
  }}
  server {{
    listen {front.host}:{front.store_port};
    limit_rate {front.connection_rate};
    location ~ ^/(?<sha256>[0-9a-f]+)$ {{
      alias {front.contents}/$sha256;
      etag off;
      add_header ETag '"$sha256"';
    }}
  }}
}}
"""


class Nginx(Running):
    """A running nginx; `enter` begins the command line, and may put it into another network."""

    def __init__(self, program: Path, front: Front, state: Path, enter: Sequence[str] = ()) -> None:
        self._front, self._state = front, state
        self._argv = [*enter, str(program), "-c", str(state / "nginx.conf"), "-p", str(state)]
        self._process: Process | None = None

    def start(self) -> None:
        """Write the configuration, start nginx, and wait until it listens."""
        self._state.mkdir(parents=True, exist_ok=True)
        (self._state / "nginx.conf").write_text(configuration(self._front, self._state))
        process = Process(Program("nginx", self._argv), self._state / "nginx.log")
        self._process = process
        pid = self._state / "nginx.pid"  # written when the sockets listen
        process.wait_ready(lambda: pid.exists() and pid.read_text().strip() == str(process.pid), _READY_S)

    def stop(self) -> None:
        """Stop nginx."""
        if self._process:
            self._process.stop()
