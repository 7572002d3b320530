import Foundation
import Glibc
import Synchronization
import TestSupport

/// A real Redis that can be ended and started again, on one port.
final class StoreServer: Sendable {
  static let isInstalled = RedisServer.isInstalled
  let scene: Scene
  let port: UInt16
  private let address: String
  private let folder: PeerFolder
  private let command: [String]
  private let process = Mutex<ChildProcess?>(nil)
  private let client: [String]

  /// The user that the documents name, with the rights that sallyport needs (docs/operating/several-machines.md).
  static let user = """
    user default off
    user admin on >admin ~* &* +@all
    user gate on >a\u{20AC}b ~sallyport:* +hello +auth +select +script|load +evalsha +time +get +set +del +exists +hget +hscan +hgetall +hset \
    +hincrby +hdel +pexpire +expire +zadd +zrem +zcard +zrange +zremrangebyscore +lindex +lpush +rpop +lrange
    """

  /// `identity`: it speaks TLS alone, takes clients with a certificate of ca.pem, and has the users `admin` and `gate`.
  init(
    _ scene: Scene, identity: IdentityFiles? = nil, at address: String = "127.0.0.1", port: UInt16? = nil,
    options: [String] = []
  ) async throws {
    self.scene = scene
    self.address = address
    self.port = try port ?? scene.port()
    folder = try PeerFolder(scene, "store-\(address)-\(self.port)")
    var command = ["redis-server", "--bind", address, "--save", "", "--appendonly", "no", "--dir", folder.path]
    if let identity {
      try folder.take(identity)
      try folder.write("ca.pem", text: scene.text("ca.pem"))
      try folder.write("users.acl", text: Self.user.replacing("\\\n", with: "") + "\n")
      command += [
        "--port", "0", "--tls-port", "\(self.port)", "--tls-cert-file", "server.pem", "--tls-key-file", "server.key",
        "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "yes", "--aclfile", "users.acl",
      ]
      client = [
        "--tls", "--cacert", scene.path("ca.pem"), "--cert", scene.path("alice.pem"), "--key", scene.path("alice.key"),
        "--user", "admin",
        "--pass", "admin",
      ]
    } else {
      command += ["--port", "\(self.port)"]
      client = []
    }
    self.command = command + options
    try await folder.handOver()
    scene.atEnd { [self] in process.withLock { $0 }?.stop() }
    try await start()
  }

  func start() async throws {
    let words =
      (geteuid() == 0
        ? ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--no-new-privs"] : ["env"]) + command
    let child = try ChildProcess(
      words[0], Array(words.dropFirst()), in: folder.path, output: "\(folder.path)/output",
      errors: "\(folder.path)/output")
    process.withLock { $0 = child }
    scene.onFailure(show: "redis") { [self] in folder.text("output") }
    try await until("redis to be ready") {
      if let ending = child.ending { throw ToolFailed(description: "redis ended, \(ending): \(folder.text("output"))") }
      return address == "127.0.0.1" ? accepts(port) : folder.text("output").contains("Ready to accept connections")
    }
  }

  func signal(_ number: Int32) { process.withLock { $0 }?.signal(number) }

  func kill() async throws {
    signal(SIGKILL)
    _ = try await process.withLock { $0 }?.ended()
  }

  @discardableResult
  func ask(_ words: String...) async throws -> String { try await run(words) }

  @discardableResult
  func run(_ words: [String]) async throws -> String {
    let result = try await scene.run(
      "redis-cli", ["-h", address, "-p", "\(port)", "--no-auth-warning"] + client + words)
    guard result.status == 0 else { throw ToolFailed(description: "\(words): \(result.everything)") }
    return result.text
  }
}

/// Two daemons with the same configuration, as on two machines. They have ports and files of their own.
struct TwoMachines: Sendable {
  let daemons: [Sallyport]
  let ports: [UInt16]
  private let scene: Scene

  /// `http`: PORT stands for the port. `users`: what the file `users` has.
  init(_ scene: Scene, _ http: String, users: String = "") async throws {
    self.scene = scene
    if !users.isEmpty { try scene.write("users", text: users) }
    var (daemons, ports): ([Sallyport], [UInt16]) = ([], [])
    for name in ["sallyport", "two"] {
      let port = try scene.port()
      let text = configuration(http.replacing("PORT", with: "127.0.0.1:\(port)"))
      let own =
        name == "two" ? text.replacing("sallyport.pid", with: "two.pid").replacing("error.log", with: "two.log") : text
      daemons.append(try await Sallyport.start(scene, own, name: name))
      ports.append(port)
    }
    (self.daemons, self.ports) = (daemons, ports)
    scene.onFailure(show: "two.log") { scene.text("two.log") }
  }

  func get(_ machine: Int, _ path: String, _ arguments: [String] = []) async throws -> CurlResult {
    try await scene.curl(arguments + ["http://127.0.0.1:\(ports[machine])\(path)"])
  }

  /// Waits until both have a connection to each store.
  func untilConnected(_ path: String = "/metrics") async throws {
    for machine in daemons.indices {
      try await until("machine \(machine) to reach the store") {
        let page = try await get(machine, path).text
        return page.split(separator: "\n").contains {
          $0.hasPrefix("sallyport_shared_store_connections{") && $0.hasSuffix(" 2")
        }
      }
    }
  }
}
