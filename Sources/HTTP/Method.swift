/// The request method (RFC 9110 §9). The proxy decides about retries and framing by it.
///
/// A method outside the registered core is `.other`; its text stays in `RequestHead.methodRange`.
public enum Method: UInt8, Sendable {
  case get, head, post, put, delete, options, trace, patch, connect, other
  /// `PRI`, which RFC 9113 §11.6 reserves: no request may have it.
  case preface

  /// Whether the method requests no change of state at the origin (RFC 9110 §9.2.1).
  @inlinable public var isSafe: Bool {
    switch self {
    case .get, .head, .options, .trace: true
    case .post, .put, .delete, .patch, .connect, .other, .preface: false
    }
  }

  /// Whether sending the request twice has the same effect as sending it once (RFC 9110 §9.2.2), so a retry is allowed.
  @inlinable public var isIdempotent: Bool {
    switch self {
    case .put, .delete: true
    case .get, .head, .post, .options, .trace, .patch, .connect, .other, .preface: isSafe
    }
  }

  /// Recognises a method. Methods are case-sensitive.
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
      if spells(base, "GET") {
        self = .get
      } else if spells(base, "PUT") {
        self = .put
      } else if spells(base, "PRI") {
        self = .preface
      }
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

/// Returns whether the bytes at `base` equal `text`; compares as many bytes as `text` has.
@inline(__always) private func spells(_ base: UnsafeRawPointer, _ text: StaticString) -> Bool {
  for index in 0..<text.utf8CodeUnitCount
  where base.load(fromByteOffset: index, as: UInt8.self) != text.utf8Start[index] { return false }
  return true
}
