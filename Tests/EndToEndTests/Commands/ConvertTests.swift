import Glibc
import TestSupport
import Testing

/// `sallyport convert --compare` beside Debian's own programs.
@Suite(.staged, .serialized) struct `A conversion is compared with the old program` {
  private static func isInstalled(_ name: String) -> Bool {
    ["/usr/bin", "/usr/sbin"].contains { access("\($0)/\(name)", X_OK) == 0 }
  }
  private static let hasStunnel = isInstalled("stunnel4")
  private static let hasHAProxy = isInstalled("haproxy")
  private static let hasNginx = isInstalled("nginx")

  private func compared(_ peer: String, _ text: String) async throws -> ToolResult {
    let scene = try Scene.ofTest()
    return try await scene.sallyport("convert", peer, "--compare", try scene.write("old.conf", text: text))
  }

  @Test(.enabled(if: hasStunnel, "stunnel4 is not installed"))
  func `stunnel in front of a server: who gets in is the same`() async throws {
    let ran = try await compared(
      "stunnel",
      """
      [s]
      accept = 443
      connect = 80
      cert = /etc/stunnel/server.pem
      verifyChain = yes
      CAfile = /etc/stunnel/clients.pem
      """)
    #expect(!ran.text.contains("sallyport lets in whom"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport refuses whom"), "\(ran.everything)")
    #expect(ran.text.contains("connections to each of stunnel and sallyport"), "\(ran.everything)")
  }

  @Test(.enabled(if: hasStunnel, "stunnel4 is not installed"))
  func `stunnel as a client: it takes a server of any CA, and sallyport doesn't`() async throws {
    let ran = try await compared("stunnel", "client = yes\n[c]\naccept = 127.0.0.1:389\nconnect = ldap.example:636\n")
    #expect(ran.status == 1, "\(ran.everything)")
    #expect(ran.text.contains("a hole of stunnel's, which sallyport doesn't have"), "\(ran.everything)")
    #expect(ran.text.contains("a server with a certificate of another CA"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport lets in whom"), "\(ran.everything)")
  }

  @Test(.enabled(if: hasStunnel, "stunnel4 is not installed"))
  func `stunnel's protocols before TLS have stand-ins on both sides`() async throws {
    let ran = try await compared(
      "stunnel",
      """
      [pg]
      accept = 5433
      connect = 5432
      protocol = pgsql
      cert = /etc/stunnel/server.pem
      verifyChain = yes
      CAfile = /etc/stunnel/clients.pem
      [mail]
      client = yes
      accept = 127.0.0.1:25
      connect = mail.example:587
      protocol = smtp
      verifyChain = yes
      CAfile = /etc/stunnel/servers.pem
      checkHost = mail.example
      [ldap]
      client = yes
      accept = 127.0.0.1:389
      connect = ldap.example:389
      protocol = ldap
      """)
    #expect(!ran.text.contains("has no stand-in"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport lets in whom"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport refuses whom"), "\(ran.everything)")
    #expect(ran.text.contains("a hole of stunnel's, which sallyport doesn't have"), "\(ran.everything)")
  }

  @Test(.enabled(if: hasHAProxy, "haproxy is not installed"))
  func `HAProxy: hosts, paths and certificates`() async throws {
    let ran = try await compared(
      "haproxy",
      """
      defaults
        mode http
        timeout connect 2s
        timeout client 5s
        timeout server 5s
      frontend f
        bind :443 ssl crt /a.pem ca-file /ca.pem verify optional
        http-request deny if { path_beg /admin } !{ ssl_c_s_dn(cn) alice }
        http-request set-header X-Client %[ssl_c_s_dn(cn)]
        use_backend api if { hdr(host) api.example }
        default_backend www
      backend www
        server w 10.0.0.1:80
      backend api
        server a 10.0.0.2:443 ssl verify none
      """)
    #expect(ran.text.contains("a hole of HAProxy's"), "\(ran.everything)")
    #expect(ran.text.contains("server a 10.0.0.2:443 ssl verify none"), "\(ran.everything)")
    #expect(!ran.text.contains("another server answers"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport lets in whom"), "\(ran.everything)")
  }

  @Test(.enabled(if: hasNginx, "nginx is not installed"))
  func `nginx: what it asks of clients, and the upstream that it never verifies`() async throws {
    let ran = try await compared(
      "nginx",
      """
      events { }
      http {
        server {
          listen 443 ssl;
          server_name a.example;
          ssl_certificate /a.pem;
          ssl_certificate_key /a.key;
          ssl_client_certificate /ca.pem;
          ssl_verify_client on;
          location /private { return 403; }
          location /app { fastcgi_pass unix:/run/php.sock; fastcgi_param A b; }
          location / { proxy_pass https://inner.example; proxy_set_header X-Client $ssl_client_s_dn; }
        }
        server { listen 80; return 301 https://$host$request_uri; }
      }
      """)
    #expect(ran.text.contains("a hole of nginx's"), "\(ran.everything)")
    #expect(!ran.text.contains("has no stand-in"), "\(ran.everything)")
    #expect(
      ran.text.contains("location / { … }") || ran.text.contains("proxy_pass https://inner.example"),
      "\(ran.everything)")
    #expect(!ran.text.contains("another server answers"), "\(ran.everything)")
    #expect(!ran.text.contains("sallyport lets in whom"), "\(ran.everything)")
  }

  @Test func `a program that isn't installed is named`() async throws {
    guard !Self.isInstalled("ghostunnel") else { return }
    let scene = try Scene.ofTest()
    let ran = try await scene.sallyport("convert", "ghostunnel", "--compare", "--", "server", "--listen", "127.0.0.1:1")
    #expect(ran.status == 2 && ran.errors.contains("ghostunnel isn't installed"), "\(ran.everything)")
  }
}
