/// The request method (RFC 9110 §9): what the proxy decides retries and framing by.
///
/// Methods outside the registered core are `.other`; their text stays in `RequestHead.methodRange`.
public enum Method: UInt8, Sendable {
  case get, head, post, put, delete, options, trace, patch, connect, other

  /// Asks for no change of state at the origin (RFC 9110 §9.2.1).
  @inlinable public var isSafe: Bool {
    switch self {
    case .get, .head, .options, .trace: true
    case .post, .put, .delete, .patch, .connect, .other: false
    }
  }

  /// May be sent twice with the effect of once (RFC 9110 §9.2.2): what makes a retry lawful.
  @inlinable public var isIdempotent: Bool {
    switch self {
    case .put, .delete: true
    case .get, .head, .post, .options, .trace, .patch, .connect, .other: isSafe
    }
  }

  /// Letters are not folded: methods are case-sensitive.
  public init(_ bytes: UnsafeRawBufferPointer) {
    guard let base = bytes.baseAddress else {
      self = .other
      return
    }
    self.init(base, count: bytes.count)
  }

  @inline(__always) init(_ base: UnsafeRawPointer, count: Int) {
    self = .other
    switch count {
    case 3:
      if spells(base, "GET") { self = .get } else if spells(base, "PUT") { self = .put }
    case 4:
      if spells(base, "POST") { self = .post } else if spells(base, "HEAD") { self = .head }
    case 5:
      if spells(base, "PATCH") { self = .patch } else if spells(base, "TRACE") { self = .trace }
    case 6: if spells(base, "DELETE") { self = .delete }
    case 7: if spells(base, "OPTIONS") { self = .options } else if spells(base, "CONNECT") { self = .connect }
    default: break
    }
  }
}

/// Whether the bytes at `base`, as many as `text` has, are `text`.
@inline(__always) private func spells(_ base: UnsafeRawPointer, _ text: StaticString) -> Bool {
  for index in 0..<text.utf8CodeUnitCount
  where base.load(fromByteOffset: index, as: UInt8.self) != text.utf8Start[index] { return false }
  return true
}
