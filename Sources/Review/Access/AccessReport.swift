import Glibc
package import Language
package import Observability

/// What `sallyport check --policy` says: of each assertion whether it holds, for a person, for a program, and for a build
/// server.
package struct AccessReport {
  /// The judgement of one policy file.
  package struct File: Sendable {
    package let path: String
    package let results: [AccessTrial.Result]
    /// nil: coverage was not asked for.
    package let coverage: AccessCoverage?
    /// What no attempt shows, because nobody knows how to try it.
    package let unknown: [String]
    /// How many requests and connections were tried.
    package let attempts: Int
  }

  /// Why nothing could be judged.
  package struct Refusal: Error, Sendable {
    package let text: String
    package let diagnostics: [Diagnostic]
  }

  private let configuration: String
  private let files: [File]

  /// Whether all assertions hold, and no rule is uncovered if that was asked for.
  package var isFine: Bool {
    files.allSatisfy { file in file.results.allSatisfy(\.holds) && (file.coverage?.uncovered.isEmpty ?? true) }
  }

  /// `paths`: the policy files, which may name the same clients differently.
  package init(
    of paths: [String], configuration path: String, withCoverage: Bool, files: SourceFiles = .disk
  ) throws(Refusal) {
    let source = ConfigurationSource(path)
    var policies: [AccessPolicy] = []
    for path in paths {
      let policy = AccessPolicy(ConfigurationSource(path), files: files)
      guard policy.diagnostics.isEmpty else {
        throw Refusal(text: "policy \(path) can't be read", diagnostics: policy.diagnostics)
      }
      policies.append(policy)
    }
    let world: TrialWorld, domains = policies.trustDomains
    do throws(TrialWorld.Refusal) { world = try TrialWorld(source, files: files, domains: domains) } catch {
      throw Refusal(text: error.text, diagnostics: error.diagnostics)
    }
    var judged: [File] = []
    // One file may cover what another doesn't.
    let coverage = withCoverage ? AccessCoverage(of: policies, world) : nil
    for policy in policies {
      let trial = AccessTrial(policy, world), before = world.attempts
      let results = trial.results()
      judged.append(
        File(
          path: policy.path, results: results, coverage: policy.path == policies.last?.path ? coverage : nil,
          unknown: trial.unknown, attempts: world.attempts - before))
    }
    configuration = path
    self.files = judged
  }

  // MARK: For a person

  package var lines: [String] {
    var lines: [String] = []
    for file in files {
      for result in file.results where !result.holds {
        lines.append("\(result.assertion.place): error: \(result.assertion.text)")
        for failure in result.failures { lines += Self.lines(of: failure) }
      }
      for text in file.unknown { lines.append("notice: \(text)") }
      lines += file.coverage?.lines ?? []
      let failed = file.results.filter { !$0.holds }.count, all = file.results.count
      let assertions = all.of("assertion")
      lines.append(
        failed == 0
          ? "policy \(file.path): \(assertions) hold\(all == 1 ? "s" : ""), \(file.attempts.of("attempt"))"
          : "policy \(file.path): \(failed) of \(assertions) fail, \(file.attempts.of("attempt"))")
    }
    return lines.map { LogEscape.visible($0) }
  }

  private static func lines(of failure: AccessTrial.Failure) -> [String] {
    ["    \(failure.text)"] + (failure.witness.map { ["    witness: \($0)"] } ?? [])
      + (failure.place.map { ["    decided at \($0)"] } ?? [])
  }

  // MARK: For a program

  /// One object. Names never change; new ones may be added.
  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("configuration", configuration)
      json.member("valid", isFine)
      json.array("policies", files) { file, json in
        json.object { json in
          json.member("policy", file.path)
          json.array("assertions", file.results) { result, json in
            json.object { json in
              json.member("assertion", result.assertion.text)
              json.member("line", result.assertion.place.line)
              json.member("holds", result.holds)
              json.array("failures", result.failures) { failure, json in
                json.object { json in
                  json.member("text", failure.text)
                  json.member("witness", failure.witness)
                  json.member("place", failure.place.map { "\($0)" })
                }
              }
            }
          }
          json.member("attempts", file.attempts)
          json.array("unknown", file.unknown) { $1.value($0) }
          if let coverage = file.coverage { coverage.append(to: &json) }
        }
      }
    }
    return json.text
  }

  /// As build servers read test results: a suite for each file, a case for each assertion.
  package var junit: String {
    var text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
    for file in files {
      let failed = file.results.filter { !$0.holds }.count, uncovered = file.coverage?.uncovered ?? []
      text +=
        "<testsuite name=\(Self.quoted(file.path)) tests=\"\(file.results.count + uncovered.count)\" failures=\"\(failed + uncovered.count)\">\n"
      for result in file.results {
        text += "<testcase classname=\(Self.quoted(file.path)) name=\(Self.quoted(result.assertion.text))"
        text += " line=\"\(result.assertion.place.line)\""
        if result.holds {
          text += "/>\n"
          continue
        }
        let words = result.failures.flatMap { Self.lines(of: $0) }.joined(separator: "\n")
        text +=
          "><failure message=\(Self.quoted(result.failures.first?.text ?? ""))>\(Self.escaped(words))</failure></testcase>\n"
      }
      for rule in uncovered {
        text += "<testcase classname=\(Self.quoted(file.path)) name=\(Self.quoted("coverage of \(rule.text)"))>"
        text += "<failure message=\(Self.quoted(rule.words))>\(Self.escaped(rule.advice))</failure></testcase>\n"
      }
      text += "</testsuite>\n"
    }
    return text + "</testsuites>\n"
  }

  /// Replaces the file, or makes it.
  package func writeJUnit(to path: String) throws(Refusal) {
    func fault(_ call: String) -> Refusal {
      Refusal(text: "\(call)() \"\(path)\" failed (\(errno): \(String(cString: strerror(errno))))", diagnostics: [])
    }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw fault("open") }
    defer { close(descriptor) }
    guard FormattedFile.write(Array(junit.utf8), to: descriptor) else { throw fault("write") }
  }

  private static func quoted(_ text: String) -> String { "\"\(escaped(text))\"" }

  /// XML 1.0 has no control characters but these three, not even escaped.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for character in LogEscape.visible(text).unicodeScalars {
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "\n": escaped += "\n"
      case _ where character.value < 0x20: escaped += "?"
      default: escaped.unicodeScalars.append(character)
      }
    }
    return escaped
  }
}
