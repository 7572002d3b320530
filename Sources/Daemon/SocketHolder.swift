import Features
import Forward
import Glibc
import Observability
import Systemd
import Traffic
package import Transport

/// Who listens on an address that this process can't bind, as far as the kernel tells this process's user.
package struct SocketHolder: Sendable, Hashable {
  /// One socket that listens: a line of /proc/net/tcp or tcp6.
  struct Listening: Sendable, Hashable {
    var address: SocketAddress
    var user: UInt32
    var inode: UInt64
  }

  package struct Process: Sendable, Hashable {
    package var identifier: Int32
    package var name: String
  }

  package let address: SocketAddress
  let user: UInt32
  /// nil: no process that this user may look at has the socket.
  package let process: Process?

  /// nil: nobody listens there, or the kernel doesn't say. Reads /proc, so never on an event loop.
  static func find(_ bound: BoundAddress) -> SocketHolder? {
    // Not /proc/net: with ProcSubset=pid, only the folders of processes are there.
    let all = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].flatMap { sockets(in: lines(of: $0)) }
    guard let found = holder(of: bound, among: all) else { return nil }
    return SocketHolder(address: found.address, user: found.user, process: process(having: found.inode))
  }

  /// Who has the addresses that can't be bound now, by address. Call this before the sandbox is in effect, which hides other
  /// processes. `held`: what this process has already.
  static func words(for listeners: [ListenerSettings], besides held: [InheritedSocket]) -> [ListenAddress: String] {
    let ours = held.compactMap { BoundAddress(of: $0.descriptor) }
    var found: [ListenAddress: String] = [:]
    for listener in listeners {
      guard let bound = BoundAddress(listener), bound.address.port != nil, !ours.contains(where: { $0.overlaps(bound) })
      else { continue }
      do throws(SocketError) {
        try Sockets.tryBinding(to: bound.address, ipv6only: listener.options.ipv6only)
      } catch {
        if error.code == EADDRINUSE { found[listener.address] = find(bound)?.words }
      }
    }
    return found
  }

  /// For a hint: `process 4711 (nginx) listens on 0.0.0.0:80`.
  package var words: String {
    if let process { return "process \(process.identifier) (\(process.name)) listens on \(address)" }
    return "a process of user \(user) listens on \(address): as root, `ss -ltnp` shows which"
  }

  /// The socket that stands in the way. The tables don't say which sockets of IPv6 take clients of IPv4, so those of the
  /// same family come first.
  static func holder(of bound: BoundAddress, among all: [Listening]) -> Listening? {
    all.first { $0.address.family == bound.address.family && BoundAddress($0.address).overlaps(bound) }
      ?? all.first { BoundAddress($0.address, isIPv6Only: false).overlaps(bound) }
  }

  // MARK: The kernel's tables

  /// The sockets that listen. A line that can't be read is left out.
  static func sockets(in lines: [String]) -> [Listening] {
    lines.compactMap { line in
      let words = line.split(whereSeparator: \.isWhitespace)
      // Number, own address, the peer's, state (0A: it listens), queues, timer, retransmissions, user, time-out, inode.
      guard words.count > 9, words[3] == "0A", let address = address(words[1]), let user = UInt32(words[7]),
        let inode = UInt64(words[9])
      else { return nil }
      return Listening(address: address, user: user, inode: inode)
    }
  }

  /// `0100007F:1F90`: words of 32 bits in the machine's order, and the port.
  private static func address(_ text: Substring) -> SocketAddress? {
    let parts = text.split(separator: ":")
    guard parts.count == 2, let port = UInt16(parts[1], radix: 16) else { return nil }
    var words: [UInt32] = []
    var rest = parts[0]
    while rest.utf8.count >= 8 {
      guard let word = UInt32(rest.prefix(8), radix: 16) else { return nil }
      words.append(UInt32(bigEndian: word))
      rest = rest.dropFirst(8)
    }
    guard rest.isEmpty else { return nil }
    switch words.count {
    case 1: return .ipv4(address: words[0], port: port)
    case 4:
      return .ipv6(
        high: UInt64(words[0]) << 32 | UInt64(words[1]), low: UInt64(words[2]) << 32 | UInt64(words[3]), port: port)
    default: return nil
    }
  }

  private static func lines(of path: String) -> [String] {
    guard let file = fopen(path, "re") else { return [] }
    defer { fclose(file) }
    var found: [String] = []
    var line: UnsafeMutablePointer<CChar>?
    var room = 0
    defer { free(line) }
    while found.count < mostLines, getline(&line, &room, file) > 0, let line { found.append(String(cString: line)) }
    return found
  }

  /// Connections are in the tables, too: after so many lines, the holder stays unknown.
  private static let mostLines = 200_000

  /// The first process that has the socket open, and that this user may look at. systemd has it beside the service whose
  /// socket it keeps in its store, so another process goes before process 1.
  private static func process(having inode: UInt64) -> Process? {
    let target = "socket:[\(inode)]"
    var ofFirst: Process?
    for name in names(in: "/proc") {
      guard let identifier = Int32(name) else { continue }
      let folder = "/proc/\(name)/fd"
      guard names(in: folder).contains(where: { link("\(folder)/\($0)") == target }) else { continue }
      // A process chooses its name, and this one is printed.
      let said = lines(of: "/proc/\(name)/comm").first?.trimmed ?? "?"
      let process = Process(identifier: identifier, name: LogEscape.visible(said))
      if identifier != 1 { return process }
      ofFirst = process
    }
    return ofFirst
  }

  private static func names(in folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name.first?.isNumber ?? false { names.append(name) }
    }
    return names
  }

  private static func link(_ path: String) -> String? {
    var target = [CChar](repeating: 0, count: 64)
    let count = readlink(path, &target, target.count)
    guard count > 0 else { return nil }
    return String(decoding: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

extension String {
  /// Without its line's end.
  fileprivate var trimmed: String { String(prefix { !$0.isNewline }) }
}
