import Foundation
import TestSupport
import Testing

/// docs/INCIDENTS.md has each message of the error log at `warn` or above.
@Suite struct `The incident page` {
  private static let page = (try? String(contentsOfFile: "\(checkout)/docs/INCIDENTS.md", encoding: .utf8)) ?? ""

  /// Calls whose message is a value. The texts of the value are literals elsewhere (`texts`), or those of an error that
  /// names a file and the system's reason.
  private static let indirect: Set<String> = [
    // Their words are in what they log: diagnostics of the configuration, and texts of the system.
    "Sources/Daemon/OperatorLines.swift", "Sources/Traffic/Accept/WorkerListeners.swift",
    // Functions of their own with the name log.
    "Sources/Loading/Access/FileNeeds.swift", "Sources/Daemon/Health/HealthListener.swift",
    "Sources/Daemon/Supervisor.swift", "Sources/Observability/FaultLog.swift", "Sources/Traffic/Worker.swift",
    "Sources/Traffic/Client/AdmissionRefusal.swift", "Sources/Traffic/Client/ClientFaultLog.swift",
    "Sources/Traffic/Client/ClientFaults.swift", "Sources/Features/Log/ErrorLogs.swift",
    "Sources/Traffic/Client/ClientSession.swift",
    "Sources/Traffic/Client/ProxyHeaderReading.swift", "Sources/Traffic/Client/HTTP2Connection.swift",
    "Sources/Traffic/Client/ClientHandshake.swift", "Sources/Traffic/Client/TCPConnection.swift",
    "Sources/Forward/DynamicTarget.swift", "Sources/Features/Enrolment/EnrolmentContent.swift",
    "Sources/Features/Enrolment/EnrolmentHandler.swift",
    "Sources/Features/Enrolment/ESTHandler.swift",
    "Sources/Forward/UpstreamFailureLog.swift", "Sources/Forward/TCPHandler.swift",
    "Sources/Features/ProxyAuth/UpstreamAuthentication.swift",
    "Sources/Traffic/Exchange/Exchange.swift", "Sources/Traffic/Exchange/StreamSession.swift",
    "Sources/Traffic/Exchange/Transaction.swift",
    "Sources/Traffic/Exchange/ExchangeResponse.swift",
    "Sources/Features/Files/FileHandler.swift", "Sources/Features/Support/Files/FileRequest.swift",
    "Sources/Features/Files/TryFiles.swift",
    "Sources/Features/Support/Store/StoreClient.swift", "Sources/Features/Support/Store/LiveStores.swift",
    "Sources/Features/AuthBasic/PasswordAccess.swift", "Sources/UpstreamAuth/ChallengeStore.swift",
  ]

  /// Where the texts of such values are: a file, and the declaration whose literals count.
  private static let texts = [
    ("Sources/Upstream/AttemptFailure.swift", "public var description: String"),
    ("Sources/Features/ProxyAuth/UpstreamAuthentication.swift", "fileprivate var explanation: String"),
    ("Sources/Forward/DynamicTarget.swift", "fileprivate func sentence("),
    ("Sources/Forward/DynamicTarget.swift", "init(for transaction"),
    ("Sources/Forward/DynamicTarget.swift", "private static func security("),
    ("Sources/Forward/DynamicTarget.swift", "func portFault("),
    ("Sources/Features/StreamPass/StreamPass.swift", "override func start("),
    ("Sources/Traffic/Client/Admission.swift", "private init(_ context"),
    ("Sources/Traffic/Counts/CertificateNotices.swift", "func words(of"),
    ("Sources/Identity/ClientRules.swift", "public static func message("),
    ("Sources/Observability/FaultLog.swift", "public func note("),
    ("Sources/Observability/FaultLog.swift", "public func succeeded("),
    ("Sources/Observability/FaultLog.swift", "private static func words("),
  ]

  @Test func `each log call at warn or above has its fixed words on the page`() throws {
    #expect(Self.page.utf8.count > 10_000)
    var count = 0
    for file in SourceFile.sources where !["Configuration", "sallyport"].contains(file.module) {
      guard file.path != "Sources/Observability/ErrorLog.swift" else { continue }
      for call in Self.calls(in: file) {
        count += 1
        guard let words = Self.literals(in: call).flatMap({ $0 }).max(by: { $0.count < $1.count }), words.count > 5
        else {
          #expect(Self.indirect.contains(file.path), "\(file.path) logs a value: \(call.prefix(80))")
          continue
        }
        #expect(Self.page.contains(words), "docs/INCIDENTS.md lacks \"\(words)\" of \(file.path)")
      }
    }
    #expect(count > 90, "\(count) calls were found")
  }

  @Test func `the texts of values that are logged are on the page`() throws {
    for (path, declaration) in Self.texts {
      let file = try #require(SourceFile.sources.first { $0.path == path })
      let text = file.lines.joined(separator: "\n")
      guard let start = text.range(of: declaration),
        let end = text.range(of: "\n  }\n", range: start.upperBound..<text.endIndex)
      else {
        Issue.record("\(path) has no \(declaration)")
        continue
      }
      for pieces in Self.literals(in: text[start.upperBound..<end.lowerBound]) {
        guard let words = pieces.max(by: { $0.count < $1.count }), words.count > 5 else { continue }
        #expect(Self.page.contains(words), "docs/INCIDENTS.md lacks \"\(words)\" of \(path)")
      }
    }
  }

  /// Modules whose errors the log tells.
  private static let serving: Set<String> = [
    "Traffic", "Forward", "Features", "Files", "UpstreamAuth", "Upstream", "Transport", "Envelope", "Observability",
    "Loading", "Daemon",
  ]

  /// Errors that are told behind words of the page, as in `the line has the reason`.
  private static let reasons: Set<String> = [
    "Sources/Features/Keyval/KeyvalState.swift", "Sources/Features/ClientRecord/RecordedClients.swift",
    "Sources/UpstreamAuth/UserFile.swift",
    "Sources/Transport/SocketError.swift", "Sources/Envelope/Sealer.swift", "Sources/Envelope/EnvelopeFormat.swift",
    "Sources/Observability/LogDestination.swift",
    // The errors of a configuration, whose words are in what it holds.
    "Sources/Loading/Refusal.swift",
  ]

  /// A line of the log may be the description of an error alone, with no literal in the call.
  @Test func `the descriptions of errors that are thrown are on the page`() throws {
    var count = 0
    for file in SourceFile.sources
    where Self.serving.contains(file.module) && !Self.reasons.contains(file.path) && file.mentions("description") {
      let text = Self.code(of: file)
      guard text.firstMatch(of: #/(?:struct|enum) \w+: [^{\n]*\bError\b/#) != nil else { continue }
      for match in text.matches(of: #/var description: String \{|func description\(of[^{]*\{/#) {
        let body = Self.block(text[match.range.upperBound...])
        for pieces in Self.literals(in: body) {
          guard let words = pieces.max(by: { $0.count < $1.count }), words.count > 5 else { continue }
          count += 1
          #expect(Self.page.contains(words), "docs/INCIDENTS.md lacks \"\(words)\" of \(file.path)")
        }
      }
    }
    #expect(count > 10, "\(count) descriptions were found")
  }

  /// Files whose warnings have no literal of their own.
  private static let composed: Set<String> = [
    "Sources/Loading/KeyMaterial.swift", "Sources/Traffic/Material/MaterialLoader.swift",
    "Sources/Daemon/NameWait.swift",
    "Sources/Loading/WorkloadLoading.swift", "Sources/Features/ACME/ACMELoading.swift",
  ]

  /// The supervisor logs what a start and a reload have found.
  @Test func `the warnings of a start and of a reload are on the page`() throws {
    var count = 0
    for file in SourceFile.sources where ["Loading", "Daemon"].contains(file.module) {
      let text = Self.code(of: file)
      for match in text.matches(of: #/\b(Diagnostic|warn)\(/#.wordBoundaryKind(.simple)) {
        let call = Self.arguments(text[match.range.upperBound...])
        guard match.output.1 == "warn" || call.prefix(40).contains(".warning"),
          !text[..<match.range.lowerBound].hasSuffix("func ")
        else { continue }
        count += 1
        let message = call.firstRange(of: "hint:").map { call[..<$0.lowerBound] } ?? call
        let words = Self.literals(in: message).flatMap { $0 }.max { $0.count < $1.count } ?? ""
        guard words.count > 5 else {
          #expect(Self.composed.contains(file.path), "\(file.path) warns of a value: \(call.prefix(80))")
          continue
        }
        #expect(Self.page.contains(words), "docs/INCIDENTS.md lacks \"\(words)\" of \(file.path)")
      }
    }
    #expect(count > 30, "\(count) warnings were found")
  }

  @Test(arguments: [
    "a request body can't be written", "is not valid before", "CA ends in", "killed by the OOM killer",
    "'stop-sigterm' timed out", "sallyport-ca.service: Failed",
  ])
  func `what operators have searched for is on the page`(words: String) {
    #expect(Self.page.contains(words))
  }

  @Test func `the causes of failed handshakes are on the page`() throws {
    let file = try #require(SourceFile.sources.first { $0.path == "Sources/TLS/HandshakeCause.swift" })
    let names = file.lines.filter { $0.hasPrefix("  case ") && !$0.contains(":") }.map { line in
      let words = line.dropFirst("  case ".count).split(separator: " ")
      return (words.count > 2 ? words[2] : words[0]).filter { $0 != "\"" && $0 != "`" }
    }
    #expect(names.count > 10)
    for name in names { #expect(Self.page.contains("`\(name)`"), "\(name)") }
  }

  // MARK: Reading Swift

  /// Without the lines of comments.
  private static func code(of file: SourceFile) -> String {
    file.lines.filter { !$0.drop { $0 == " " }.hasPrefix("//") }.joined(separator: "\n")
  }

  /// The arguments of calls that log at `warn` or above, or at a level that is no literal.
  private static func calls(in file: SourceFile) -> [Substring] {
    let words = ["log(", "og.", "og?.", "tellOfRepeated(", "logRefusal(", "tellOfProxyHeader("]
    guard words.contains(where: file.mentions) else { return [] }
    let text = code(of: file)
    let pattern =
      #/(?:\blog\((?!\s*\.(?:debug|info|notice),)(?!_ )|[lL]og\??\.(?:warn|error|crit|alert|emerg)\(|\b(?:tellOfRepeated|logRefusal|tellOfProxyHeader)\((?!_ ))/#
      .wordBoundaryKind(.simple)
    return text.matches(of: pattern).compactMap { match in
      guard !text[..<match.range.lowerBound].hasSuffix("func ") else { return nil }
      return arguments(text[match.range.upperBound...])
    }
  }

  /// The text up to the parenthesis that ends the call.
  private static func arguments(_ text: Substring) -> Substring {
    var depth = 1
    var index = text.startIndex
    while index < text.endIndex, depth > 0 {
      if text[index] == "(" { depth += 1 } else if text[index] == ")" { depth -= 1 }
      index = text.index(after: index)
    }
    return text[..<index]
  }

  /// The text up to the brace that ends the block.
  private static func block(_ text: Substring) -> Substring {
    var depth = 1
    var index = text.startIndex
    while index < text.endIndex, depth > 0 {
      if text[index] == "{" { depth += 1 } else if text[index] == "}" { depth -= 1 }
      index = text.index(after: index)
    }
    return text[..<index]
  }

  /// The string literals, each as its pieces between interpolations, without blanks and punctuation at their ends.
  private static func literals(in text: Substring) -> [[String]] {
    var all: [[String]] = []
    var characters = Array(text)[...]
    while let start = characters.firstIndex(of: "\"") {
      characters = characters[(start + 1)...]
      all.append(pieces(&characters))
    }
    return all
  }

  private static func pieces(_ characters: inout ArraySlice<Character>) -> [String] {
    var pieces = [""]
    while let character = characters.popFirst(), character != "\"" {
      guard character == "\\", let escaped = characters.popFirst() else {
        pieces[pieces.count - 1].append(character)
        continue
      }
      guard escaped == "(" else {
        pieces[pieces.count - 1].append(escaped)
        continue
      }
      var depth = 1
      while depth > 0, let inner = characters.popFirst() {
        if inner == "(" { depth += 1 } else if inner == ")" { depth -= 1 }
      }
      pieces.append("")
    }
    return pieces.map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " \",;:()…")) }
  }
}
