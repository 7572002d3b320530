import Bytes
import Transport

extension Exchange {
  /// The client's handshake is not over: the request may be a replay (RFC 8470 §3).
  var isEarly: Bool { withStream { $0.isEarly } ?? false }
  var bodyTimeout: Int { location.limits.bodyTimeout }
}

/// Whom the request comes from: the connection's peer, or who `set_real_ip_from` says it is.
extension Exchange {
  var clientAddress: SocketAddress { variables.client ?? facts.peer }

  /// $remote_addr, $remote_port and $binary_remote_addr.
  @inline(__always)
  func appendClient(_ variable: SimpleVariable, place: Int, to output: inout ByteBuffer) {
    if let client = variables.client {
      Self.append(variable, of: client, to: &output)
    } else {
      borrowing(facts) { $0.append(variable, place: place, to: &output) }
    }
  }

  /// The same, where no template has looked the place up.
  func appendClient(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    if let place = ConnectionFacts.place(of: variable) { appendClient(variable, place: place, to: &output) }
  }

  @inline(never)
  private static func append(_ variable: SimpleVariable, of client: SocketAddress, to output: inout ByteBuffer) {
    switch variable {
    case .binary_remote_addr: output.append(client.binary)
    case .remote_port: if let port = client.port, port > 0 { output.append(decimal: UInt64(port)) }
    default: output.append(string: client.host)
    }
  }
}

extension SocketAddress {
  /// 4 or 16 bytes in network order; `unix:` for a unix socket.
  var binary: [UInt8] {
    switch self {
    case .ipv4(let address, _): withUnsafeBytes(of: address.bigEndian) { Array($0) }
    case .ipv6(let high, let low, _):
      withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
    case .unix: Array("unix:".utf8)
    }
  }
}
