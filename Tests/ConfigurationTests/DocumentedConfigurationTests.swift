import ConfigurationSupport
@testable import Features
@testable import Forward
import Foundation
import TestSupport
import Testing
@testable import Traffic

/// The configurations that the documents show are ones: each block is taken somewhere. `…` stands for what a reader knows
/// from elsewhere: the certificates of a server, or the end of a pin.
@Suite struct `The configurations of the documents` {
  @Test(arguments: DocumentedBlock.configurations) func `a block is valid where it may stand`(block: DocumentedBlock) {
    var closest: [String]?
    for rest in Self.rests {
      for place in Self.places {
        let text = place.replacing(
          "BLOCK",
          with:
            "\n\(block.text.replacing("sha256//…", with: Self.pin).replacing(Self.included, with: Self.parameter).replacing("…", with: rest))\n"
        )
        let errors = LoadedText(text).errors
        if errors.isEmpty { return }
        // A place where its directives don't belong tells nothing.
        if errors.contains(where: { $0.contains("is not allowed here") }) { continue }
        if errors.count < closest?.count ?? .max { closest = errors }
      }
    }
    Issue.record("\(block): \(closest ?? ["its directives belong to no one place"])")
  }

  @Test func `the blocks are found`() {
    let blocks = DocumentedBlock.configurations
    #expect(blocks.count > 35, "\(blocks.count)")
    for page in ["README.md", "docs/operating/tcp.md", "docs/operating/changes.md", "docs/operating/observe.md"] {
      #expect(blocks.contains { $0.page == page }, "\(page)")
    }
  }

  /// Why no test of this suite and none of `sallyport` commands has a block, by the beginning of the first line that is neither
  /// configuration nor such a command. A name of a suite says who runs it.
  private static let others: [String: String] = [
    // Run by a test.
    "README.md: sudo apt install": "DeploymentTests, with the package under systemd",
    "docs/MIGRATING-FROM-GHOSTUNNEL.md: ghostunnel server": "PageTests of the conversions",
    "docs/MIGRATING-FROM-GHOSTUNNEL.md: ghostunnel client": "PageTests of the conversions",
    "docs/MIGRATING-FROM-HAPROXY.md: frontend api": "PageTests of the conversions",
    "docs/MIGRATING-FROM-NGINX.md: cp sallyport.conf": "ToolTests",
    "docs/MIGRATING-FROM-STUNNEL.md: [db]": "PageTests of the conversions",
    "docs/MIGRATING-FROM-STUNNEL.md: [mail]": "PageTests of the conversions",
    "docs/SECURITY.md: openssl x509": "DocumentedCommandTests",
    "docs/operating/acme.md: case": "DocumentedCommandTests",
    "docs/operating/audit.md: openssl genpkey": "DocumentedCommandTests",
    "docs/operating/first-steps.md: curl --retry": "DeploymentTests",
    "docs/operating/first-steps.md: server localhost  sallyport.conf": "DocumentedCommandTests",
    "docs/operating/first-steps.md: SALLYPORT_LISTEN": "DocumentedCommandTests",
    "docs/operating/messages.md: openssl rand -hex 32 > body.key": "DocumentedCommandTests",
    "docs/operating/messages.md: iv=": "DocumentedCommandTests",
    "docs/operating/messages.md: openssl rand -hex 32 > app.secret": "DocumentedCommandTests",
    "docs/operating/messages.md: printf 'POST": "DocumentedCommandTests, but for the request to another machine",
    "docs/operating/policy-tests.md: who boss": "AccessPolicyTests",
    "docs/operating/several-machines.md: user gate on": "StoreServer: the server of all its tests has this user",
    "docs/operating/upstreams.md: cn=alice": "UserFileTests",
    // What a command or log says, with dates, times and machines that a test has no part of.
    "docs/operating/audit.md: {": "output; AuditLineTests has each member",
    "docs/operating/audit.md: audit.log:12": "output; AuditVerificationTests has the faults",
    "docs/operating/changes.md: app 10.0.0.5:8443 up": "output; APITests has its lines",
    "docs/operating/clients-record.md: 1 of 4": "output; ClientForecastTests has the report",
    "docs/operating/first-steps.md: opens:": "output; TrustDifferenceTests has its sentences",
    "docs/operating/groups.md: upstream": "log; IncidentPageTests has its words",
    "docs/operating/observe.md: Status:": "output of systemctl; ServiceStatusTests has the text",
    "docs/operating/observe.md: 1 failed": "output; the tests of doctor have its lines",
    "docs/operating/policy-tests.md: access.policy:9": "output; AccessPolicyTests has it",
    "docs/operating/policy-tests.md: sallyport.conf:31": "output; AccessPolicyTests has it",
    "docs/operating/tcp.md: *7 client": "log; the tests of stream have its lines",
    "docs/operating/ways.md: Ways that ask": "output; WaysTests has the report",
    // What takes a program or a machine that tests don't have.
    "README.md: docker load": "no docker where tests run; Tests/image runs the image",
    "docs/ARCHITECTURE.md: swift build": "the steps of Tests/run",
    "docs/operating/authority.md: curl": "a server of a name on the network; the tests of enrolment send this request",
    "docs/operating/authority.md: E=": "a server of a name on the network; the tests of EST send these requests",
    "docs/operating/authority.md: createuser": "an account of the database; the tests of the register make theirs",
    "docs/operating/authority.md: [Service]": "a drop-in for systemd",
    "docs/operating/changes.md: curl": "a server of a name on the network; APITests sends such requests",
    "docs/operating/changes.md: prometheus-nginx-exporter": "a program of Debian 13; PlusClientTests has its requests",
    "docs/operating/clients.md: curl": "a server of a name on the network",
    "docs/operating/clients-record.md: sudo install": "the account of the package",
    "docs/operating/http.md: grpcurl":
      "a program that Debian doesn't have; the tests of gRPC have clients of their own",
    "docs/operating/install.md: sudo systemctl stop": "Tests/systemd, where it can run",
    "docs/operating/install.md: openssl_conf": "a token; the tests of pkcs11 make such a file",
    "docs/operating/install.md: docker compose": "no docker where tests run; ComposeTests runs the override",
    "docs/operating/observe.md: HEALTHCHECK": "a line of a Dockerfile, and one of a manifest",
    "docs/operating/policy-tests.md: check-access": "a job of GitLab",
    "docs/operating/run.md: sudo mkdir": "Tests/systemd, where it can run",
    "docs/operating/run.md: frontend tls": "HAProxy on a machine of its own; Tests/machines runs such a file",
    "docs/operating/run.md: volumeMounts": "a part of a manifest",
  ]

  @Test func `each other block of a page is run by a test, or has a reason why it isn't`() {
    var unseen = Set(Self.others.keys)
    for block in PageBlock.all where block.page != "docs/CHANGELOG.md" {
      guard let first = DocumentedBlock.parts(of: block.lines).rest.first else { continue }
      // A command of the repository.
      let program = first.prefix { $0 != " " }
      if program.contains("/"), FileManager.default.isExecutableFile(atPath: "\(checkout)/\(program)") { continue }
      let key = Self.others.keys.first { "\(block.page): \(first)".hasPrefix($0) }
      #expect(key != nil, "\(block): no test has \"\(first)\"")
      if let key { unseen.remove(key) }
    }
    #expect(unseen.isEmpty, "no page has \(unseen.sorted())")
  }

  private static let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
  // A file of Debian's, and a line of it.
  private static let included = "include fastcgi.conf;", parameter = "fastcgi_param SCRIPT_FILENAME $uri;"
  private static let certificate = "ssl_certificate s.pem; ssl_certificate_key s.key;"
  private static let clients = "\(certificate) ssl_client_certificate c.pem;"
  private static let rests = [
    "", certificate, clients, "listen 1 ssl; \(clients) ssl_verify_client on;", "listen 1;",
  ]
  private static let places = [
    "BLOCK", "http { BLOCK server { listen 2; return 204; } }", "http { server { listen 1; BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) ssl_verify_client on; BLOCK } }",
    "http { server { listen 1 ssl; \(clients) ssl_verify_client optional; BLOCK } }",
    "http { server { listen 1 ssl; \(clients) ssl_verify_client on; BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) ssl_client_pin \(pin); ssl_verify_client on; BLOCK } }",
    "http { server { listen 1; location / { proxy_pass http://127.0.0.1:1; BLOCK } } }",
    "http { server { listen 1; location / { BLOCK } } }",
    "stream { BLOCK server { listen 2; return a; } }", "stream { server { listen 1; BLOCK } }",
  ]
}

/// A piece of a page that is a configuration.
struct DocumentedBlock: Sendable, CustomStringConvertible {
  let page: String
  let line: Int
  let text: String

  var description: String { "\(page):\(line)" }

  static let configurations: [DocumentedBlock] = PageBlock.all.compactMap { block in
    let found = parts(of: block.lines).configuration
    return found.isEmpty ? nil : DocumentedBlock(page: block.page, line: block.line, text: found)
  }

  /// What of a block is configuration: what a command writes to a file, or the paragraphs that begin with a directive; and the
  /// other lines, without comments and without commands of sallyport.
  static func parts(of lines: [Substring]) -> (configuration: String, rest: [String]) {
    if let start = lines.firstIndex(where: { $0.contains("<<'END'") }),
      let end = lines[start...].firstIndex(of: "END")
    {
      let rest = Array(lines[..<start]) + Array(lines[(end + 1)...])
      return (lines[(start + 1)..<end].joined(separator: "\n"), other(rest))
    }
    let all = paragraphs(lines)
    let configuration = all.filter(isConfiguration).map { $0.joined(separator: "\n") }.joined(separator: "\n")
    return (configuration, other(all.filter { !isConfiguration($0) }.flatMap { $0 }))
  }

  private static func other(_ lines: [Substring]) -> [String] {
    var isContinued = false
    return lines.compactMap { line in
      let text = line.trimmingCharacters(in: .whitespaces)
      if text.isEmpty || text.hasPrefix("#") { return nil }
      let isCommand =
        text.hasPrefix("sallyport ") || text.hasPrefix("$ sallyport ") || text.hasPrefix("sudo sallyport ")
      defer { isContinued = (isCommand || isContinued) && text.hasSuffix("\\") }
      return isCommand || isContinued ? nil : text
    }
  }

  /// The parts between empty lines outside of braces.
  private static func paragraphs(_ lines: [Substring]) -> [[Substring]] {
    var found: [[Substring]] = [[]]
    var depth = 0
    for line in lines {
      if line.isEmpty, depth <= 0 {
        found.append([])
        continue
      }
      found[found.count - 1].append(line)
      for character in line.prefix(while: { $0 != "#" }) {
        if character == "{" { depth += 1 } else if character == "}" { depth -= 1 }
      }
    }
    return found
  }

  private static func isConfiguration(_ paragraph: [Substring]) -> Bool {
    let statements = paragraph.map { $0.drop { $0 == " " } }.filter { !$0.isEmpty && !$0.hasPrefix("#") }
    guard let name = statements.first?.prefix(while: { $0.isLetter || $0.isNumber || $0 == "_" }),
      !Features.all.directives.table.entries(named: String(name)).isEmpty
    else { return false }
    return statements.contains { line in
      let code = line.prefix { $0 != "#" }.reversed().first { $0 != " " }
      return code.map { ";{}".contains($0) } ?? false
    }
  }
}
