import Bytes
import Forward
import HTTP
import Patterns
import Traffic

/// Judges the response to one health check. A value without a socket: it gets the head, the body and the trailers in turn,
/// or the bytes of a server of `stream`.
struct HealthCheckJudge {
  /// Bytes of a body that are examined; the check ends the connection after them.
  static let bodyLimit = 64 * 1024

  private let kind: HealthCheckSettings.Kind
  private let scratch: RegularExpression.Scratch
  private var body: [UInt8] = []
  private var received = 0
  /// `grpc-status` of a response that is a head alone.
  private var headStatus: [UInt8]?
  private var looks = 0
  private var lookedAt = 0

  init(_ kind: HealthCheckSettings.Kind, _ scratch: RegularExpression.Scratch) {
    self.kind = kind
    self.scratch = scratch
  }

  /// Whether the body decides, so that its bytes are kept.
  private var examinesBody: Bool {
    switch kind {
    case .http(_, let match): match.map { !$0.bodies.isEmpty } ?? false
    case .grpc, .tcp: true
    }
  }

  /// Takes the final head. Returns why the check has failed already, or nil.
  mutating func take(_ head: ResponseHead) -> String? {
    switch kind {
    case .http(_, let match):
      return match.map { $0.fault(in: head, scratch) } ?? ResponseMatch.fault(ofStatus: head.status)
    case .grpc:
      guard head.status == 200 else { return "the status is \(head.status)" }
      let bytes = head.bytes.readable
      guard let type = head.first(.contentType), Self.isOfCall(bytes[type.value]) else {
        return "the response isn't one of gRPC"
      }
      headStatus = Self.grpcStatus.withUnsafeBytes { name in head.value(named: name).map { Array(bytes[$0]) } }
      return nil
    case .tcp: return nil
    }
  }

  /// Takes bytes of a server of `stream`. Returns whether it has passed by now.
  ///
  /// A server that sends byte by byte must not have its bytes looked at as often: after 64 looks, only when they have
  /// doubled. `end` looks once more.
  mutating func takeStream(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard case .tcp(let match?) = kind else { return true }
    body.append(contentsOf: bytes.prefix(Self.bodyLimit - body.count))
    received = body.count
    guard looks < 64 || received >= 2 * lookedAt else { return false }
    looks += 1
    lookedAt = received
    return match.isMet(by: body, scratch) == true
  }

  /// Whether no more bytes of a server of `stream` are examined.
  var isFull: Bool { received >= Self.bodyLimit }

  /// Takes bytes of the body. Returns false when no more are examined.
  mutating func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let room = Self.bodyLimit - received
    received += min(room, bytes.count)
    if examinesBody { body.append(contentsOf: bytes.prefix(room)) }
    return bytes.count < room
  }

  /// Judges the response when it has ended, or when its body has reached the limit. Returns why the check has failed, or
  /// nil if it has passed.
  func end(_ trailers: Trailers?) -> String? {
    switch kind {
    case .http(_, let match): return match?.fault(inBody: body, scratch)
    case .tcp(let match):
      switch match.map({ $0.isMet(by: body, scratch) }) {
      case nil, true?: return nil
      case false?: return "what it sent doesn't contain \(match?.words ?? "")"
      case .some(nil): return "what it sent was too much work for \(match?.words ?? "")"
      }
    case .grpc(_, let orStatus):
      guard received < Self.bodyLimit else { return "the response has more than \(Self.bodyLimit / 1024) KiB" }
      guard let text = trailers.flatMap(Self.status) ?? headStatus else { return "the response has no grpc-status" }
      guard let status = Int(String(decoding: text, as: UTF8.self)) else { return "its grpc-status is no number" }
      guard status == 0 else { return status == orStatus ? nil : "its grpc-status is \(status)" }
      do throws(GRPCHealthMessage.Fault) {
        let serving = try GRPCHealthMessage.status(of: body)
        return serving == .serving ? nil : "it says \(serving.name)"
      } catch {
        return error.reason
      }
    }
  }

  private static let grpcStatus = Array("grpc-status".utf8)

  private static func status(in trailers: Trailers) -> [UInt8]? {
    trailers.bytes.withUnsafeBytes { bytes in
      trailers.fields.first { bytes[$0.name].equalsIgnoringCase("grpc-status") }.map { Array(bytes[$0.value]) }
    }
  }

  private static func isOfCall(_ type: UnsafeRawBufferPointer) -> Bool {
    guard type.count >= 16, UnsafeRawBufferPointer(rebasing: type[..<16]).equalsIgnoringCase("application/grpc") else {
      return false
    }
    return type.count == 16 || type[16] == UInt8(ascii: "+") || type[16] == UInt8(ascii: ";")
  }
}
