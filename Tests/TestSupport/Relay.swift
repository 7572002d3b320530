import Dispatch
import Glibc
import Synchronization

extension ScriptedUpstream {
  /// A relay to a TLS server that cuts the client's first record, its ClientHello, into records of `size` bytes, each
  /// in a TCP segment of its own; then passes on what comes.
  package static func fragmentingRelay(_ scene: Scene, to port: UInt16, size: Int) throws -> ScriptedUpstream {
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      let header = try client.read(exactly: 5)
      var rest = try client.read(exactly: Int(header[3]) << 8 | Int(header[4]))[...]
      while !rest.isEmpty {
        let piece = rest.prefix(size)
        rest = rest.dropFirst(size)
        let record = header[0...2] + [UInt8(piece.count >> 8), UInt8(piece.count & 0xff)] + piece
        // The record's own header, too, comes in two segments.
        try server.write(Array(record.prefix(3)))
        usleep(500)
        try server.write(Array(record.dropFirst(3)))
        usleep(500)
      }
      try server.pass(to: client)
    }
    scene.leads(relay.port, to: port)
    return relay
  }
}

extension ScriptedUpstream {
  /// A relay to a TLS server that passes on the first bytes of a client's ClientHello, raises `begun`, and passes on the rest
  /// when `go` is raised.
  package static func holdingRelay(_ scene: Scene, to port: UInt16, begun: Flag, go: Flag) throws -> ScriptedUpstream {
    scene.atEnd { go.raise() }
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      try server.write(client.read(exactly: 32))
      begun.raise()
      go.wait()
      try server.pass(to: client)
    }
    scene.leads(relay.port, to: port)
    return relay
  }
}

extension ScriptedUpstream {
  /// A relay to a server that shows what the server says.
  package static func relay(
    _ scene: Scene, to port: UInt16, _ said: @escaping @Sendable ([UInt8]) -> Void
  ) throws -> ScriptedUpstream {
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      try client.pass(to: server, said)
    }
    scene.leads(relay.port, to: port)
    return relay
  }
}

extension Wire {
  /// Passes bytes both ways till one end closes. `heard`: gets what the other end says, before it is passed on.
  package func pass(to other: Wire, _ heard: @escaping @Sendable ([UInt8]) -> Void = { _ in }) throws {
    let back = Background {
      while let bytes = try? other.readSome(), !bytes.isEmpty {
        heard(bytes)
        try? self.write(bytes)
      }
      self.finishWriting()
    }
    // The thread ends before the descriptors that it uses are given back, whatever is thrown here.
    defer {
      other.interrupt()
      back.join()
    }
    while true {
      let bytes = try readSome()
      if bytes.isEmpty { break }
      try other.write(bytes)
    }
  }
}

/// Passes a client's ClientHello and its first record of early data on, and the rest only when it is released.
package struct FirstFlightRelay: Sendable {
  private final class Parts: Sendable {
    let passed = Mutex<[UInt8]>([])
    let answered = Mutex(false)
    let gate = DispatchSemaphore(value: 0)
  }

  private let parts: Parts
  package let port: UInt16
  /// What has been passed on from the client.
  package var flight: [UInt8] { parts.passed.withLock { $0 } }
  /// The server has said something.
  package var hasAnswer: Bool { parts.answered.withLock { $0 } }
  package func release() { parts.gate.signal() }

  package init(_ scene: Scene, to port: UInt16) throws {
    let parts = Parts()
    self.parts = parts
    self.port = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      let back = Background {
        while let bytes = try? server.readSome(), !bytes.isEmpty {
          parts.answered.withLock { $0 = true }
          try? client.write(bytes)
        }
        client.finishWriting()
      }
      var kind: UInt8 = 0
      while kind != 0x17 {
        let header = try client.read(exactly: 5)
        let record = try header + client.read(exactly: Int(header[3]) << 8 | Int(header[4]))
        kind = record[0]
        parts.passed.withLock { $0 += record }
        try server.write(record)
      }
      parts.gate.wait()
      while let bytes = try? client.readSome(), !bytes.isEmpty { try server.write(bytes) }
      server.interrupt()
      back.join()
    }.port
    scene.atEnd { parts.gate.signal() }
  }
}

extension ScriptedUpstream {
  /// A relay to a TLS server that changes one byte of the client's flight in a handshake of TLS 1.2: that at `offset` in the
  /// handshake message of this type, behind the message's header; counted from the message's end if negative.
  package static func corruptingRelay(
    _ scene: Scene, to port: UInt16, message: UInt8, offset: Int,
    _ said: @escaping @Sendable ([UInt8]) -> Void
  ) throws -> ScriptedUpstream {
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: port)
      defer { server.close() }
      let back = Background {
        while let bytes = try? server.readSome(), !bytes.isEmpty {
          said(bytes)
          try? client.write(bytes)
        }
        client.finishWriting()
      }
      defer {
        server.interrupt()
        client.interrupt()
        back.join()
      }
      var isClear = true
      while isClear {
        guard let header = try? client.read(exactly: 5), header.count == 5 else { break }
        var body = try client.read(exactly: Int(header[3]) << 8 | Int(header[4]))
        // From ChangeCipherSpec on, handshake messages are encrypted.
        isClear = header[0] == 0x16
        var start = 0
        while isClear, body.count - start >= 4 {
          let size = Int(body[start + 1]) << 16 | Int(body[start + 2]) << 8 | Int(body[start + 3])
          let place = offset < 0 ? start + 4 + size + offset : start + 4 + offset
          if body[start] == message, place >= start + 4, place < start + 4 + size, place < body.count {
            body[place] ^= 0xFF
          }
          start += 4 + size
        }
        try server.write(header + body)
      }
      while let bytes = try? client.readSome(), !bytes.isEmpty { try server.write(bytes) }
    }
    scene.leads(relay.port, to: port)
    return relay
  }
}
