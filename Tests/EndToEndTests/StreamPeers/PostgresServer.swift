import Foundation
import Glibc
import TestSupport

/// A real PostgreSQL in a folder of its own, which any user of this machine may use without a password.
struct PostgresServer: Sendable {
  /// The folder of its programs: Debian has one for each version.
  static let tools: String? = {
    let root = "/usr/lib/postgresql"
    let versions = (try? FileManager.default.contentsOfDirectory(atPath: root))?.compactMap(Int.init) ?? []
    return versions.sorted(by: >).map { "\(root)/\($0)/bin" }.first { folder in
      ["initdb", "postgres", "psql", "pgbench"].allSatisfy { access("\(folder)/\($0)", X_OK) == 0 }
    }
  }()
  static let isInstalled = tools != nil
  static let version = tools.flatMap { $0.split(separator: "/").dropLast().last }.flatMap { Int($0) } ?? 0

  static func tool(_ name: String) throws -> String {
    guard let tools else { throw ToolFailed(description: "PostgreSQL is not installed") }
    return "\(tools)/\(name)"
  }

  let scene: Scene
  let port: UInt16
  private let folder: PeerFolder

  /// Its socket, as proxy_pass names it.
  var socket: String { "unix:\(folder.path)/.s.PGSQL.\(port)" }
  var log: String { folder.text("output") }

  /// `identity`: it speaks TLS, and takes clients over TCP only with a certificate of ca.pem for their user's name.
  static func start(_ scene: Scene, identity: IdentityFiles? = nil) async throws -> PostgresServer {
    let folder = try PeerFolder(scene, "postgres"), port = try scene.port()
    var settings = """
      listen_addresses = '127.0.0.1'
      port = \(port)
      unix_socket_directories = '\(folder.path)'
      max_connections = 250
      fsync = off
      log_connections = on
      log_line_prefix = '%h '

      """
    var rules = "local all all trust\n"
    if let identity {
      try folder.take(identity)
      try FileManager.default.copyItem(atPath: scene.path("ca.pem"), toPath: "\(folder.path)/ca.pem")
      settings += """
        ssl = on
        ssl_cert_file = '\(folder.path)/server.pem'
        ssl_key_file = '\(folder.path)/server.key'
        ssl_ca_file = '\(folder.path)/ca.pem'

        """
      rules += "hostssl all all 127.0.0.1/32 cert\n"
    } else {
      rules += "host all all 127.0.0.1/32 trust\n"
    }
    try folder.write("settings", text: settings)
    try folder.write("rules", text: rules)
    try await folder.handOver()
    let data = "\(folder.path)/data"
    try await folder.run(
      tool("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--locale=C", "--encoding=UTF8", "--no-sync")
    try await folder.run("cp", "\(folder.path)/settings", "\(data)/postgresql.auto.conf")
    try await folder.run("cp", "\(folder.path)/rules", "\(data)/pg_hba.conf")
    let server = PostgresServer(scene: scene, port: port, folder: folder)
    try await server.run()
    return server
  }

  private func run() async throws {
    let before = log.ranges(of: "ready to accept connections").count
    // SIGQUIT: at once, but with its processes.
    try await folder.serve([Self.tool("postgres"), "-D", "\(folder.path)/data"], ending: SIGQUIT) {
      log.ranges(of: "ready to accept connections").count > before
    }
  }

  /// Ends it as a crash would, with all of its sessions.
  func crash() async throws {
    guard let pid = processes.first else { return }
    Glibc.kill(pid, SIGQUIT)
    try await until("PostgreSQL to end") { Glibc.kill(pid, 0) != 0 }
  }

  /// Starts it after a crash.
  func restart() async throws { try await run() }

  /// Stops or continues all of its processes, so that it keeps its sessions and says nothing.
  func signal(_ signal: Int32) async throws {
    guard let main = processes.first else { return }
    let sessions = try await scene.run("ps", ["-o", "pid=", "--ppid", "\(main)"]).text
      .split { " \n".contains($0) }.compactMap { Int32($0) }
    for pid in [main] + sessions { Glibc.kill(pid, signal) }
  }

  /// Its first process.
  private var processes: [Int32] {
    folder.text("data/postmaster.pid").split(separator: "\n").prefix(1).compactMap { Int32($0) }
  }

  /// A database with a role of the same name that owns it, as libpq names it: by this server's own socket.
  func makeDatabase(_ name: String) async throws -> String {
    try await ask("create role \(name) login")
    try await ask("create database \(name) owner \(name)")
    return "postgresql://\(name)@/\(name)?host=\(folder.path)&port=\(port)"
  }

  /// Asks it by its own socket, past the daemon.
  @discardableResult
  func ask(_ statement: String, of database: String = "postgres") async throws -> String {
    let result = try await scene.run(
      Self.tool("psql"), ["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, database],
      environment: environment, within: .seconds(600))
    guard result.status == 0 else { throw ToolFailed(description: "\(statement): \(result.everything)") }
    return result.text.trimmingCharacters(in: .newlines)
  }

  private var environment: [String: String] {
    ["PGHOST": folder.path, "PGPORT": "\(port)", "PGUSER": "postgres", "PGDATABASE": "postgres"]
  }

  /// A backup of a database, as statements.
  func dump(_ name: String) async throws -> String {
    let result = try await scene.run(Self.tool("pg_dump"), ["--clean", "--if-exists", name], environment: environment)
    guard result.status == 0 else { throw ToolFailed(description: result.everything) }
    return result.text
  }

  func restore(_ name: String, _ backup: String) async throws {
    let result = try await scene.run(
      Self.tool("psql"), ["-XAtq", "-v", "ON_ERROR_STOP=1", name], input: Array(backup.utf8), environment: environment)
    guard result.status == 0 else { throw ToolFailed(description: result.everything) }
  }

  /// From now on, a client over TCP has to know its user's password.
  func requirePasswords() async throws {
    try folder.write("data/pg_hba.conf", text: "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    try await folder.handOver()
    try await ask("select pg_reload_conf()")
    // It reads the rules before it accepts another connection.
    try await until("PostgreSQL to reload") { log.contains("reloading configuration files") }
  }

  /// Connections over TCP that got as far as a session.
  var sessions: Int {
    log.split(separator: "\n").count { $0.hasPrefix("127.0.0.1 ") && $0.contains("connection authorized") }
  }
}

/// libpq's clients of a port, with what they trust and are.
struct PostgresClient: Sendable {
  let scene: Scene
  let port: UInt16
  var identity: IdentityFiles?
  var mode = "verify-full"
  var more: [String: String] = [:]

  init(_ proxy: PeerProxy) {
    scene = proxy.scene
    port = proxy.port
    identity = proxy.cast.alice
  }

  /// Nothing of the user's own folder counts.
  var environment: [String: String] {
    [
      "PGHOST": "localhost", "PGHOSTADDR": "127.0.0.1", "PGPORT": "\(port)", "PGUSER": "postgres",
      "PGDATABASE": "postgres", "PGSSLMODE": mode, "PGSSLROOTCERT": scene.path("ca.pem"), "PGCONNECT_TIMEOUT": "30",
      "PGSSLCERT": identity?.certificate ?? scene.path("none"), "PGSSLKEY": identity?.key ?? scene.path("none"),
    ].merging(more) { $1 }
  }

  func psql(_ statements: String..., within bound: Duration = .seconds(40)) async throws -> ToolResult {
    try await run("psql", ["-XAtq", "-v", "ON_ERROR_STOP=1"] + statements.flatMap { ["-c", $0] }, within: bound)
  }

  func pgbench(_ arguments: [String]) async throws -> ToolResult {
    try await run("pgbench", arguments, within: .seconds(300))
  }

  private func run(_ tool: String, _ arguments: [String], within bound: Duration) async throws -> ToolResult {
    try await scene.run(PostgresServer.tool(tool), arguments, environment: environment, within: bound)
  }

  /// Starts psql with these statements and doesn't wait for its end. Its output goes to NAME.out, its errors to NAME.err.
  func begin(_ statements: [String], name: String) throws -> ChildProcess {
    let process = try ChildProcess(
      PostgresServer.tool("psql"), ["-XAtq", "-v", "ON_ERROR_STOP=1"] + statements.flatMap { ["-c", $0] },
      in: scene.folder, environment: environment, output: scene.path("\(name).out"),
      errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    return process
  }
}
