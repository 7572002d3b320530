import TestSupport
import Testing

/// A real OpenLDAP with one entry: alice, a person.
struct DirectoryServer: Sendable {
  static let isInstalled = PeerFolder.has("slapd", "slapadd", "ldapsearch")
  let port: UInt16
  private let folder: PeerFolder

  /// Lines for each operation.
  var log: String { folder.text("output") }

  /// `identity`: it can speak TLS, by StartTLS or, if `isTLSFromStart`, at once; and then refuses searches without.
  static func start(
    _ scene: Scene, identity: IdentityFiles? = nil, isTLSFromStart: Bool = false
  ) async throws -> DirectoryServer {
    let folder = try PeerFolder(scene, "ldap"), port = try scene.port()
    try scene.makeFolder("ldap/database")
    var tls = ""
    if let identity {
      try folder.take(identity)
      tls = """
        TLSCertificateFile \(folder.path)/server.pem
        TLSCertificateKeyFile \(folder.path)/server.key
        TLSCACertificateFile \(folder.path)/ca.pem
        security tls=1
        """
      try folder.write("ca.pem", text: scene.text("ca.pem"))
    }
    try folder.write(
      "slapd.conf",
      text: """
        include /etc/ldap/schema/core.schema
        pidfile \(folder.path)/pid
        argsfile \(folder.path)/arguments
        modulepath /usr/lib/ldap
        moduleload back_mdb
        \(tls)
        database mdb
        suffix "dc=example,dc=org"
        rootdn "cn=admin,dc=example,dc=org"
        rootpw secret
        directory \(folder.path)/database

        """)
    try folder.write(
      "entries",
      text: """
        dn: dc=example,dc=org
        objectClass: dcObject
        objectClass: organization
        o: Example
        dc: example

        dn: cn=alice,dc=example,dc=org
        objectClass: person
        cn: alice
        sn: Liddell
        description: found

        """)
    try await folder.handOver()
    try await folder.run("slapadd", "-q", "-f", "\(folder.path)/slapd.conf", "-l", "\(folder.path)/entries")
    try await folder.serve([
      "slapd", "-h", "\(isTLSFromStart ? "ldaps" : "ldap")://127.0.0.1:\(port)", "-f", "\(folder.path)/slapd.conf",
      "-d", "stats",
    ]) { accepts(port) }
    return DirectoryServer(port: port, folder: folder)
  }
}

extension PeerProxy {
  /// Runs one of OpenLDAP's clients. `scheme`: `ldap` or `ldaps`.
  fileprivate func ldap(
    _ command: String, _ arguments: [String], scheme: String, identity: IdentityFiles?
  ) async throws -> ToolResult {
    var environment = ["LDAPTLS_CACERT": scene.path("ca.pem"), "LDAPTLS_REQCERT": "demand"]
    if let identity {
      environment["LDAPTLS_CERT"] = identity.certificate
      environment["LDAPTLS_KEY"] = identity.key
    }
    return try await scene.run(
      command, ["-x", "-H", "\(scheme)://127.0.0.1:\(port)"] + arguments, environment: environment)
  }

  /// `options`: such as -ZZ, StartTLS or nothing.
  fileprivate func search(
    _ options: [String], scheme: String = "ldap", identity: IdentityFiles?
  ) async throws -> ToolResult {
    let query = ["-LLL", "-b", "dc=example,dc=org", "(cn=alice)", "description"]
    return try await ldap("ldapsearch", options + query, scheme: scheme, identity: identity)
  }
}

@Suite(.staged, .enabled(if: DirectoryServer.isInstalled, "OpenLDAP is not installed"))
struct `OpenLDAP through a stream` {
  private static let found = "dn: cn=alice,dc=example,dc=org\ndescription: found\n\n"

  @Test(arguments: ["", "proxy_starttls ldap; \(PeerProxy.tlsUpstream)"])
  func `a client of StartTLS finds an entry and changes it`(upstream: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await DirectoryServer.start(scene, identity: upstream.isEmpty ? nil : cast.server)
    let proxy = try await PeerProxy(cast, to: server.port, "starttls ldap; \(upstream)")
    let answer = try await proxy.search(["-ZZ"], identity: cast.alice)
    #expect(answer.text == Self.found, "\(answer.everything)")
    let changes = try scene.write(
      "changes",
      text: "dn: cn=alice,dc=example,dc=org\nchangetype: modify\nreplace: description\ndescription: changed\n")
    let changed = try await proxy.ldap(
      "ldapmodify", ["-ZZ", "-D", "cn=admin,dc=example,dc=org", "-w", "secret", "-f", changes], scheme: "ldap",
      identity: cast.alice)
    #expect(changed.status == 0, "\(changed.everything)")
    #expect(try await proxy.search(["-ZZ"], identity: cast.alice).text.contains("description: changed"))
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test(arguments: ["", "proxy_starttls ldap; \(PeerProxy.tlsUpstream)"])
  func `a client that begins with TLS finds an entry`(upstream: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await DirectoryServer.start(scene, identity: upstream.isEmpty ? nil : cast.server)
    let proxy = try await PeerProxy(cast, to: server.port, upstream)
    let answer = try await proxy.search([], scheme: "ldaps", identity: cast.alice)
    #expect(answer.text == Self.found, "\(answer.everything)")
  }

  @Test func `the upstream begins with TLS`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await DirectoryServer.start(scene, identity: cast.server, isTLSFromStart: true)
    let proxy = try await PeerProxy(cast, to: server.port, "starttls ldap; \(PeerProxy.tlsUpstream)")
    let answer = try await proxy.search(["-ZZ"], identity: cast.alice)
    #expect(answer.text == Self.found, "\(answer.everything)")
  }

  @Test func `a search without StartTLS is refused, and a password with it`() async throws {
    let scene = try Scene.ofTest(), server = try await DirectoryServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port, "starttls ldap;")
    for options in [[], ["-D", "cn=admin,dc=example,dc=org", "-w", "secret"]] {
      let answer = try await proxy.search(options, identity: nil)
      // confidentialityRequired
      #expect(answer.status == 13 && answer.errors.contains("Confidentiality required (13)"), "\(answer.everything)")
      #expect(answer.text == "")
    }
    #expect(!server.log.contains("BIND") && !server.log.contains("SRCH"), "\(server.log)")
  }

  @Test func `a client without the right certificate reaches nothing`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), server = try await DirectoryServer.start(scene)
    let proxy = try await PeerProxy(cast, to: server.port, "starttls ldap;")
    for identity in [nil, proxy.stranger] {
      let answer = try await proxy.search(["-ZZ"], identity: identity)
      #expect(answer.status != 0 && answer.text == "", "\(answer.everything)")
    }
    try await proxy.daemon.logged("peer did not return a certificate")
    #expect(!server.log.contains("BIND") && !server.log.contains("SRCH"), "\(server.log)")
  }
}
