import Bytes
package import Crypto
import Glibc
package import Language
package import Negotiation
import Observability
package import TLS

/// What a process tells `sallyport health` about itself, and the text that carries it: one fact on each line, the last
/// line `end`. It has the names of files, addresses and times, 32 bits of a hash of each line of the configuration, and the
/// mark of `sallyport health`, which is of use for nothing else.
package struct HealthAnswer: Sendable, Hashable {
  /// How a client begins on a listener.
  package enum Opening: String, Sendable, Hashable, CaseIterable {
    case plain
    case tls
    /// Each handshake that names no known server is refused (`ssl_reject_handshake`).
    case refusingTLS = "refusing-tls"
    /// TLS begins when it is asked for in the words of a protocol (`starttls`).
    case postgres = "tls-postgres", smtp = "tls-smtp", imap = "tls-imap", pop3 = "tls-pop3", ldap = "tls-ldap"

    package var negotiation: NegotiatedProtocol? {
      switch self {
      case .plain, .tls, .refusingTLS: nil
      case .postgres: .postgres
      case .smtp: .smtp
      case .imap: .imap
      case .pop3: .pop3
      case .ldap: .ldap
      }
    }

    init(_ kind: NegotiatedProtocol) {
      self =
        switch kind {
        case .postgres: .postgres
        case .smtp: .smtp
        case .imap: .imap
        case .pop3: .pop3
        case .ldap: .ldap
        }
    }
  }

  package struct Listener: Sendable, Hashable {
    package var opening: Opening
    /// The listener expects a header of the PROXY protocol.
    package var expectsHeader: Bool
    /// `10.0.0.1:443`, `[::]:443`, `unix:/path`.
    package var address: String
  }

  /// A certificate that the process presents. A time is nil if it can't be read.
  package struct Validity: Sendable, Hashable {
    package var notBefore: Int64?
    package var notAfter: Int64?
    /// Where it comes from, or whose it is.
    package var file: String
  }

  /// A revocation list.
  package struct List: Sendable, Hashable {
    package var update: Int64
    /// nil: it never ends.
    package var end: Int64?
    package var issuer: String
  }

  /// A certificate that the process could not get or renew.
  package struct Trouble: Sendable, Hashable {
    /// There is a certificate that has not ended.
    package var isServing: Bool
    package var text: String
  }

  package var version = ""
  /// What the process runs: the configuration's file, or where its text came from.
  package var configuration = ""
  package var generation = 0
  package var workers = 0
  /// The numbers of the workers that did not answer, from 0.
  package var silent: [Int] = []
  /// Why the last reload was refused; nil if it was not.
  package var refusedReload: String?
  /// How the last reload of the configuration goes or went; nil: the process doesn't tell.
  package var reload: ReloadResult?
  /// USR1: how the last reopening of the logs went; nil: there was none yet.
  package var reopening: ReloadResult?
  /// USR2: how many new binaries did not start, and why the last one did not.
  package var failedReplacements = 0
  package var failedReplacement: String?
  package var listeners: [Listener] = []
  /// By which the listeners know the handshakes of whoever got this answer.
  package var mark: HealthMark?
  /// The certificates that end first.
  package var certificates: [Validity] = []
  /// How many certificates there are in all.
  package var certificateCount = 0
  /// The CAs that others are verified by, named by their subjects: those that end first.
  package var authorities: [Validity] = []
  /// The revocation lists that end first.
  package var lists: [List] = []
  /// Certificates of ACME that somebody should look at.
  package var troubles: [Trouble] = []
  /// How each `shared_store` stands.
  package var stores: [Store] = []

  /// What goes on being wrong.
  package var faults: [Fault] = []

  package struct Fault: Sendable, Hashable {
    /// That of `OngoingFaults`, perhaps of a later version.
    package var kind: String
    package var text: String
    /// It keeps clients out now.
    var isFatal = false

    /// The kind of clients that are refused at a rate that somebody should look at.
    static let refusals = "refusals"
    /// The kind of workers that have no place for another client.
    static let connections = "connections"
    /// The kind of groups whose servers are down.
    static let upstream = "upstream"
  }

  /// What the files of the configuration said that serves; empty if the process doesn't tell, as for very many lines.
  package var sources = SourceMarks()

  /// The files that are without effect, or that can't be read.
  package var files: [FileState] = []

  package struct FileState: Sendable, Hashable {
    /// It has changed, and what it says now has no effect.
    package var isStale: Bool
    package var text: String
  }

  package struct Store: Sendable, Hashable {
    package var isGood: Bool
    package var text: String
  }

  /// What an operator should look at of the SPIFFE agent; nil if nothing.
  package var workloadProblem: (isFatal: Bool, text: String)? {
    get { problem.map { ($0.isFatal, $0.text) } }
    set { problem = newValue.map { Problem(isFatal: $0.isFatal, text: $0.text) } }
  }

  private struct Problem: Sendable, Hashable {
    var isFatal: Bool
    var text: String
  }

  private var problem: Problem?
  /// When to warn of an end.
  package var notice = ExpiryNotice.standard

  package static let maximumListeners = 64
  package static let maximumCertificates = 64
  package static let maximumLists = 64
  package static let maximumFiles = 32
  package static let maximumFaults = 32
  /// The longest text, and the most that a client reads.
  package static let maximumLength = 256 << 10
  private static let maximumField = 1024
  private static let maximumSources = 256
  private static let maximumLines = 10_000
  private static let greeting = "sallyport-health 1"

  package init() {}

  // MARK: Text

  package var text: String {
    var lines = [
      Self.greeting, "version \(Self.field(version))", "configuration \(Self.field(configuration))",
      "generation \(generation)", "workers \(workers)",
    ]
    lines += silent.map { "silent \($0)" }
    if let refusedReload { lines.append("refused \(Self.field(refusedReload))") }
    for (name, result) in [("reload", reload), ("reopening", reopening)] {
      guard let result else { continue }
      let words = Self.field(result.words)
      lines.append("\(name) \(ReloadResult(number: result.number, state: result.state, words: words).line.dropLast())")
    }
    if let failedReplacement { lines.append("replacement \(failedReplacements) \(Self.field(failedReplacement))") }
    lines += listeners.prefix(Self.maximumListeners).map {
      "listener \($0.opening.rawValue) \($0.expectsHeader ? "header" : "bare") \(Self.field($0.address))"
    }
    if let mark { lines.append("mark \(Hex.encode(mark.bytes))") }
    lines.append("certificates \(certificateCount)")
    lines += certificates.prefix(Self.maximumCertificates).map {
      "certificate \(Self.time($0.notBefore)) \(Self.time($0.notAfter)) \(Self.field($0.file))"
    }
    lines += authorities.prefix(Self.maximumCertificates).map {
      "authority \(Self.time($0.notBefore)) \(Self.time($0.notAfter)) \(Self.field($0.file))"
    }
    lines += lists.prefix(Self.maximumLists).map {
      "list \($0.update) \($0.end.map { "\($0)" } ?? "never") \(Self.field($0.issuer))"
    }
    lines += troubles.prefix(Self.maximumCertificates).map {
      "renewal \($0.isServing ? "serving" : "missing") \(Self.field($0.text))"
    }
    lines += stores.prefix(Self.maximumLists).map { "store \($0.isGood ? "good" : "warning") \(Self.field($0.text))" }
    lines += files.prefix(Self.maximumFiles).map {
      "file \($0.isStale ? "stale" : "unreadable") \(Self.field($0.text))"
    }
    lines += faults.prefix(Self.maximumFaults).map {
      "\($0.isFatal ? "failure" : "fault") \(Self.field($0.kind)) \(Self.field($0.text))"
    }
    if let problem { lines.append("spiffe \(problem.isFatal ? "failed" : "warning") \(Self.field(problem.text))") }
    if case .before(let seconds) = notice { lines.append("notice \(seconds)") }
    let text = lines.joined(separator: "\n"), sources = sourceText
    return text + (text.utf8.count + sources.utf8.count < Self.maximumLength - 16 ? sources : "") + "\nend\n"
  }

  /// All files or none: a part would look like a difference.
  private var sourceText: String {
    let files = sources.files, count = files.reduce(0) { $0 + $1.lines.count }
    guard files.count <= Self.maximumSources, count <= Self.maximumLines else { return "" }
    return files.map { file in
      let marks = file.lines.flatMap { mark in (0..<4).map { UInt8(truncatingIfNeeded: mark >> ($0 * 8)) } }
      return "\nsource \(Self.field(file.path))" + (marks.isEmpty ? "" : "\nmarks \(Hex.encode(marks))")
    }.joined()
  }

  private mutating func take(marks text: String) -> Bool {
    guard let last = sources.files.indices.last, let bytes = try? Hex.decode(text), bytes.count % 4 == 0 else {
      return false
    }
    sources.files[last].lines += stride(from: 0, to: bytes.count, by: 4).map { start in
      bytes[start..<start + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
    return true
  }

  /// Returns nil for a text that is not whole, or not of this form. Ignores facts of a later version.
  package init?(text: String) {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    guard lines.first == Self.greeting[...], lines.suffix(2) == ["end", ""] else { return nil }
    for line in lines.dropFirst().dropLast(2) {
      let parts = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
      guard parts.count == 2 else { return nil }
      guard take(String(parts[0]), String(parts[1])) else { return nil }
    }
  }

  private mutating func take(_ name: String, _ value: String) -> Bool {
    switch name {
    case "version": version = value
    case "configuration": configuration = value
    case "refused": refusedReload = value
    case "reload":
      guard let result = ReloadResult(value) else { return false }
      reload = result
    case "reopening":
      guard let result = ReloadResult(value) else { return false }
      reopening = result
    case "generation": return Self.set(&generation, value)
    case "workers": return Self.set(&workers, value)
    case "certificates": return Self.set(&certificateCount, value)
    case "source": sources.files.append(.init(value, lines: []))
    case "marks": return take(marks: value)
    case "replacement":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2, Self.set(&failedReplacements, words[0]) else { return false }
      failedReplacement = words[1]
    case "silent":
      guard let worker = Int(value), worker >= 0 else { return false }
      silent.append(worker)
    case "listener":
      let words = value.split(separator: " ", maxSplits: 2).map(String.init)
      guard words.count == 3, let opening = Opening(rawValue: words[0]), ["header", "bare"].contains(words[1]) else {
        return false
      }
      listeners.append(Listener(opening: opening, expectsHeader: words[1] == "header", address: words[2]))
    case "mark":
      guard let bytes = try? Hex.decode(value), let mark = HealthMark(bytes: bytes) else { return false }
      self.mark = mark
    case "certificate":
      guard let validity = Self.validity(value) else { return false }
      certificates.append(validity)
    case "authority":
      guard let validity = Self.validity(value) else { return false }
      authorities.append(validity)
    case "list":
      let words = value.split(separator: " ", maxSplits: 2).map(String.init)
      guard words.count == 3, let update = Int64(words[0]), words[1] == "never" || Int64(words[1]) != nil else {
        return false
      }
      lists.append(List(update: update, end: Int64(words[1]), issuer: words[2]))
    case "renewal":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2 else { return false }
      troubles.append(Trouble(isServing: words[0] == "serving", text: words[1]))
    case "store":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2, ["good", "warning"].contains(words[0]) else { return false }
      stores.append(Store(isGood: words[0] == "good", text: words[1]))
    case "file":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2, ["stale", "unreadable"].contains(words[0]) else { return false }
      files.append(FileState(isStale: words[0] == "stale", text: words[1]))
    case "fault", "failure":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2 else { return false }
      faults.append(Fault(kind: words[0], text: words[1], isFatal: name == "failure"))
    case "spiffe":
      let words = value.split(separator: " ", maxSplits: 1).map(String.init)
      guard words.count == 2, ["failed", "warning"].contains(words[0]) else { return false }
      workloadProblem = (words[0] == "failed", words[1])
    case "notice":
      guard let seconds = Int64(value), seconds >= 0 else { return false }
      notice = .before(seconds: seconds)
    default: break
    }
    return true
  }

  private static func set(_ number: inout Int, _ text: String) -> Bool {
    guard let value = Int(text), value >= 0 else { return false }
    number = value
    return true
  }

  private static func validity(_ text: String) -> Validity? {
    let words = text.split(separator: " ", maxSplits: 2).map(String.init)
    guard words.count == 3, let begin = time(words[0]), let end = time(words[1]) else { return nil }
    return Validity(notBefore: begin.seconds, notAfter: end.seconds, file: words[2])
  }

  private static func time(_ seconds: Int64?) -> String { seconds.map { "\($0)" } ?? "unreadable" }

  private static func time(_ text: String) -> (seconds: Int64?, Void)? {
    if text == "unreadable" { return (nil, ()) }
    return Int64(text).map { ($0, ()) }
  }

  /// Keeps a value on its line.
  private static func field(_ text: String) -> String {
    let scalars = text.onOneLine.unicodeScalars.prefix(maximumField)
      .map { $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }
    var kept = String.UnicodeScalarView()
    kept.append(contentsOf: scalars)
    return kept.isEmpty ? "-" : String(kept)
  }
}
