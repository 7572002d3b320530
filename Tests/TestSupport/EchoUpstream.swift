import Glibc

extension ScriptedUpstream {
  /// An upstream that answers everything, truly:
  /// `/bytes/N` N bytes of the pattern · `/chunked/N` the same, chunked, with a trailer · `/status/N` that status ·
  /// `/head` the request's head as it came · anything else echoes the body.
  package static func echo(_ scene: Scene, records: Bool = true, unixPath: String? = nil) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene, records: records, unixPath: unixPath) { wire, _ in
      try wire.serve { request in try wire.echo(request) }
    }
  }
}

extension Wire {
  package func echo(_ request: HTTPMessage) throws {
    let path = request.target.split(separator: "?").first.map(String.init) ?? ""
    let parts = path.split(separator: "/")
    let number = parts.last.flatMap { Int($0) } ?? 0
    let fields = ["X-Method: \(request.method)", "X-Target: \(request.target)"]
    switch parts.first {
    case "bytes":
      if request.method == "HEAD" {
        try write("HTTP/1.1 200 OK\r\nContent-Length: \(number)\r\n\r\n")
      } else {
        try answer(bytes: Pattern.bytes(number), fields: fields)
      }
    case "chunked":
      try write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
      var rest = Pattern.bytes(number)[...]
      var size = 1
      while !rest.isEmpty {
        let piece = rest.prefix(size)
        try write(Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + [13, 10])
        rest = rest.dropFirst(piece.count)
        size = min(size * 3, 50_000)
      }
      try write("0\r\nX-Sum: \(number)\r\n\r\n")
    case "status": try answer(status: "\(number) Some", fields: fields)
    case "head": try answer(request.head + "\n", fields: ["Content-Type: text/plain"])
    default:
      let trailers = request.trailers.map { "X-Trailer-\($0.name): \($0.value)" }
      if request.method == "HEAD" { return try answer(fields: fields) }
      try answer(bytes: request.body, fields: fields + trailers)
    }
  }
}

/// Bytes that are never the same at two places near each other, so that a lost, doubled or moved block shows.
package enum Pattern {
  private static let block: [UInt8] = {
    var state: UInt64 = 0x9e37_79b9_7f4a_7c15
    // Quick in a debug build too: the first test that asks has a deadline somewhere.
    return [UInt8](unsafeUninitializedCapacity: 1_048_573) { room, count in
      while count < 1_048_573 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        room[count] = UInt8(truncatingIfNeeded: state >> 33)
        count += 1
      }
    }
  }()

  package static func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count { bytes += block.prefix(count - bytes.count) }
    return bytes
  }

  /// Equal, at the speed of memory also in a debug build.
  package static func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    left.count == right.count && memcmp(left, right, left.count) == 0
  }
}
