import COpenSSL
import Crypto
import Glibc
import Transport

/// Records what passes in the handshake of a command: the messages, and the first bytes that the server sent.
///
/// It must live as long as the SSL that it is attached to.
final class HandshakeWitness {
  private(set) var steps: [ProbeReport.Step] = []
  /// The five bytes where a TLS server's first record has its header; empty before the server has sent so many.
  private(set) var firstBytes: [UInt8] = []
  /// The number of the server's last alert but its regular end (RFC 8446 §6).
  private var lastAlert: Int32?
  private let start = Microseconds.now

  func attach(to ssl: OpaquePointer) {
    SSL_set_msg_callback(ssl) { sent, _, type, bytes, count, _, argument in
      guard let bytes, let argument, count > 0 else { return }
      let witness = Unmanaged<HandshakeWitness>.fromOpaque(argument).takeUnretainedValue()
      switch type {
      case SSL3_RT_HEADER where sent == 0 && witness.firstBytes.isEmpty:
        witness.firstBytes = Array(UnsafeRawBufferPointer(start: bytes, count: count))
      case SSL3_RT_HANDSHAKE: witness.note(sent == 1, HandshakeNames.message(bytes.load(as: UInt8.self)))
      case SSL3_RT_ALERT where count == 2:
        let code = Int32(bytes.load(fromByteOffset: 1, as: UInt8.self))
        witness.note(sent == 1, "alert \(OpenSSLMeaning.name(ofAlert: code))")
        if sent == 0, code != SSL_AD_CLOSE_NOTIFY { witness.lastAlert = code }
      default: break
      }
    }
    copenssl_set_msg_callback_arg(ssl, Unmanaged.passUnretained(self).toOpaque())
  }

  /// More than any handshake has: a server can send tickets and updates of keys without an end.
  private static let mostSteps = 64

  private func note(_ sent: Bool, _ name: String) {
    guard steps.count < Self.mostSteps else { return }
    steps.append(
      ProbeReport.Step(direction: sent ? .sent : .received, name: name, microseconds: Microseconds.now - start))
  }

  func has(_ direction: ProbeReport.Step.Direction, _ name: String) -> Bool {
    steps.contains { $0.direction == direction && $0.name == name }
  }

  /// The last alert of the server but its regular end.
  var alert: String? {
    steps.last { $0.direction == .received && $0.name.hasPrefix("alert") && !$0.name.contains("close") }?.name
  }

  /// The last alert of the server for a person: its name, and what the server means by it.
  var alertWords: String? {
    alert.map { name in lastAlert.flatMap { OpenSSLMeaning.of(alert: $0) }.map { "\($0) (\(name))" } ?? name }
  }

  /// Says what stands behind a failed handshake; nil when nothing but OpenSSL's reason is known.
  func fault(_ failure: WaitingClient.Failure, on client: borrowing WaitingClient, presents: Bool) -> HandshakeFault? {
    HandshakeFault(
      HandshakeFault.Signs(
        failure: failure, greeting: firstBytes.isEmpty ? [] : firstBytes + client.rest(),
        heardServerHello: has(.received, HandshakeNames.message(2)),
        wasAskedForCertificate: has(.received, HandshakeNames.message(13)), presents: presents, alert: alert))
  }
}
