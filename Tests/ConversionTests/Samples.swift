import Conversion
import Language

/// An old configuration of a test.
struct Sample: Sendable, CustomStringConvertible {
  enum Peer: String, Sendable, CaseIterable { case stunnel, ghostunnel, haproxy, nginx }

  let peer: Peer
  let name: String
  let text: String

  var description: String { "\(peer.rawValue): \(name)" }
  var converted: Converted { Self.converted(text, peer) }

  static func converted(_ text: String, _ peer: Peer, file: String = "old") -> Converted {
    switch peer {
    case .stunnel: StunnelConversion.convert(text, file: file)
    case .ghostunnel: GhostunnelConversion.convert(text, file: file)
    case .haproxy: HAProxyConversion.convert(text, file: file)
    case .nginx: NginxConversion.convert(text, file: file)
    }
  }

  static let all = stunnel + ghostunnel + haproxy + nginx

  /// Texts by their names.
  private static func named(_ peer: Peer, _ texts: KeyValuePairs<String, String>) -> [Sample] {
    texts.map { Sample(peer: peer, name: $0.key, text: $0.value) }
  }

  // MARK: stunnel

  static let stunnel = named(.stunnel, stunnelTexts)

  private static let stunnelTexts: KeyValuePairs<String, String> = [
    "mail of three kinds": """
    ; Mail in front of a daemon without TLS
    setuid = stunnel4
    setgid = stunnel4
    pid = /var/run/stunnel4/stunnel.pid
    cert = /etc/stunnel/mail.pem
    options = NO_SSLv2
    options = NO_SSLv3
    socket = l:TCP_NODELAY=1

    [pop3s]
    accept  = 995
    connect = 110
    [imaps]
    accept  = 993
    connect = 143
    [ssmtp]
    accept  = 465
    connect = 25
    """,
    "a database with certificates of clients": """
    [postgres]
    accept = 0.0.0.0:5433
    connect = 127.0.0.1:5432
    cert = server.pem
    key = server.key
    protocol = pgsql
    CAfile = clients.pem
    verifyChain = yes
    CRLfile = clients.crl
    checkHost = app1.example.com
    checkHost = app2.example.com
    """,
    "a client that verifies its server": """
    client = yes
    foreground = yes
    output = /dev/stdout
    [redis]
    accept = 127.0.0.1:6379
    connect = redis.example.com:6380
    CAfile = /etc/ssl/certs/ca-certificates.crt
    verifyChain = yes
    checkHost = redis.example.com
    TIMEOUTconnect = 5
    TIMEOUTidle = 3600
    """,
    "a client that verifies nothing": """
    [smtp]
    client = yes
    accept = localhost:2525
    connect = smtp.example.com:587
    protocol = smtp
    """,
    "a server that is pinned": """
    [tunnel]
    client = yes
    accept = 127.0.0.1:8080
    connect = vpn.example.com:9080
    verifyPeer = yes
    CAfile = peer.pem
    cert = own.pem
    """,
    "names that share a port": """
    [virtual]
    accept = 443
    cert = default.pem
    connect = default.internal:8080
    [one]
    sni = virtual:one.example.com
    cert = one.pem
    connect = one.internal:8081
    [two]
    sni = virtual:*.example.com
    sni = virtual:*sample.org
    cert = two.pem
    connect = two.internal:8082
    verifyPeer = yes
    CAfile = two-clients.pem
    """,
    "several targets": """
    [ldap]
    client = yes
    accept = 389
    connect = ldap1.example.com:636
    connect = ldap2.example.com:636
    failover = prio
    delay = yes
    verify = 2
    CAfile = ca.pem
    checkHost = ldap.example.com
    sslVersion = TLSv1.2
    """,
    "a program and an unknown option": """
    [vpn]
    accept = 2020
    cert = vpn.pem
    exec = /usr/sbin/pppd
    execArgs = pppd local
    pty = yes
    wibble = yes
    """,
    "unix sockets and the PROXY protocol": """
    debug = 7
    syslog = no
    [web]
    accept = :::8443
    connect = /run/app.sock
    cert = web.pem
    protocol = proxy
    verify = 3
    CAfile = web-clients.pem
    ciphers = HIGH:!aNULL
    sslVersionMin = TLSv1.2
    options = CIPHER_SERVER_PREFERENCE
    """,
    "shared keys, OCSP and a token": """
    engine = pkcs11
    [psk]
    accept = 4433
    connect = 80
    PSKsecrets = psk.txt
    [ocsp]
    accept = 4434
    connect = 81
    cert = a.pem
    key = pkcs11:token=T;object=K
    verifyChain = yes
    CAfile = ca.pem
    OCSP = http://ocsp.example.com/
    OCSPaia = yes
    """,
  ]

  // MARK: ghostunnel

  static let ghostunnel = named(.ghostunnel, ghostunnelTexts)

  private static let ghostunnelTexts: KeyValuePairs<String, String> = [
    "a server with rules": """
    ghostunnel server --listen localhost:8443 --target localhost:8080 --keystore server.p12 \\
      --cacert ca.pem --allow-cn client --allow-ou payments
    """,
    "a client":
      "ghostunnel client --listen localhost:8080 --target db.example.com:8443 --cert a.pem --key a.key --cacert ca.pem",
    "a workload": """
    [Service]
    ExecStart=/usr/bin/ghostunnel server --use-workload-api-addr unix:///run/spire/agent.sock \\
      --listen 0.0.0.0:8443 --target unix:/run/app.sock \\
      --allow-uri 'spiffe://example.org/ns/*/sa/app' --allow-uri spiffe://example.org/admin/**
    """,
    "a client of a workload": """
    ghostunnel client --use-workload-api-addr=unix:///run/agent.sock --listen unix:/run/in.sock \\
      --target api.example.org:8443 --verify-uri spiffe://example.org/api
    """,
    "everybody":
      "server --listen :8443 --target 10.0.0.1:80 --unsafe-target --cert a --key b --disable-authentication",
    "ACME": """
    ghostunnel server --auto-acme-cert=www.example.com --auto-acme-email=a@example.com --auto-acme-agree-to-tos \\
      --listen=0.0.0.0:443 --target=localhost:8080 --disable-authentication
    """,
    "pins": """
    ghostunnel client --listen 127.0.0.1:53 --target 9.9.9.9:853 --disable-authentication \\
      --verify-spki-pin sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
    """,
    "a policy": """
    ghostunnel server --listen localhost:8443 --target localhost:8080 --keystore k.pem --cacert ca.pem \\
      --allow-policy bundle.tar.gz --allow-query data.policy.allow
    """,
    "times and limits": """
    ghostunnel server --listen systemd:tunnel --target localhost:8080 --keystore k.p12 --storepass secret-word \\
      --cacert ca.pem --allow-all --connect-timeout 5s --max-conn-lifetime 1h30m --max-concurrent-conns 200 \\
      --shutdown-timeout 2m --timed-reload 300s --status localhost:6060 --proxy-protocol --max-tls-version TLS1.2
    """,
    "rules that look like patterns": """
    ghostunnel server --listen 127.0.0.1:8443 --target localhost:8080 --cert a --key b --cacert ca.pem \\
      --allow-cn 'a*' --allow-dns '~x' --allow-ou "R and D" --allow-ip 10.0.0.1
    """,
  ]

  // MARK: HAProxy

  static let haproxy = named(.haproxy, haproxyTexts)

  private static let haproxyTexts: KeyValuePairs<String, String> = [
    "mutual TLS": """
    global
      user haproxy
      chroot /var/lib/haproxy
    defaults
      mode http
      timeout connect 5s
      timeout client 50s
      timeout server 50s
    frontend https
      bind *:443 ssl crt /etc/haproxy/site.pem ca-file /etc/haproxy/ca.pem verify required crl-file /etc/haproxy/crl.pem
      http-request set-header X-SSL-Client-CN %[ssl_c_s_dn(cn)]
      default_backend app
    backend app
      balance leastconn
      server a1 10.0.0.1:8080 check weight 10
      server a2 10.0.0.2:8080 check weight 20 maxconn 50
    """,
    "administration for some": """
    defaults
      mode http
    frontend https
      bind :443 ssl crt site.pem ca-file ca.pem verify optional alpn h2,http/1.1
      acl admin path_beg /admin
      http-request deny if admin !{ ssl_c_s_dn(CN) -m str alice bob }
      http-request deny if { path_beg /internal } !{ src 10.0.0.0/8 }
      use_backend admin if admin
      default_backend app
    backend app
      server a 127.0.0.1:8080
    backend admin
      server a 127.0.0.1:8081
    """,
    "hosts": """
    frontend web
      mode http
      bind :80
      bind :443 ssl crt site.pem
      redirect scheme https code 301 if !{ ssl_fc }
      acl api hdr(host) -i api.example.com
      use_backend api if api
      use_backend static if { path_beg /static/ } { hdr(host) www.example.com }
      default_backend www
    backend www
      mode http
      server w 127.0.0.1:8000
    backend api
      mode http
      server w 127.0.0.1:8001
    backend static
      mode http
      server w 127.0.0.1:8002
    """,
    "names in the ClientHello": """
    frontend tls
      mode tcp
      bind :443
      tcp-request inspect-delay 5s
      tcp-request content accept if { req.ssl_hello_type 1 }
      use_backend git if { req.ssl_sni -i git.example.com }
      default_backend rest
    backend git
      mode tcp
      server g 10.0.0.1:443
    backend rest
      mode tcp
      server r 10.0.0.2:443
    """,
    "servers with TLS": """
    frontend in
      mode http
      bind 127.0.0.1:8080
      use_backend blind if { path_beg /blind }
      default_backend seen
    backend seen
      mode http
      server s 10.0.0.1:443 ssl verify required ca-file inner.pem verifyhost app.internal crt own.pem
    backend blind
      mode http
      server s 10.0.0.2:443 ssl verify none
    """,
    "a database": """
    listen mq
      bind 10.0.0.9:5671 ssl crt mq.pem ca-file clients.pem verify required
      mode tcp
      balance source
      server m1 127.0.0.1:5672 send-proxy
      server m2 127.0.0.2:5672 send-proxy backup
    """,
    "a rule that nobody knows": """
    frontend f
      mode http
      bind :8443 ssl crt a.pem ca-file ca.pem verify required
      http-request deny unless { ssl_c_sha1,hex -m str ABCD }
      default_backend b
    backend b
      mode http
      server s 127.0.0.1:80
    """,
    "a list of certificates": """
    frontend f
      mode http
      bind :443 ssl crt-list /etc/haproxy/list.txt strict-sni
      default_backend b
    backend b
      mode http
      server s 127.0.0.1:80
    """,
    "a user list and statistics": """
    userlist users
      user admin insecure-password secret-word
    listen stats
      mode http
      bind 127.0.0.1:9000
      stats enable
      stats uri /stats
    frontend f
      mode http
      bind :8000
      http-request auth realm x unless { http_auth(users) }
      default_backend b
    backend b
      mode http
      option httpchk GET /health
      cookie SRV insert
      server s 127.0.0.1:80 check cookie s
    """,
    "fields": """
    frontend f
      mode http
      bind :8000
      option forwardfor
      http-request del-header X-Real-IP
      http-request set-header X-Forwarded-Proto https
      http-request set-header X-Cert %[ssl_c_der,base64]
      http-response set-header Strict-Transport-Security "max-age=1; includeSubDomains"
      http-response del-header Server
      default_backend b
    backend b
      mode http
      balance uri
      http-request deny if { src 192.0.2.1 }
      server s 127.0.0.1:80 disabled
      server t 127.0.0.1:81
    """,
  ]

  // MARK: nginx

  static let nginx = named(.nginx, nginxTexts)

  private static let nginxTexts: KeyValuePairs<String, String> = [
    "a plain proxy": """
    events { }
    http { server { listen 80; server_name a; location / { proxy_pass http://127.0.0.1:8080; } } }
    """,
    "an upstream without trust": """
    events { }
    http { server { listen 80; location / { proxy_pass https://app.example.com:8443/x; proxy_set_header Host $host; } } }
    """,
    "a cache": """
    events { }
    http {
      proxy_cache_path /x keys_zone=c:1m;
      server { listen 80; location / { proxy_cache c; proxy_cache_valid 200 1m; proxy_pass http://127.0.0.1:1; } }
    }
    """,
    "PHP": """
    events { }
    http { server { listen 80; root /srv; location / { try_files $uri =404; }
      location ~ \\.php$ { fastcgi_param A b; fastcgi_pass unix:/run/php.sock; } } }
    """,
    "a check of a module": """
    events { }
    http { server { listen 80; location /a { auth_jwt "x"; proxy_pass http://127.0.0.1:1; }
      location / { proxy_pass http://127.0.0.1:1; } } }
    """,
    "a firewall of a server": """
    events { }
    http { server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; modsecurity on;
      location / { proxy_pass http://127.0.0.1:1; } } server { listen 80; return 301 https://$host$request_uri; } }
    """,
    "a firewall of all servers": """
    events { }
    http { modsecurity on; server { listen 80; location / { proxy_pass http://127.0.0.1:1; } }
      server { listen 81; location / { proxy_pass http://127.0.0.1:1; } } }
    """,
    "gRPC without trust": """
    events { }
    http { server { listen 80; http2 on; location / { grpc_pass grpcs://10.0.0.1:50051; } } }
    """,
    "stream and mail": """
    events { }
    mail { server { listen 25; protocol smtp; } }
    stream { server { listen 5432; proxy_pass db:5432; proxy_ssl on; } server { listen 53 udp; proxy_pass d:53; } }
    """,
    "words with quotes": """
    events { }
    http { map $http_x $y { default 0; "a b" 1; "~^x{2}" 2; }
      log_format l '$remote_addr "$request" {}';
      server { listen 80; if ($y = "1") { return 403; } location ~ "^/x{1,2}/" { return 200 "a;b"; } } }
    """,
  ]
}
