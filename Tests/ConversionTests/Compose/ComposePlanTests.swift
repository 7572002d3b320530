import Testing

@testable import Conversion

@Suite struct `An override for a compose file` {
  private static let file = """
    services:
      web:
        image: web
        ports: ["80:80"]
      api: {image: api}
      db:
        image: postgres
      other: {image: x, network_mode: host}
    """

  private func mesh(_ words: [String]) throws -> ComposeMesh {
    ComposeMesh(try words.map { try #require(ComposeService($0)) })
  }

  @discardableResult
  private func plan(_ words: [String], _ text: String = file) throws -> ComposePlan {
    try ComposePlan(text, mesh(words))
  }

  @Test func `each service named has a network with its sidecar alone, and a token`() throws {
    let words = ["web", "api:8080", "db:5432/tcp"]
    let text = try plan(words).override(tokens: ["t1", "t2", "t3"])
    for (name, token) in [("web", "t1"), ("api", "t2"), ("db", "t3")] {
      #expect(text.contains("  \(name):\n    networks: !override\n      sallyport-\(name): {"), "\(text)")
      #expect(text.contains("  \(name)-sallyport:\n") && text.contains("{SALLYPORT_JOIN: \"\(name)=\(token)\"}\n"))
      #expect(text.contains("volumes: [\"sallyport-\(name):/var/lib/sallyport\"]\n"))
    }
    #expect(text.contains("aliases: [\"api\", \"db\"]") && text.contains("aliases: [\"db\"]"))
    #expect(text.contains("command: [compose, identities, \"10.213.0.254:7613\"]"))
    #expect(text.contains("{SALLYPORT_JOIN: \"web=t1 api=t2 db=t3\"}"))
    #expect(text.contains("7613\", \"--subnet\", \"10.213\", \"web\", \"api:8080\", \"db:5432/tcp\"]"))
    #expect(!text.contains("  other:") && !text.contains("docker.sock"))
    // Compose would replace a variable, and puts no text of the file into a container that can't be written to.
    #expect(!text.contains("$") && !text.contains("configs:") && !text.contains("secrets:"))
  }

  @Test func `a sidecar takes its own calls in clear, and those of others with a certificate alone`() throws {
    let mesh = try mesh(["web", "api:8080", "db:5432/tcp"])
    for index in 0..<3 {
      for part in mesh.configuration(of: index).components("server {").dropFirst() {
        let isOfOthers = part.contains("listen 10.213.0.")
        #expect(isOfOthers == part.contains("ssl_verify_client       on;"), "\(part)")
        #expect(isOfOthers || part.contains("listen 10.213.\(index + 1).2:"))
        #expect(isOfOthers || part.contains("https://") || part.contains("proxy_ssl  ") || part.contains("return 421"))
      }
    }
    #expect(mesh.configuration(of: 0).contains("proxy_ssl_name api;"))
    #expect(!mesh.configuration(of: 0).contains("ssl_verify_client"), "nobody calls it")
    let elsewhere = mesh.configuration(of: 0, folder: "/x")
    #expect(elsewhere.contains("/x/key.pem;") && !elsewhere.contains("/var/lib") && !elsewhere.contains("FOLDER"))
  }

  @Test func `two services of HTTP may have one port, and the name says whom a call is for`() throws {
    try plan(["web:8080", "api:8080", "db"])
    let calls = try mesh(["web:8080", "api:8080", "db"]).configuration(of: 2)
    #expect(calls.contains("server_name web;") && calls.contains("server_name api;") && calls.contains("return 421"))
    let fault = #expect(throws: ComposeFault.self) { try self.plan(["web:8080", "api:8080/tcp"]) }
    #expect(fault?.message.contains("same port 8080") == true)
  }

  @Test(arguments: [
    ("network_mode: host", "past the sidecar"), ("links: [db]", "past the sidecar"), ("scale: 2", "one address"),
    ("extends: {file: x}", "network"), ("novelty: 1", "unknown"),
  ])
  func `a key that may lead past the sidecar is refused, with its line`(key: String, words: String) throws {
    let fault = #expect(throws: ComposeFault.self) {
      try self.plan(["web"], "services:\n  web:\n    image: x\n    \(key)\n")
    }
    #expect(fault?.line == 4 && fault?.hint.contains(words) == true, "\(String(describing: fault))")
    // It is no matter of a service that isn't named.
    try plan(["db"], "services:\n  web:\n    \(key)\n  db: {image: x}\n")
  }

  @Test func `a service that isn't there, taken names and other services' files are refused`() throws {
    #expect(throws: ComposeFault.self) { try self.plan(["none"]) }
    #expect(throws: ComposeFault.self) { try self.plan(["web", "web:80"]) }
    #expect(throws: ComposeFault.self) { try self.plan(["web"], Self.file + "\n  web-sallyport: {image: x}\n") }
    #expect(throws: ComposeFault.self) { try self.plan(["web"], Self.file + "\ninclude: [more.yaml]\n") }
    #expect(throws: ComposeFault.self) { try self.plan(["web"], "name: x\n") }
    for bad in ["", "A", "a b", "web:0", "web:99999", "web:80/udp", "web:80/tcp/x", "-a", "a_b", "a$b"] {
      #expect(ComposeService(bad) == nil, "\(bad)")
    }
  }
}

extension String {
  fileprivate func components(_ separator: String) -> [Substring] { split(separator: separator) }
}
