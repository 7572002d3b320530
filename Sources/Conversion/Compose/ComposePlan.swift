/// What `sallyport compose` makes of a compose file: an override with a sidecar for each named service.
///
/// Each service gets a network that it shares with its sidecar alone, and the sidecars share one more. So another container
/// reaches the service only through its sidecar, which asks for a certificate. On the service's own network the names of the
/// others lead to its sidecar, which calls theirs over TLS.
package struct ComposePlan: Sendable {
  private let mesh: ComposeMesh
  private let image: String
  private var services: [ComposeService] { mesh.services }

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
    _ text: String, _ mesh: ComposeMesh, image: String = "sallyport"
  ) throws(ComposeFault) {
    self.mesh = mesh
    self.image = image
    let services = mesh.services
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

  private static let keeper = "sallyport-identities"

  // MARK: The override

  /// `tokens`: one for each service, in their order.
  package func override(tokens: [String]) -> String {
    let subnet = mesh.subnet
    let all = zip(services, tokens).map { "\($0.name)=\($1)" }
    return """
      # Made by `sallyport compose`. Compose 2.24.4 or later takes it beside your file:
      #
      #   docker compose -f compose.yaml -f FILE up -d
      #   docker compose -f compose.yaml -f FILE exec \(Self.keeper) sallyport compose stop NAME     # NAME is out within 5 s
      #
      # Services that aren't named here can't reach these. Ports that your file publishes stay as they are.
      #
      # A token admits the key of the sidecar that comes first with it, and no other key. So this file is worth nothing to a thief
      # once all sidecars are up; before that, keep it as you keep a password.
      services:
      \(zip(services.indices, all).map(sidecar).joined())\
        \(Self.keeper):
          image: \(image)
          command: [compose, identities, "\(mesh.keeper)"]
          environment: {SALLYPORT_JOIN: "\(all.joined(separator: " "))"}
          volumes: ["sallyport-authority:/var/lib/sallyport"]
          networks:
            sallyport: {ipv4_address: \(mesh.keeper.prefix { $0 != ":" })}
      \(Self.confinement)\
          healthcheck: {disable: true}

      networks:
        sallyport:
          internal: true
          ipam: {config: [{subnet: \(subnet).0.0/24, gateway: \(subnet).0.1}]}
      \(services.indices.map { "  sallyport-\(services[$0].name):\n    ipam: {config: [{subnet: \(subnet).\($0 + 1).0/29, gateway: \(subnet).\($0 + 1).1}]}\n" }.joined())
      volumes:
        sallyport-authority:
      \(services.map { "  sallyport-\($0.name):\n" }.joined())
      """
  }

  private static let confinement = """
        read_only: true
        tmpfs: ["/tmp:size=64m,mode=1777,noexec,nosuid,nodev"]
        cap_drop: [ALL]
        security_opt: ["no-new-privileges:true"]
        restart: unless-stopped

    """

  private func sidecar(_ index: Int, _ token: String) -> String {
    let name = services[index].name
    let others = services.enumerated().filter { $0.offset != index && $0.element.port != nil }.map(\.element.name)
    let words = ["--subnet", mesh.subnet] + services.map(\.description)
    return """
        \(name):
          networks: !override
            sallyport-\(name): {ipv4_address: \(mesh.own(index))}
        \(name)-sallyport:
          image: \(image)
          command: [compose, sidecar, "\(mesh.keeper)", \(Self.list(words))]
          environment: {SALLYPORT_JOIN: "\(token)"}
          # Its key, and its certificate of an hour.
          volumes: ["sallyport-\(name):/var/lib/sallyport"]
          networks:
            sallyport: {ipv4_address: \(mesh.outer(index))}
            sallyport-\(name): {ipv4_address: \(mesh.inner(index)), aliases: [\(Self.list(others))]}
          depends_on: [\(Self.keeper)]
      \(Self.confinement)\
          healthcheck:
            test: [CMD, sallyport, health, --ready, --config, \(ComposeMesh.folder)/sallyport.conf]
            interval: 5s

      """
  }

  /// In quotation marks: YAML takes a name such as `no` for something else.
  private static func list(_ words: [String]) -> String { words.map { "\"\($0)\"" }.joined(separator: ", ") }
}
