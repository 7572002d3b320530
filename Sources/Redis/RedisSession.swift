public import Bytes

/// Who logs in, and where.
public struct RedisLogin: Sendable {
  /// nil: the server's default user.
  public let user: String?
  /// nil: the server asks for none.
  public let password: SecretBytes?
  public let database: Int

  public init(user: String?, password: SecretBytes?, database: Int) {
    self.user = user
    self.password = password
    self.database = database
  }
}

/// Why a connection to a server is of no use.
public enum RedisFault: Error, Equatable, Sendable, CustomStringConvertible {
  case malformed(String)
  /// The server refuses the login, or a script.
  case refused(String)
  case cluster
  case sentinel
  case replica
  /// A reply that no command asked for.
  case unasked
  /// A reply that the command doesn't have: whatever comes after it may answer something else.
  case other

  public var description: String {
    switch self {
    case .malformed(let reason): "what it sends is not the protocol of Redis: \(reason)"
    case .refused(let reason): "it refuses the login: \(reason)"
    case .cluster: "it is a node of a Redis Cluster, which sallyport does not support: name a single server"
    case .sentinel: "it is a Sentinel, which holds no data: name the server that it watches"
    case .replica: "it is a replica, which takes no writes"
    case .unasked: "it sent a reply that nothing asked for"
    case .other: "it sent a reply that answers something else"
    }
  }
}

/// One connection to a Redis or Valkey server, as a value: bytes of the server in, replies out, in the order of the
/// commands.
///
///     login ──► ready ──► lost
///
/// The login is sent in one piece: HELLO (with the password), SELECT, and SCRIPT LOAD for each script. A server that is a
/// replica, a Sentinel or a node of a cluster is refused, so that no decision rests on what another server might not
/// have.
public struct RedisSession: Sendable {
  public enum Event: Equatable, Sendable {
    /// The login is over: commands may go out.
    case ready
    /// To the oldest command without a reply.
    case reply(RedisReply)
    /// Nothing comes after this.
    case lost(RedisFault)
  }

  private enum Phase {
    /// Replies of the login that are still due, in order.
    case login([Due])
    /// Commands without a reply.
    case ready(waiting: Int)
    case lost
  }

  private enum Due { case hello, selected, script }

  private var phase: Phase
  private var reader = RedisReader()
  private let login: RedisLogin
  private let scripts: [String]
  /// SHA-1 of the scripts, as the server names them.
  private var names: [[UInt8]] = []

  /// `scripts`: Lua, by the numbers that commands name.
  public init(_ login: RedisLogin, scripts: [String]) {
    self.login = login
    self.scripts = scripts
    phase = .login(
      [.hello] + (login.database == 0 ? [] : [.selected]) + scripts.map { _ in .script })
  }

  /// What goes out first.
  public var opening: ByteBuffer {
    var output = ByteBuffer()
    var hello = ["HELLO", "2"].map { Array($0.utf8) }
    if let password = login.password {
      hello += [Array("AUTH".utf8), Array((login.user ?? "default").utf8), password.withUnsafeBytes { Array($0) }]
    }
    RedisCommand.append(hello, to: &output)
    if login.database != 0 { RedisCommand.append("SELECT", "\(login.database)", to: &output) }
    for script in scripts { RedisCommand.append("SCRIPT", "LOAD", script, to: &output) }
    return output
  }

  private static let one = [UInt8(ascii: "1")]

  public var isReady: Bool { if case .ready = phase { true } else { false } }

  /// Notes that commands go out. Only when the session is ready.
  public mutating func expect(_ count: Int = 1) {
    if case .ready(let waiting) = phase { phase = .ready(waiting: waiting + count) }
  }

  /// A command that runs a script (EVALSHA). `script`: its number; a number without a script has no effect.
  public func append(script: Int, keys: [[UInt8]], _ arguments: [[UInt8]], to output: inout ByteBuffer) {
    guard names.indices.contains(script) else { return }
    // Without a list of all words: each request asks.
    RedisCommand.begin(3 + keys.count + arguments.count, &output)
    output.append("$7\r\nEVALSHA\r\n")
    RedisCommand.append(names[script], &output)
    RedisCommand.append(keys.count == 1 ? Self.one : Array("\(keys.count)".utf8), &output)
    for key in keys { RedisCommand.append(key, &output) }
    for argument in arguments { RedisCommand.append(argument, &output) }
  }

  public mutating func take(_ bytes: UnsafeRawBufferPointer) {
    if case .lost = phase { return }
    reader.append(bytes)
  }

  /// The next event; nil: more bytes are needed.
  public mutating func next() -> Event? {
    if case .lost = phase { return nil }
    let reply: RedisReply
    do throws(RedisReader.Malformed) {
      guard let next = try reader.next() else { return nil }
      reply = next
    } catch {
      return lose(.malformed(error.reason))
    }
    switch phase {
    case .login(let due): return login(reply, due)
    case .ready(let waiting):
      guard waiting > 0 else { return lose(.unasked) }
      phase = .ready(waiting: waiting - 1)
      return .reply(reply)
    case .lost: return nil
    }
  }

  private mutating func login(_ reply: RedisReply, _ due: [Due]) -> Event? {
    if case .error(let refusal) = reply { return lose(.refused(refusal.description)) }
    switch due.first {
    case .hello: if let fault = Self.fault(ofGreeting: reply) { return lose(fault) }
    case .selected: break
    case .script:
      guard case .text(let name) = reply, name.count == 40 else {
        return lose(.malformed("no name of a script where one is due"))
      }
      names.append(name)
    case nil: return lose(.unasked)
    }
    let rest = Array(due.dropFirst())
    if !rest.isEmpty {
      phase = .login(rest)
      return next()
    }
    phase = .ready(waiting: 0)
    return .ready
  }

  private mutating func lose(_ fault: RedisFault) -> Event {
    phase = .lost
    return .lost(fault)
  }

  /// The reply to HELLO: names and values in turn.
  private static func fault(ofGreeting reply: RedisReply) -> RedisFault? {
    guard case .list(let items) = reply else { return .malformed("HELLO has another answer") }
    func value(_ name: String) -> String? {
      for index in stride(from: 0, to: items.count - 1, by: 2) where items[index] == .text(Array(name.utf8)) {
        if case .text(let value) = items[index + 1] { return String(decoding: value, as: UTF8.self) }
      }
      return nil
    }
    switch value("mode") {
    case "cluster": return .cluster
    case "sentinel": return .sentinel
    default: break
    }
    // Redis says "replica" or "slave", by its version.
    guard let role = value("role") else { return .malformed("HELLO tells no role") }
    return role == "master" ? nil : .replica
  }
}
