/// A service that gets a sidecar: `NAME`, `NAME:PORT` or `NAME:PORT/tcp` on the command line.
package struct ComposeService: Sendable, Equatable {
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
}

/// What `sallyport compose` makes of a compose file: an override with a sidecar for each named service.
///
/// Each service gets a network that it shares with its sidecar alone, and the sidecars share one more. So another container
/// reaches the service only through its sidecar, which asks for a certificate. On the service's own network the names of the
/// others lead to its sidecar, which calls theirs over TLS.
package struct ComposePlan: Sendable {
  package let services: [ComposeService]
  /// The first two numbers of the addresses: `10.213`.
  package let subnet: String
  package let image: String

  package static let mostServices = 200

  /// Keys of a service that neither give it another network nor more than one address.
  private static let harmless: Set<String> = [
    "annotations", "attach", "blkio_config", "build", "cap_add", "cap_drop", "command", "configs", "container_name",
    "cpu_count", "cpu_percent", "cpu_shares", "cpus", "cpuset", "depends_on", "develop", "device_cgroup_rules",
    "devices",
    "dns_opt", "domainname", "entrypoint", "env_file", "environment", "expose", "extra_hosts", "group_add",
    "healthcheck",
    "hostname", "image", "init", "labels", "logging", "mem_limit", "mem_reservation", "memswap_limit", "networks",
    "oom_kill_disable", "oom_score_adj", "pids_limit", "platform", "ports", "post_start", "pre_stop", "privileged",
    "profiles", "pull_policy", "read_only", "restart", "secrets", "security_opt", "shm_size", "stdin_open",
    "stop_grace_period", "stop_signal", "storage_opt", "sysctls", "tmpfs", "tty", "ulimits", "user", "volumes",
    "working_dir",
  ]

  private static let reasons = [
    "network_mode": "another network would lead past the sidecar", "links": "a link would lead past the sidecar",
    "external_links": "a link would lead past the sidecar", "extends": "another file may give it a network",
    "scale": "a sidecar has one service at one address", "deploy": "a sidecar has one service at one address",
    "dns": "names of other services have to lead to the sidecar",
  ]

  package init(
    _ text: String, services: [ComposeService], subnet: String = "10.213", image: String = "sallyport"
  ) throws(ComposeFault) {
    self.services = services
    self.subnet = subnet
    self.image = image
    let file = try YAMLReader.read(text)
    if let include = file.entries?.first(where: { $0.key == "include" }) {
      throw ComposeFault(
        line: include.line, "\"include\" brings services that aren't here",
        hint: "give the output of `docker compose config`, which has all of them")
    }
    guard let declared = file["services"]?.entries else {
      throw ComposeFault(line: 1, "there is no mapping \"services\"", hint: "give a compose file")
    }
    guard services.count <= Self.mostServices, Set(services.map(\.name)).count == services.count else {
      throw ComposeFault(line: 1, "a service is named twice, or there are more than 200", hint: "name each once")
    }
    for service in services {
      guard let found = declared.first(where: { $0.key == service.name }) else {
        throw ComposeFault(
          line: file["services"]?.line ?? 1, "there is no service \"\(service.name)\"",
          hint: "it has \(declared.map(\.key).joined(separator: ", "))")
      }
      for entry in found.node.entries ?? [] where !Self.harmless.contains(entry.key) && !entry.key.hasPrefix("x-") {
        throw ComposeFault(
          line: entry.line, "service \"\(service.name)\" has \"\(entry.key)\"",
          hint: Self.reasons[entry.key] ?? "whether this leads past the sidecar is unknown: leave it out")
      }
      for name in declared.map(\.key) where name == Self.keeper || name == "\(service.name)-sallyport" {
        throw ComposeFault(line: found.line, "the name \"\(name)\" is taken", hint: "rename that service")
      }
    }
    // Over TCP, nothing but the port says whom a call is for.
    for port in Set(services.compactMap(\.port?.number)) {
      let all = services.filter { $0.port?.number == port }
      guard all.count > 1, all.contains(where: { $0.port?.kind == .tcp }) else { continue }
      throw ComposeFault(
        line: 1, "\(all.map(\.name).joined(separator: " and ")) have the same port \(port), and one of them is /tcp",
        hint: "give one of them another port")
    }
  }

  static let keeper = "sallyport-identities"

  /// The address of a sidecar on the network of all sidecars.
  private func outer(_ index: Int) -> String { "\(subnet).0.\(index + 2)" }
  /// The addresses on the network of one service.
  private func inner(_ index: Int) -> String { "\(subnet).\(index + 1).2" }
  private func own(_ index: Int) -> String { "\(subnet).\(index + 1).3" }

  // MARK: The configuration of a sidecar

  package func configuration(of index: Int) -> String {
    let tcp = stream(index)
    return """
      error_log stderr notice;
      worker_processes 1;

      events {}

      http {
        access_log off;
        server_tokens off;
        client_max_body_size 0;
        proxy_request_buffering off;
        proxy_http_version 1.1;
        proxy_read_timeout 1h;

        proxy_ssl_certificate          /identity/identity.pem;
        proxy_ssl_certificate_key      /identity/identity.pem;
        proxy_ssl_trusted_certificate  /identity/ca.crt;
        proxy_ssl_crl                  /identity/crl.pem;
        proxy_ssl_verify               on;
        proxy_ssl_server_name          on;
      \(http(index))}
      \(tcp.isEmpty ? "" : "\nstream {\n\(tcp)}\n")
      """
  }

  private static let identity = """
        ssl_certificate         /identity/identity.pem;
        ssl_certificate_key     /identity/identity.pem;
        ssl_client_certificate  /identity/ca.crt;
        ssl_crl                 /identity/crl.pem;
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
            proxy_ssl_certificate          /identity/identity.pem;
            proxy_ssl_certificate_key      /identity/identity.pem;
            proxy_ssl_trusted_certificate  /identity/ca.crt;
            proxy_ssl_crl                  /identity/crl.pem;
            proxy_ssl_verify               on;
          }

        """
    }
    return text
  }

  // MARK: The override

  package var override: String {
    let names = services.map(\.name)
    return """
      # Made by `sallyport compose`. Compose 2.24.4 or later takes it beside your file:
      #
      #   docker compose -f compose.yaml -f FILE up -d
      #   docker compose -f compose.yaml -f FILE exec \(Self.keeper) sallyport compose stop NAME     # NAME is out within 5 s
      #
      # Services that aren't named here can't reach these. Ports that your file publishes stay as they are.
      services:
      \(services.indices.map(sidecar).joined())\
        \(Self.keeper):
          image: \(image)
          command: [compose, identities, /authority, /services, \(names.joined(separator: ", "))]
          network_mode: none
          # The folders of the identities are the sidecars', whose user is another one.
          user: "0:0"
          read_only: true
          cap_drop: [ALL]
          cap_add: [CHOWN, DAC_OVERRIDE, FOWNER]
          security_opt: ["no-new-privileges:true"]
          volumes:
            - sallyport-authority:/authority
      \(names.map { "      - sallyport-\($0):/services/\($0)\n" }.joined())\
          healthcheck:
            test: [CMD, sallyport, ca, inspect, "/services/\(names.last ?? "")/identity.pem"]
            interval: 1s
            retries: 30
          restart: unless-stopped

      networks:
        sallyport:
          internal: true
          ipam: {config: [{subnet: \(subnet).0.0/24, gateway: \(subnet).0.1}]}
      \(services.indices.map { "  sallyport-\(services[$0].name):\n    ipam: {config: [{subnet: \(subnet).\($0 + 1).0/29, gateway: \(subnet).\($0 + 1).1}]}\n" }.joined())
      volumes:
        sallyport-authority:
      \(names.map { "  sallyport-\($0):\n" }.joined())
      configs:
      \(services.indices.map(config).joined())
      """
  }

  private func sidecar(_ index: Int) -> String {
    let name = services[index].name
    let others = services.enumerated().filter { $0.offset != index && $0.element.port != nil }.map(\.element.name)
    return """
        \(name):
          networks: !override
            sallyport-\(name): {ipv4_address: \(own(index))}
        \(name)-sallyport:
          image: \(image)
          configs: [{source: sallyport-\(name), target: /etc/sallyport/sallyport.conf}]
          volumes: ["sallyport-\(name):/identity:ro"]
          networks:
            sallyport: {ipv4_address: \(outer(index))}
            sallyport-\(name): {ipv4_address: \(inner(index)), aliases: [\(others.joined(separator: ", "))]}
          depends_on: {\(Self.keeper): {condition: service_healthy}}
          read_only: true
          tmpfs: ["/tmp:size=64m,mode=1777,noexec,nosuid,nodev"]
          cap_drop: [ALL]
          security_opt: ["no-new-privileges:true"]
          restart: unless-stopped

      """
  }

  /// Compose replaces `$NAME`, and takes `$$` for one dollar.
  private func config(_ index: Int) -> String {
    let lines = configuration(of: index).replacing("$", with: "$$").split(
      separator: "\n", omittingEmptySubsequences: false)
    return "  sallyport-\(services[index].name):\n    content: |\n"
      + lines.map { $0.isEmpty ? "\n" : "      \($0)\n" }.joined()
  }
}
