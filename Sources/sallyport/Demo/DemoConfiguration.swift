import Glibc
import Transport

/// The demo's configuration: the proxy, and as its upstream a second server in front of the application.
struct DemoConfiguration {
  /// The folder of the sockets of the demo's own upstream and application.
  let sockets: String
  let names: [DemoName]
  let pin: String
  let addresses: [SocketAddress]
  let verification: DemoVerification
  let version: DemoVersion?
  let upstream: DemoUpstreamURL?
  let upstreamPin: DemoPin?

  func text() throws(DemoFailure) -> String {
    """
    # Made by `sallyport demo`, and made anew at each start.
    \(geteuid() == 0 ? "# Root's demo stays root: it renews the files of a folder that is root's alone.\nuser       root;\n" : "")\
    pid        sallyport.pid;
    error_log  stderr info;

    events {}

    http {
        access_log off;
        server_tokens off;

    \(DemoRefusal.maps)

        # The proxy: who has a certificate of the CA gets in.
        server {
            http2        on;
    \(addresses.map { "        listen       \($0) ssl;\n" }.joined())\
            server_name  \(names.map(\.text).filter { !$0.contains(":") }.joined(separator: " "));

            ssl_certificate         server.crt;
            ssl_certificate_key     server.key;
            ssl_client_certificate  ca.crt;
            ssl_crl                 ca.crl;
            ssl_verify_client       \(verification.rawValue);
    \(version.map { "        ssl_protocols           TLSv\($0.rawValue);\n" } ?? "")\

            client_max_body_size     0;
            proxy_request_buffering  off;
            proxy_http_version       1.1;

    \(upstream.map(ownLocation) ?? demoLocations())

    \(DemoRefusal.locations)
        }
    \(try upstream == nil ? demoUpstream() : "")\
    }

    """
  }

  // MARK: The user's own application

  private func ownLocation(_ url: DemoUpstreamURL) -> String {
    let trust = upstreamPin.map {
      """

                  # Trusted by its key alone.
                  proxy_ssl_verify       off;
                  proxy_ssl_pin          \($0.spelling);
                  proxy_ssl_server_name  on;
      """
    }
    return """
              location / {
                  proxy_pass \(url.text);\(trust ?? "")
                  proxy_set_header Upgrade     $http_upgrade;
                  proxy_set_header Connection  $http_connection;
      \(clientFields)
              }
      """
  }

  private var clientFields: String {
    """
                proxy_set_header Host             $http_host;
                proxy_set_header X-Client-Verify  $ssl_client_verify;
                proxy_set_header X-Client-DN      $ssl_client_s_dn;
                proxy_set_header X-Client-Issuer  $ssl_client_i_dn;
                proxy_set_header X-Client-Serial  $ssl_client_serial;
                proxy_set_header X-Client-SPKI    $ssl_client_spki;
    """
  }

  // MARK: The demo's own upstream

  private func demoLocations() -> String {
    let location = """
                  proxy_pass https://upstream;
                  proxy_read_timeout 90s;
                  client_identity    rfc9440;

                  # The upstream's certificate must chain to the CA, bear this name, and have this very key.
                  proxy_ssl_trusted_certificate  ca.crt;
                  proxy_ssl_name                 \(DemoRole.upstreamName);
                  proxy_ssl_pin                  \(pin);

      \(clientFields)
                  proxy_set_header X-TLS-Protocol     $ssl_protocol;
                  proxy_set_header X-TLS-Cipher       $ssl_cipher;
                  proxy_set_header X-TLS-Curve        $ssl_curve;
                  proxy_set_header X-TLS-Server-Name  $ssl_server_name;
                  proxy_set_header X-TLS-Resumed      $ssl_session_reused;
      """
    return locations(location)
  }

  /// Makes two locations: /ws for WebSockets, / for everything else.
  private func locations(_ content: String) -> String {
    """
            location / {
    \(content)
                proxy_set_header Connection  "";
            }
            location /ws {
    \(content)
                proxy_set_header Upgrade     $http_upgrade;
                proxy_set_header Connection  $http_connection;
            }
    """
  }

  private func demoUpstream() throws(DemoFailure) -> String {
    let location = """
                  proxy_pass http://application;
                  proxy_read_timeout 90s;
                  proxy_set_header Host                 $http_host;
                  proxy_set_header X-Upstream-Protocol  $ssl_protocol;
                  proxy_set_header X-Upstream-Cipher    $ssl_cipher;
                  proxy_set_header X-Upstream-Pin       \(pin);
      """
    return """

          upstream upstream {
              server \(try socket("echo.sock"));
              keepalive 8;
          }

          # The upstream: TLS in front of the application.
          server {
              listen       \(try socket("echo.sock")) ssl;
              server_name  \(DemoRole.upstreamName);

              ssl_certificate      echo.crt;
              ssl_certificate_key  echo.key;

              client_max_body_size        0;
              proxy_request_buffering     off;
              proxy_http_version          1.1;
              underscores_in_headers      on;

      \(locations(location))
          }

          upstream application {
              server \(try socket("app.sock"));
              keepalive 8;
          }

      """
  }

  /// Returns the address in quotes, in which `$` has no special meaning.
  private func socket(_ name: String) throws(DemoFailure) -> String {
    let path = "\(sockets)/\(name)"
    guard path.utf8.count <= SocketAddress.longestUnixPath else {
      throw DemoFailure(
        text: "\(path) is too long for a unix socket (at most \(SocketAddress.longestUnixPath) bytes): "
          + "choose a shorter folder with --dir")
    }
    let special: Set<Character> = ["\\", "\""]
    let quoted = path.reduce(into: "") { text, character in
      if special.contains(character) { text.append("\\") }
      text.append(character)
    }
    return "\"unix:\(quoted)\""
  }
}
