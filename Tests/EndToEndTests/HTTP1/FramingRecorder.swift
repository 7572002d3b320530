import Synchronization
import TestSupport

/// An upstream that reads by the letter of RFC 9112, and keeps each request by the number of its case.
final class FramingRecorder: Sendable {
  /// `mark` is c for the case itself, s for a smuggled request, k for the request after the case.
  struct Request: Sendable { let mark: Character, body: [UInt8] }

  private final class Notes: Sendable {
    let requests = Mutex<[Int: [Request]]>([:])
    let faults = Mutex<[String]>([])
  }
  private let notes = Notes()
  private let upstream: ScriptedUpstream
  var port: UInt16 { upstream.port }

  init(_ scene: Scene) throws {
    let notes = notes
    upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      while let head = try wire.read(through: "\r\n\r\n") {
        var message = HTTPMessage(head: head)
        let isWhole = (try? wire.readBody(of: &message)) != nil
        Self.note(head, message, in: notes)
        guard isWhole else { return }
        try wire.answer("ok")
      }
    }
  }

  private static func note(_ head: [UInt8], _ message: HTTPMessage, in notes: Notes) {
    let text = String(decoding: head, as: UTF8.self)
    if let fault = fault(of: head, message) {
      notes.faults.withLock { $0.append("\(fault): \(text.debugDescription)") }
    }
    guard let match = text.firstMatch(of: /\/([csk])(\d+)\./), let number = Int(match.output.2) else { return }
    let request = Request(mark: match.output.1.first ?? "?", body: message.body)
    notes.requests.withLock { $0[number, default: []].append(request) }
  }

  /// What no reader may meet in a head.
  private static func fault(of head: [UInt8], _ message: HTTPMessage) -> String? {
    for (index, byte) in head.enumerated() {
      let previous = index > 0 ? head[index - 1] : 0
      if byte == 10, previous != 13 { return "bare LF" }
      if previous == 13, byte != 10 { return "bare CR" }
      if byte == 0 { return "NUL" }
      if previous == 10, byte == 32 || byte == 9 { return "folded line" }
    }
    let names = message.fields.map { $0.name.lowercased() }
    if names.contains(where: { $0 != "transfer-encoding" && $0.filter(\.isLetter) == "transferencoding" }) {
      return "a name that some servers take for Transfer-Encoding"
    }
    if message["Transfer-Encoding"] != nil, message["Content-Length"] != nil { return "two framings" }
    if message.all("Content-Length").count > 1 || message.all("Host").count != 1 {
      return "a repeated field, or no Host"
    }
    return nil
  }

  func requests(of number: Int) -> [Request] { notes.requests.withLock { $0[number] ?? [] } }
  var faults: [String] { notes.faults.withLock { $0 } }
}
