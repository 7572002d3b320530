import CLinux
import Glibc

/// Where a stream socket listens or connects: a value, free of C unions.
public enum SocketAddress: Sendable, Hashable {
  /// `address` in host byte order.
  case ipv4(address: UInt32, port: UInt16)
  /// `high` and `low` in host byte order.
  case ipv6(high: UInt64, low: UInt64, port: UInt16)
  /// At most 107 bytes (sun_path).
  case unix(path: String)
  /// A host of which a proxy knows the address. Nothing connects to it without one.
  case name(String, port: UInt16)

  public static let longestUnixPath = 107

  /// An IP literal, without brackets, and a port; nil when the text is no literal.
  public init?(literal: String, port: UInt16) {
    var four = in_addr()
    var six = in6_addr()
    if inet_pton(AF_INET, literal, &four) == 1 {
      self = .ipv4(address: UInt32(bigEndian: four.s_addr), port: port)
    } else if inet_pton(AF_INET6, literal, &six) == 1 {
      let (high, low) = withUnsafeBytes(of: &six) {
        ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
      }
      self = .ipv6(high: UInt64(bigEndian: high), low: UInt64(bigEndian: low), port: port)
    } else {
      return nil
    }
  }

  /// From what accept, getsockname or getaddrinfo gave; nil for another family.
  init?(_ storage: borrowing sockaddr_storage, length: socklen_t) {
    var copy = copy storage
    let family = Int32(copy.ss_family)
    let value: SocketAddress? = withUnsafeBytes(of: &copy) { raw in
      switch family {
      case AF_INET:
        let address = raw.loadUnaligned(as: sockaddr_in.self)
        return .ipv4(address: UInt32(bigEndian: address.sin_addr.s_addr), port: UInt16(bigEndian: address.sin_port))
      case AF_INET6:
        let port = raw.loadUnaligned(fromByteOffset: 2, as: UInt16.self)
        return .ipv6(
          high: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
          low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 16, as: UInt64.self)),
          port: UInt16(bigEndian: port))
      case AF_UNIX:
        let path = raw[2..<max(2, min(Int(length), raw.count))].prefix { $0 != 0 }
        return .unix(path: String(decoding: path, as: UTF8.self))
      default:
        return nil
      }
    }
    guard let value else { return nil }
    self = value
  }

  /// From getaddrinfo, with a port; nil for another family.
  init?(_ address: UnsafePointer<sockaddr>, port: UInt16) {
    switch Int32(address.pointee.sa_family) {
    case AF_INET:
      let four = UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
      self = .ipv4(address: UInt32(bigEndian: four.sin_addr.s_addr), port: port)
    case AF_INET6:
      let raw = UnsafeRawPointer(address)
      self = .ipv6(
        high: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
        low: UInt64(bigEndian: raw.loadUnaligned(fromByteOffset: 16, as: UInt64.self)), port: port)
    default: return nil
    }
  }

  /// The same address with another port; a unix socket, which has none, stays as it is.
  public func withPort(_ port: UInt16) -> SocketAddress {
    switch self {
    case .ipv4(let address, _): .ipv4(address: address, port: port)
    case .ipv6(let high, let low, _): .ipv6(high: high, low: low, port: port)
    case .name(let name, _): .name(name, port: port)
    case .unix: self
    }
  }

  public var family: Int32 {
    switch self {
    case .ipv4: AF_INET
    case .ipv6: AF_INET6
    case .unix: AF_UNIX
    case .name: AF_UNSPEC
    }
  }

  public var port: UInt16? {
    switch self {
    case .ipv4(_, let port), .ipv6(_, _, let port), .name(_, let port): port
    case .unix: nil
    }
  }

  /// The address alone: `127.0.0.1`, `::1`, `unix:` as nginx's $remote_addr has them.
  public var host: String {
    switch self {
    case .ipv4(let address, _):
      return "\(address >> 24).\((address >> 16) & 255).\((address >> 8) & 255).\(address & 255)"
    case .ipv6(let high, let low, _):
      var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
      var words = (high.bigEndian, low.bigEndian)
      _ = withUnsafeBytes(of: &words) { inet_ntop(AF_INET6, $0.baseAddress, &text, socklen_t(INET6_ADDRSTRLEN)) }
      return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    case .unix:
      return "unix:"
    case .name(let name, _): return name
    }
  }

  /// Runs a block with the C form.
  func withSockaddr<T>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> T) -> T {
    var storage = sockaddr_storage()
    let length: Int
    switch self {
    case .ipv4(let address, let port):
      var four = sockaddr_in()
      four.sin_family = sa_family_t(AF_INET)
      four.sin_port = port.bigEndian
      four.sin_addr.s_addr = address.bigEndian
      withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: four, as: sockaddr_in.self) }
      length = MemoryLayout<sockaddr_in>.size
    case .ipv6(let high, let low, let port):
      withUnsafeMutableBytes(of: &storage) {
        $0.storeBytes(of: sa_family_t(AF_INET6), as: sa_family_t.self)
        $0.storeBytes(of: port.bigEndian, toByteOffset: 2, as: UInt16.self)
        $0.storeBytes(of: high.bigEndian, toByteOffset: 8, as: UInt64.self)
        $0.storeBytes(of: low.bigEndian, toByteOffset: 16, as: UInt64.self)
      }
      length = MemoryLayout<sockaddr_in6>.size
    case .unix(let path):
      let bytes = Array(path.utf8.prefix(Self.longestUnixPath))
      withUnsafeMutableBytes(of: &storage) {
        $0.storeBytes(of: sa_family_t(AF_UNIX), as: sa_family_t.self)
        for (index, byte) in bytes.enumerated() { $0[2 + index] = byte }
      }
      length = 2 + bytes.count + 1
    // A socket of this family can't be made.
    case .name: length = MemoryLayout<sa_family_t>.size
    }
    return withUnsafePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(length)) }
    }
  }
}

extension SocketAddress: CustomStringConvertible {
  public var description: String {
    switch self {
    case .ipv4(_, let port): "\(host):\(port)"
    case .ipv6(_, _, let port): "[\(host)]:\(port)"
    case .unix(let path): "unix:\(path)"
    case .name(let name, let port): "\(name):\(port)"
    }
  }
}
