import Bytes
import HTTP
import Transport

/// Reads the first bytes of a plain client, where `http2 on` lets it speak HTTP/1 or HTTP/2 (RFC 9113 §3.3): a client of
/// HTTP/2 begins with a preface that is no request of HTTP/1.
final class PrefaceReader: StreamOwner {
  // Not retained: the session owns the transport, which owns this reader until it has read enough.
  private unowned(unsafe) let session: ClientSession
  private let transport: ByteStream
  private var input = ByteBuffer()

  private static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

  init(_ session: ClientSession, _ transport: ByteStream) {
    self.session = session
    self.transport = transport
  }

  override func streamIsReadable() {
    while transport.mayHaveInput {
      input.reserve(Self.preface.utf8CodeUnitCount)
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: input.writable.prefix(wanted))) {
      case .bytes(let count): input.didWrite(count)
      case .wouldBlock: return
      case .end, .failed: return session.close()
      }
      if let speech { return session.serve(speech, after: input.readable) }
    }
  }

  private var wanted: Int { max(1, Self.preface.utf8CodeUnitCount - input.count) }

  /// The protocol that the bytes show; nil if it takes more of them.
  private var speech: ClientSession.Speech? {
    let bytes = input.readable, preface = Self.preface
    for index in bytes.indices where bytes[index] != preface.utf8Start[index] { return .http1 }
    return bytes.count == preface.utf8CodeUnitCount ? .http2 : nil
  }

  override func streamAgain() { streamIsReadable() }
  override func streamDidFail(_ failure: StreamFailure) { session.close() }
  override func streamDeadlinePassed() { session.close() }
}
