import Glibc

extension ScriptedUpstream {
  /// A relay to a TLS server that cuts the client's first record, its ClientHello, into records of `size` bytes, each
  /// in a TCP segment of its own; then passes on what comes.
  package static func fragmentingRelay(_ scene: Scene, to port: UInt16, size: Int) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { client, _ in
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
  }
}

extension Wire {
  /// Passes bytes both ways till one end closes.
  package func pass(to other: Wire) throws {
    let back = Background {
      while let bytes = try? other.readSome(), !bytes.isEmpty { try? self.write(bytes) }
      self.finishWriting()
    }
    while true {
      let bytes = try readSome()
      if bytes.isEmpty { break }
      try other.write(bytes)
    }
    other.interrupt()
    back.join()
  }
}
