import Foundation
import TestSupport
import Testing
@testable import Language

/// The rules of how this is written that a test can hold.
@Suite struct `Rules of the house` {
  @Test func `the files are found`() {
    #expect(SourceFile.sources.count > 100 && SourceFile.tests.count > 50)
  }

  /// What stops the process, and why it may at these places. Nothing of a peer or a file leads there.
  private static let allowedToStop = [
    "Sources/Bytes/ByteBuffer.swift": "bounds of raw memory: a wrong count would read or write beyond it",
    "Sources/HTTP/TrivialList.swift": "bounds of raw memory",
    "Sources/HTTP/HTTP1/ChunkedWriter.swift": "a chunk of no bytes would end the body",
    "Sources/Traffic/Exchange/Transaction.swift": "an exchange without its connection has nothing to go on with",
  ]

  @Test(arguments: ["try!", "as!", "fatalError(", "precondition(", "preconditionFailure(", "uniqueKeysWithValues"])
  func `nothing stops the process but what has a reason to`(word: String) {
    let found = SourceFile.places(of: [word]) { Self.allowedToStop[$0.path] != nil }
    #expect(found.isEmpty, "\(word) in \(found)")
  }

  /// libdispatch watches the threads of its global queues by files of /proc that the sandbox leaves out. If it can't open
  /// one, it ends the process. A queue of one's own has a thread that isn't watched.
  @Test(arguments: [".global(", "concurrentPerform", "Task {", "Task.detached"])
  func `no thread belongs to a global queue, which would end a process in the sandbox`(word: String) {
    let found = SourceFile.places(of: [word])
    #expect(found.isEmpty, "\(word) in \(found)")
  }

  /// Foundation's way reads past its list of open descriptors when there are some 1,300, which ends the process of all tests.
  @Test func `no test starts a program by Foundation`() {
    #expect(SourceFile.places(of: [" Process()"], in: SourceFile.tests).isEmpty)
  }

  /// Without a name, the parser makes one of the type's: by four searches of all conformances, at each start that it reads.
  @Test func `each command says its name`() {
    for file in SourceFile.sources where file.module == "sallyport" {
      for number in file.code(with: ["CommandConfiguration("]).map(\.number) {
        let words = file.lines[(number - 1)...].prefix(2).joined().split(separator: "CommandConfiguration(").last ?? ""
        let isFirst = words.drop { $0 == " " }.hasPrefix("commandName:")
        #expect(isFirst || !file.lines[number - 1].contains("static let configuration"), "\(file.path):\(number)")
      }
    }
  }

  @Test func `no source makes a verified chain that nobody verified`() {
    #expect(SourceFile.places(of: ["(unjudged:"]).isEmpty)
  }

  @Test func `every exception is still needed`() {
    for path in Self.allowedToStop.keys {
      let file = SourceFile.sources.first { $0.path == path }
      #expect(file?.code(with: ["precondition"]).isEmpty == false, "\(path)")
    }
  }

  @Test(arguments: [
    ("Dispatch", ["Observability", "Transport", "Daemon"]), ("COpenSSL", ["Crypto", "TLS"]), ("CPCRE2", ["Patterns"]),
    ("CSystemd", ["Systemd"]), ("CPostgreSQL", ["PostgreSQL"]), ("CCrypt", ["Enrolment"]), ("CZlib", ["Compression"]),
    ("CSeccomp", ["Sandbox"]),
    ("Foundation", []), ("FoundationEssentials", []),
  ])
  func `a library is imported only where it belongs`(library: String, modules: [String]) {
    for file in SourceFile.sources where !modules.contains(file.module) {
      #expect(!file.imports.contains(library[...]), "\(file.path)")
    }
  }

  @Test(arguments: ["@unchecked Sendable", "nonisolated(unsafe)", "unowned(unsafe)"])
  func `what the compiler is not to check has its reason beside it`(word: String) {
    for file in SourceFile.sources {
      for line in file.code(with: [word]) {
        #expect(file.isExplained(line: line.number), "\(word) in \(file.path):\(line.number)")
      }
    }
  }

  /// Files are read when a configuration is (`SourceFiles`), when a generation is prepared (Loading) and in the pool.
  @Test(arguments: ["Configuration", "Traffic", "Forward", "Features", "HTTP", "Negotiation", "Upstream"])
  func `an event loop opens no file, and settings are made without one`(module: String) {
    let allowed = [
      "Sources/Language/SourceFiles.swift", "Sources/Traffic/Body/BodyFile.swift",
      // What `Feature.load` calls, and what an order of a certificate calls on a thread of the pool.
      "Sources/Features/AuthBasic/GuessLimits.swift", "Sources/Features/Files/RealFolders.swift",
      "Sources/Features/Files/ScriptSources.swift",
      "Sources/Features/ACME/IssuerMaterial.swift",
      // On a thread of the pool.
      "Sources/Features/ClientRecord/RecordWriter.swift",
    ]
    for file in SourceFile.sources where file.module == module && !allowed.contains(file.path) {
      if file.path.hasPrefix("Sources/Traffic/Material/") || file.path.hasSuffix("Loading.swift") { continue }
      let calls = ["realpath(", "realPath(", "Glibc.open(", "= stat()", "opendir(", "access(", ".read(expecting"]
      for line in file.code(with: calls) {
        #expect(line.text.contains("func "), "\(file.path):\(line.number): \(line.text)")
      }
    }
  }

  /// What may be shared by the whole process, and why.
  private static let allowedToBeGlobal: [String: String] = [
    "Sources/Systemd/Notification.swift": "whether this process is the service's main process is a fact of the process",
    "Sources/Crypto/PrivilegedFiles.swift": "who opens what only root may open is a fact of the process",
    "Sources/TLS/ContextBasics.swift": "what OpenSSL reads in a cipher string is the same for all",
  ]

  /// State belongs to the daemon (`SharedState`) or to a generation, so that tests and generations do not share it unseen.
  /// A clock that steps back or forward must not lengthen or end a span. These files say or compare dates: of certificates,
  /// lists, responses, tokens, messages, logs and the start.
  private static let datingFiles: Set<String> = [
    "ACME/IssuanceRun.swift", "Features/OpenTelemetry/SpanRecord.swift", "Daemon/CertificateRenewer.swift",
    "Crypto/CertificateBuilder.swift", "Crypto/RevocationChoice.swift", "Crypto/RevocationListSigning.swift",
    "Crypto/NewFile.swift", "Features/API/APIView.swift", "Features/Autoindex/ListingPage.swift",
    "Daemon/Health/HealthQuestion.swift",
    "Daemon/Health/SupervisorHealth.swift", "Traffic/Material/MaterialLoader.swift",
    "Loading/PossibleClients.swift",
    "Loading/RevocationLoading.swift",
    "Loading/RevocationNotice.swift", "Daemon/Workload/WorkloadClient.swift", "Daemon/Workload/WorkloadFollower.swift",
    "TLS/Rehearsal.swift", "TLS/UpstreamTLSContext.swift", "Loading/StapleLoading.swift", "Daemon/StapleRefresh.swift",
    "Loading/FetchedRevocations.swift", "Daemon/Revocation/RevocationRefresh.swift",
    "Enrolment/ESTService.swift",
    "Enrolment/AuthorityCreation.swift", "Enrolment/AuthorityStore.swift",
    "Enrolment/CertificateRecord.swift", "Enrolment/CertificateRenewal.swift", "Enrolment/EnrolmentService.swift",
    "Enrolment/Inspection/Inspection.swift", "Enrolment/RequestedCertificate.swift", "Enrolment/TrustedRoot.swift",
    "Observability/ClockText.swift", "Observability/LogSink.swift", "Observability/RecentErrors.swift",
    "Observability/SyslogSocket.swift",
    "Traffic/Client/ConnectionFacts.swift", "Traffic/Client/SessionReview.swift",
    "Features/ProxyAuth/UpstreamAuthentication.swift", "Features/RealClientCert/CertificateSearch.swift",
    "Traffic/Counts/MetricsSnapshot.swift", "Traffic/Counts/ProcessRecord.swift",
    "Enrolment/ServiceIdentities.swift", "Crypto/OCSPAnswering.swift",
    "Traffic/Client/ClientDenials.swift", "Traffic/Client/ProcessDenials.swift", "SPIFFE/WorkloadMaterial.swift",
    "Features/Keyval/KeyvalState.swift", "TLS/ChainVerification.swift",
    "TLS/ClientStatusCheck.swift", "TLS/OCSPClient.swift", "TLS/Probe.swift",
    "Features/ClientRecord/ClientRecords.swift",
    "Features/ClientRecord/RecordBuffer.swift",
    "TLS/KeyProof.swift", "Enrolment/Register/AuthorityReading.swift", "Enrolment/ServerRenewal.swift",
    "TLS/TLSCallbacks.swift", "TLS/JudgementEnd.swift", "TLS/Reverification.swift", "Traffic/Worker.swift",
    "Forward/UpstreamHandler.swift", "Features/Support/Store/StoreClient.swift",
    "Upstream/UpstreamSession.swift", "Audit/AuditTime.swift",
  ]

  @Test func `the wall clock says dates, and the monotonic clock measures spans`() {
    let calls = ["time(nil)", "CLOCK_REALTIME", "gettimeofday", "wallDeadline"]
    let found = Set(
      SourceFile.sources.filter { $0.module != "sallyport" && !$0.code(with: calls).isEmpty }.map {
        String($0.path.dropFirst("Sources/".count))
      })
    #expect(found == Self.datingFiles, "\(found.symmetricDifference(Self.datingFiles))")
  }

  @Test func `no state belongs to the process`() {
    let shapes = [
      "= Mutex(", "= Mutex<", "= Atomic(", "= Atomic<", "= DispatchQueue(", "= DispatchSemaphore(", "= DispatchGroup(",
      "= BlockingPool(", "= SharedState(", ": Mutex<", ": Atomic<",
    ]
    for file in SourceFile.sources where Self.allowedToBeGlobal[file.path] == nil {
      for line in file.code {
        let isStored = line.text.contains("static var ") && !line.text.hasSuffix("{") && !line.text.contains("{ ")
        let isGlobal =
          line.text.contains("static let ")
          || ["let ", "private let ", "fileprivate let ", "package let ", "public let "].contains {
            line.text.hasPrefix($0)
          }
        let isState = isGlobal && shapes.contains { line.text.contains($0) }
        #expect(!isStored && !isState && !line.text.hasPrefix("var "), "\(file.path):\(line.number): \(line.text)")
      }
    }
  }

  /// A trial judges clients by other certificates than those that the files hold. Nobody else may.
  @Test func `only a trial world replaces that by which clients are judged`() {
    let callers = SourceFile.sources.filter { file in
      ["Review", "Daemon"].contains(file.module) && file.lines.contains { $0.contains("replacing:") }
    }
    #expect(callers.map(\.path) == ["Sources/Review/Witness/TrialWorld.swift"])
  }

  @Test func `every example configuration is in a test`() throws {
    let tested =
      SourceFile.tests.first { $0.path.hasSuffix("/ExampleTests.swift") }?.lines.joined(separator: "\n") ?? ""
    let examples = try FileManager.default.contentsOfDirectory(atPath: "\(checkout)/config")
    for example in examples where example.hasSuffix(".conf") {
      let name = example.dropLast(".conf".count)
      #expect(tested.contains("\"\(name)\"") || tested.contains("\(name).conf"), "config/\(example)")
    }
  }

  /// Numbers of holes that tests are called after, and those of the table in docs/KNOWN-VULNERABILITIES.md.
  @Test func `each hole of our peers that is claimed to be closed has its test, and each such test its line`() throws {
    func numbers(_ text: Substring) -> Set<String> {
      Set(text.matches(of: /CVE-\d{4}-\d+|GHSA(-[0-9a-z]{4}){3}/).map { String($0.output.0) })
    }
    let page = try String(contentsOfFile: "\(checkout)/docs/KNOWN-VULNERABILITIES.md", encoding: .utf8)
    let claimed = numbers(page[...])
    let tested = SourceFile.tests.reduce(into: Set<String>()) { all, file in
      for line in file.lines where line.contains("func `") { all.formUnion(numbers(line)) }
    }
    #expect(claimed == tested)
    #expect(claimed.count > 10)
  }
}
