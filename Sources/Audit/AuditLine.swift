import Bytes
import Crypto
import JSON

/// One line of an audit log, as it was read. What isn't known of it, such as an event of a later version, is left alone: the
/// hash is over the bytes.
package struct AuditLine: Sendable, Equatable {
  package let number: Int64
  package let time: String
  package let process: String
  /// nil: an event that this version doesn't know.
  package let kind: AuditEvent.Kind?
  package let prev: [UInt8]
  /// Of the line itself.
  package let hash: [UInt8]
  /// Of a signature.
  let key: String?
  let signature: [UInt8]?
  /// Of `lost`.
  let count: Int64

  /// The longest line that is read.
  package static let longest = 32 * 1024

  /// Reads a line without its line feed.
  package init(_ bytes: [UInt8]) throws(AuditFault) {
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (Self.longest, 4, 200)
    let json: JSONValue
    do throws(JSONFault) { json = try JSONValue(bytes, limits: limits) } catch {
      throw AuditFault(reason: "it is no JSON: \(error)")
    }
    guard json.members != nil else { throw AuditFault(reason: "it is no object") }
    guard let number = json["n"]?.integer, number >= 1, number < .max else {
      throw AuditFault(reason: "\"n\" is no number of a line")
    }
    guard let time = json["time"]?.text, let process = json["process"]?.text, let event = json["event"]?.text else {
      throw AuditFault(reason: "\"time\", \"process\" or \"event\" is missing")
    }
    guard let prev = json["prev"]?.text.flatMap({ try? Hex.decode($0) }), prev.count == 32 else {
      throw AuditFault(reason: "\"prev\" is no SHA-256")
    }
    self.number = number
    self.time = String(time.prefix(64))
    self.process = String(process.prefix(64))
    self.prev = prev
    kind = AuditEvent.Kind(rawValue: event)
    key = json["key"]?.text
    signature = json["signature"]?.text.flatMap { try? Hex.decode($0) }
    count = json["count"]?.integer ?? 0
    hash = Digest.of(bytes)
  }
}

/// Why a line is none of an audit log.
package struct AuditFault: Error, Sendable, Equatable, CustomStringConvertible {
  package let reason: String
  package var description: String { reason }
  package init(reason: String) { self.reason = reason }
}

/// The end of a file that somebody has written before: where a chain goes on.
package struct AuditTail: Sendable, Equatable {
  /// nil: the file has no whole line.
  package let last: AuditLine?
  /// The octets behind the last line feed: a line that its process didn't end.
  package let torn: Int
  /// The file was moved away, and another one goes on.
  let isEnded: Bool

  /// How many octets of a file's end are enough.
  package static let enough = AuditLine.longest * 2 + 2

  /// `end`: the last octets of a file. `isWhole`: they are the whole file.
  package init(_ end: [UInt8], isWhole: Bool) throws(AuditFault) {
    guard let feed = end.lastIndex(of: 0x0A) else {
      guard isWhole else { throw AuditFault(reason: "its end has no line of an audit log") }
      (last, torn, isEnded) = (nil, end.count, false)
      return
    }
    torn = end.count - feed - 1
    let start = end[..<feed].lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
    guard start > 0 || isWhole else { throw AuditFault(reason: "its last line is too long for an audit log") }
    let line: AuditLine
    do throws(AuditFault) { line = try AuditLine(Array(end[start..<feed])) } catch {
      throw AuditFault(reason: "its last line is none of an audit log: \(error.reason)")
    }
    var fileEnd = FileEnd()
    if let former = end[..<start].dropLast().split(separator: 0x0A).last.flatMap({ try? AuditLine(Array($0)) }) {
      fileEnd.take(former)
    }
    fileEnd.take(line)
    (last, isEnded) = (line, fileEnd.isEnded)
  }
}
