import Glibc

/// What the process that serves asks of the opener. A text is compared with what the configuration names, and is nothing more.
package struct OpenerRequest: Hashable, Sendable {
  package enum Verb: UInt8, Sendable {
    /// Reads the configuration again, and what it names.
    case configuration = 1
    /// Opens a file or folder of key material, or a file of the configuration.
    case read
    /// Opens a log.
    case append
    /// Lists the files that a pattern of `include` stood for when the configuration was read.
    case expand
    /// Binds an address of `listen`, for one socket, or for one of several that share the port.
    case listen, listenShared
  }

  package let verb: Verb
  package let text: String

  package static let longestText = 4096
  private static let header = 5
  package static let room = header + longestText

  package init(_ verb: Verb, _ text: String = "") {
    self.verb = verb
    self.text = text
  }

  package func bytes(number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.bigEndian) { Array($0) } + [verb.rawValue] + Array(text.utf8)
  }

  /// Returns nil for anything else than a request: whoever sends it may have taken over the process.
  package static func read(_ bytes: ArraySlice<UInt8>) -> (number: UInt32, request: OpenerRequest)? {
    let bytes = Array(bytes)
    guard (header...room).contains(bytes.count), let verb = Verb(rawValue: bytes[4]), !bytes[header...].contains(0),
      let text = String(validating: bytes[header...], as: UTF8.self)
    else { return nil }
    return (bytes[0..<4].reduce(0) { $0 << 8 | UInt32($1) }, OpenerRequest(verb, text))
  }
}

/// Why the opener opened nothing.
package struct OpenerRefusal: Error, Hashable, Sendable {
  /// errno
  package let code: Int32
  /// nil where the system said `code`.
  package let reason: String?

  package init(_ code: Int32, _ reason: String? = nil) {
    self.code = code
    self.reason = reason
  }

  /// For a message.
  package var words: String { reason ?? String(cString: strerror(code)) }
}

/// What the opener answers; a descriptor comes with it where something was opened.
package struct OpenerAnswer: Hashable, Sendable {
  package let refusal: OpenerRefusal?

  package init(refusal: OpenerRefusal?) { self.refusal = refusal }

  private static let longestText = 1024
  package static let room = 8 + longestText

  package func bytes(number: UInt32) -> [UInt8] {
    withUnsafeBytes(of: number.bigEndian) { Array($0) }
      + withUnsafeBytes(of: (refusal?.code ?? 0).bigEndian) { Array($0) }
      + Array((refusal?.reason ?? "").utf8.prefix(Self.longestText))
  }

  package static func read(_ bytes: ArraySlice<UInt8>) -> (number: UInt32, answer: OpenerAnswer)? {
    let bytes = Array(bytes)
    guard bytes.count >= 8 else { return nil }
    let number = bytes[0..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    let code = Int32(bitPattern: bytes[4..<8].reduce(UInt32(0)) { $0 << 8 | UInt32($1) })
    let reason = bytes.count > 8 ? String(decoding: bytes[8...], as: UTF8.self) : nil
    return (number, OpenerAnswer(refusal: code == 0 ? nil : OpenerRefusal(code, reason)))
  }
}
