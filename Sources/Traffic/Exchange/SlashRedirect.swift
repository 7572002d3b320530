import Bytes
package import HTTP

/// The redirect of a path to the same path with a slash at its end.
enum SlashRedirect {
  /// The escaped path with the slash, and the query.
  static func target(of exchange: Exchange) -> [UInt8] {
    var target = ByteBuffer()
    // A client takes two slashes at the start for the name of another server.
    let path = exchange.target.uri.readable
    let start = max(0, (path.firstIndex { $0 != 0x2F } ?? path.count) - 1)
    TargetPath.escape(UnsafeRawBufferPointer(rebasing: path[start...]), into: &target)
    target.append(0x2F)
    let arguments = exchange.arguments
    if !arguments.isEmpty {
      target.append(0x3F)
      target.append(arguments)
    }
    return Array(target.readable)
  }
}

extension TypeSettings {
  /// Adds the Content-Type of the exchange's path, if it has one.
  package func add(to outgoing: OutgoingResponseHead, for exchange: Exchange) {
    let type = type(of: exchange.target.uri.readable)
    if !type.isEmpty { type.withUnsafeBytes { _ = outgoing.add("Content-Type", $0) } }
  }
}
