import Glibc

/// A system call that failed, with its name and errno.
public struct SocketError: Error, Sendable, Hashable, CustomStringConvertible {
  public var call: String
  public var code: Int32
  public init(_ call: String, _ code: Int32) {
    self.call = call
    self.code = code
  }

  /// Whether descriptors or memory are used up, so that the caller must wait.
  public var isExhaustion: Bool { code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM }

  /// Whether the fault is with this process or machine, not with the peer: descriptors, memory or local ports are used
  /// up.
  public var isOurs: Bool {
    isExhaustion || code == EADDRNOTAVAIL || code == EACCES || code == EPERM || isOfLocalAddress
  }

  /// Whether the local address can't be used, so that no server can be reached from it.
  public var isOfLocalAddress: Bool { call == "bind" }

  /// Whether the peer has ended the connection without order.
  public var isReset: Bool { code == ECONNRESET || code == EPIPE }

  /// As nginx writes it: `connect() failed (111: Connection refused)`.
  public var description: String { "\(call)() failed (\(code): \(String(cString: strerror(code))))" }
}
