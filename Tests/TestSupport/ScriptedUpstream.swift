import CLinux
import Foundation
import Glibc
import Synchronization

/// An upstream that does what a test tells it to: one thread a connection, which runs the script and then closes.
///
/// Keeps every byte it was sent, so that a test can say that there were none.
package final class ScriptedUpstream: Sendable {
  /// What to do with a connection, the first being number 0. The wire is closed when it returns or throws.
  package typealias Script = @Sendable (_ wire: Wire, _ number: Int) throws -> Void

  package let port: UInt16
  private let listener: Int32
  private let all = Mutex<[Wire]>([])
  private let isStopped = Mutex(false)
  private let records: Bool

  package init(
    _ scene: Scene, records: Bool = true, port wanted: UInt16 = 0, unixPath: String? = nil, script: @escaping Script
  ) throws {
    self.records = records
    let family = unixPath == nil ? AF_INET : AF_UNIX
    let descriptor = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    listener = descriptor
    guard descriptor >= 0 else { throw WireError.system("socket", errno) }
    let bound =
      if let unixPath { LoopbackAddress.withUnix(path: unixPath) { bind(descriptor, $0, $1) } } else {
        LoopbackAddress.withIPv4(port: wanted) { bind(descriptor, $0, $1) }
      }
    guard bound == 0, listen(descriptor, 512) == 0 else { throw WireError.system("listen", errno) }
    var address = sockaddr_in()
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
    }
    port = unixPath == nil ? UInt16(bigEndian: address.sin_port) : 0
    Thread.detachNewThread { self.accept(script) }
    scene.atEnd { self.stop() }
    scene.onFailure(show: "upstream \(self.port)") { self.summary }
  }

  private func accept(_ script: @escaping Script) {
    while true {
      let descriptor = linux_accept4(listener, nil, nil)
      if descriptor < 0 {
        if isStopped.withLock({ $0 }) { break }
        if errno == EINTR || errno == ECONNABORTED { continue }
        break
      }
      _ = fcntl(descriptor, F_SETFL, 0)
      let wire = Wire(owning: descriptor, records: records)
      let number = all.withLock { wires in
        wires.append(wire)
        return wires.count - 1
      }
      Thread.detachNewThread {
        try? script(wire, number)
        wire.close()
      }
    }
    close(listener)
  }

  private func stop() {
    isStopped.withLock { $0 = true }
    shutdown(listener, Int32(SHUT_RDWR))
    for wire in all.withLock({ $0 }) { wire.interrupt() }
  }

  /// Each connection.
  package var wires: [Wire] { all.withLock { $0 } }
  /// How many connections there were.
  package var connections: Int { all.withLock { $0.count } }
  /// Every byte of each connection, in order.
  package var received: [[UInt8]] { all.withLock { $0 }.map(\.received) }
  package var receivedText: String { received.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "\n") }
  /// How many requests of this method came, over all connections.
  package func requests(_ method: String) -> Int {
    receivedText.split(whereSeparator: \.isNewline).count { $0.hasPrefix("\(method) ") && $0.contains(" HTTP/1.") }
  }

  private var summary: String {
    "\(connections) connections\n" + receivedText.prefix(2000)
  }
}

extension Wire {
  /// Writes a response with a Content-Length.
  package func answer(
    _ body: String = "", status: String = "200 OK", fields: [String] = [], closing: Bool = false
  ) throws {
    try answer(bytes: Array(body.utf8), status: status, fields: fields, closing: closing)
  }

  package func answer(
    bytes: [UInt8], status: String = "200 OK", fields: [String] = [], closing: Bool = false
  ) throws {
    var lines = ["HTTP/1.1 \(status)", "Content-Length: \(bytes.count)"] + fields
    if closing { lines.append("Connection: close") }
    try write(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + bytes)
  }

  /// Serves requests by this until the peer closes or one says `Connection: close`.
  package func serve(_ answer: (HTTPMessage) throws -> Void) throws {
    while let request = try request() {
      try answer(request)
      if request["Connection"]?.lowercased() == "close" { return }
    }
  }
}
