/// A service that gets a sidecar: `NAME`, `NAME:PORT` or `NAME:PORT/tcp` on the command line.
package struct ComposeService: Sendable, Equatable, CustomStringConvertible {
  package enum Kind: String, Sendable { case http, tcp }
  package struct Port: Sendable, Equatable {
    package let number: UInt16
    package let kind: Kind
  }

  package let name: String
  /// nil: it calls others, and nobody calls it.
  package let port: Port?

  package init?(_ argument: String) {
    let parts = argument.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard let name = parts.first, (1...40).contains(name.utf8.count), name.first != "-", name.last != "-",
      name.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D })
    else { return nil }
    self.name = String(name)
    guard parts.count == 2 else {
      port = nil
      return
    }
    let words = parts[1].split(separator: "/", omittingEmptySubsequences: false)
    guard let number = words.first.flatMap({ UInt16($0) }), number > 0, words.count <= 2,
      let kind = words.count == 1 ? .http : Kind(rawValue: String(words[1]))
    else { return nil }
    port = Port(number: number, kind: kind)
  }

  package var description: String {
    port.map { "\(name):\($0.number)\($0.kind == .tcp ? "/tcp" : "")" } ?? name
  }
}

/// The services that have sidecars, and where each is. All sidecars of a compose file are told the same, so each makes its own
/// configuration.
package struct ComposeMesh: Sendable {
  package let services: [ComposeService]
  /// The first two numbers of the addresses: `10.213`.
  package let subnet: String

  package init(_ services: [ComposeService], subnet: String = "10.213") {
    self.services = services
    self.subnet = subnet
  }

  /// The folder of a sidecar's key and certificate, and that of the authority. Each is in a volume of its container alone.
  package static let folder = "/var/lib/sallyport/service"
  package static let authority = "/var/lib/sallyport/authority"

  /// Where the keeper of the identities is asked.
  package var keeper: String { "\(subnet).0.254:7613" }
  /// The address of a sidecar on the network of all sidecars.
  func outer(_ index: Int) -> String { "\(subnet).0.\(index + 2)" }
  /// The addresses on the network of one service.
  func inner(_ index: Int) -> String { "\(subnet).\(index + 1).2" }
  func own(_ index: Int) -> String { "\(subnet).\(index + 1).3" }

  /// `folder`: that of the key and the certificate.
  package func configuration(of index: Int, folder: String = folder) -> String {
    let tcp = stream(index)
    let text = """
      error_log stderr notice;
      pid FOLDER/sallyport.pid;
      worker_processes 1;

      events {}

      http {
        access_log off;
        server_tokens off;
        client_max_body_size 0;
        proxy_request_buffering off;
        proxy_http_version 1.1;
        proxy_read_timeout 1h;

        proxy_ssl_certificate          FOLDER/identity.pem;
        proxy_ssl_certificate_key      FOLDER/key.pem;
        proxy_ssl_trusted_certificate  FOLDER/ca.crt;
        proxy_ssl_crl                  FOLDER/crl.pem;
        proxy_ssl_verify               on;
        proxy_ssl_server_name          on;
      \(http(index))}
      \(tcp.isEmpty ? "" : "\nstream {\n\(tcp)}\n")
      """
    return text.replacing("FOLDER", with: folder)
  }

  private static let identity = """
        ssl_certificate         FOLDER/identity.pem;
        ssl_certificate_key     FOLDER/key.pem;
        ssl_client_certificate  FOLDER/ca.crt;
        ssl_crl                 FOLDER/crl.pem;
        ssl_verify_client       on;
    """

  private static let upgrade = """
          proxy_set_header Host        $http_host;
          proxy_set_header Upgrade     $http_upgrade;
          proxy_set_header Connection  $http_connection;
    """

  private func http(_ index: Int) -> String {
    let service = services[index]
    var text = ""
    if let port = service.port, port.kind == .http {
      text += """

          # In: clients with an identity of this project. The service is told which.
          server {
            listen \(outer(index)):\(port.number) ssl;
            server_name \(service.name);
        \(Self.identity)
            location / {
              proxy_pass http://\(own(index)):\(port.number);
        \(Self.upgrade)
              proxy_set_header X-Client-DN  $ssl_client_s_dn;
            }
          }

        """
    }
    let calls = services.enumerated().filter { $0.offset != index && $0.element.port?.kind == .http }
    for number in Set(calls.compactMap { $0.element.port?.number }).sorted() {
      text += """

          # Out: calls of the service itself, in clear on the network that it shares with this sidecar alone.
          server {
            listen \(inner(index)):\(number) default_server;
            return 421 "no service of this name has port \(number)\\n";
          }

        """
      for (other, target) in calls where target.port?.number == number {
        text += """
            server {
              listen \(inner(index)):\(number);
              server_name \(target.name);
              location / {
                proxy_pass https://\(outer(other)):\(number);
                proxy_ssl_name \(target.name);
          \(Self.upgrade)
              }
            }

          """
      }
    }
    return text
  }

  private func stream(_ index: Int) -> String {
    let service = services[index]
    var text = ""
    if let port = service.port, port.kind == .tcp {
      text += """
          server {
            listen \(outer(index)):\(port.number) ssl;
        \(Self.identity)
            proxy_pass \(own(index)):\(port.number);
            proxy_timeout 12h;
          }

        """
    }
    for (other, target) in services.enumerated() where other != index {
      guard let port = target.port, port.kind == .tcp else { continue }
      text += """
          server {
            listen \(inner(index)):\(port.number);
            proxy_pass \(outer(other)):\(port.number);
            proxy_timeout 12h;
            proxy_ssl                      on;
            proxy_ssl_name                 \(target.name);
            proxy_ssl_server_name          on;
            proxy_ssl_certificate          FOLDER/identity.pem;
            proxy_ssl_certificate_key      FOLDER/key.pem;
            proxy_ssl_trusted_certificate  FOLDER/ca.crt;
            proxy_ssl_crl                  FOLDER/crl.pem;
            proxy_ssl_verify               on;
          }

        """
    }
    return text
  }
}
