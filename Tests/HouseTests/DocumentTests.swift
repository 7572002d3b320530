import Foundation
import Glibc
import TestSupport
import Testing

/// What the documents name exists: files, headings, types and directives.
@Suite struct `Documents` {
  @Test func `the pages are found, and their backticks are in pairs`() {
    #expect(Self.pages.count > 30)
    #expect(Self.pages.contains { $0.path == "docs/operating/install.md" })
    for page in Self.pages {
      #expect(!page.text.isEmpty && page.unpaired.isEmpty, "\(page.path): \(page.unpaired)")
    }
  }

  @Test func `each link leads to a file, and to a heading of it`() {
    var count = 0
    for page in Self.pages {
      let folder = URL(fileURLWithPath: "\(checkout)/\(page.path)").deletingLastPathComponent()
      for link in page.prose.matches(of: #/\]\(([^)\s]+)\)/#).map({ String($0.output.1) }) where !link.contains("://") {
        count += 1
        let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let target = parts[0].isEmpty ? "\(checkout)/\(page.path)" : folder.appendingPathComponent(parts[0]).path
        #expect(access(target, R_OK) == 0, "\(page.path): \(link)")
        guard parts.count > 1, let aim = try? String(contentsOfFile: target, encoding: .utf8) else { continue }
        #expect(Page.anchors(in: aim).contains(parts[1]), "\(page.path): \(link)")
      }
    }
    #expect(count > 100, "\(count)")
  }

  @Test func `each path in backticks exists`() {
    var count = 0
    for page in Self.pages {
      for path in page.spans.flatMap(Self.paths) {
        count += 1
        #expect(Self.exists(path), "\(page.path): \(path)")
      }
    }
    #expect(count > 30, "\(count)")
  }

  @Test func `each type that ARCHITECTURE and the decisions name is declared`() {
    var count = 0
    for page in Self.pages
    where page.path == "docs/ARCHITECTURE.md" || page.path.hasPrefix("docs/architecture/")
      || page.path.hasPrefix("docs/decisions/")
    {
      for span in page.spans {
        guard let fault = Self.fault(ofType: span) else { continue }
        count += 1
        #expect(fault.isEmpty, "\(page.path): \(span): \(fault)")
      }
    }
    #expect(count > 300, "\(count)")
  }

  @Test func `each directive in backticks is one`() {
    #expect(Self.directives.count > 500)
    var count = 0
    for page in Self.pages {
      for span in page.spans {
        guard let fault = Self.fault(ofDirective: span) else { continue }
        count += 1
        #expect(fault.isEmpty, "\(page.path): \(span): \(fault)")
      }
    }
    #expect(count > 1000, "\(count)")
  }

  /// The guarantees have the suites that show them in `*(…)*`, and each known vulnerability in its last column.
  @Test func `each suite that SECURITY and KNOWN-VULNERABILITIES name is there`() throws {
    func suites(_ list: some StringProtocol) -> [String] {
      list.split(separator: ";").map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " .")) }
    }
    let page = try #require(Self.pages.first { $0.path == "docs/SECURITY.md" })
    let prose = page.prose.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let shown = prose.matches(of: #/\*\(([^)]*)\)\*/#).flatMap { suites($0.output.1) }
    #expect(shown.count > 30, "\(shown.count)")
    let holes = try #require(Self.pages.first { $0.path == "docs/KNOWN-VULNERABILITIES.md" })
    let tested = holes.text.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst(2)
      .flatMap { suites($0.split(separator: "|").last ?? "") }
      // `for HTTP/2: SUITE`
      .map { name in name.hasPrefix("for ") ? name.split(separator: ": ").last.map(String.init) ?? name : name }
    #expect(tested.count > 30, "\(tested.count)")
    for name in shown + tested { #expect(Self.index.suites.contains(name), "\(name)") }
  }

  @Test func `a name that is misspelled or gone is found`() {
    for span in ["ssl_verify_dept", "ssl_verify_dept 2;", "proxy_pas http://a;", "gzipp on;"] {
      #expect(Self.fault(ofDirective: span)?.isEmpty == false, "\(span)")
    }
    for span in ["ssl_verify_depth 2;", "gzip on;", "optional_no_ca"] {
      #expect(Self.fault(ofDirective: span)?.isEmpty == true, "\(span)")
    }
    for span in ["ServerFailures", "Upstream/ServerFailures", "TLS/HeadParser", "Exchange.doesNotExist"] {
      #expect(Self.fault(ofType: span)?.isEmpty == false, "\(span)")
    }
    for span in ["Exchange", "HTTP/HTTP1/HeadParser", "Exchange.end(EndReason)", "Features/"] {
      #expect(Self.fault(ofType: span)?.isEmpty == true, "\(span)")
    }
    #expect(!Self.exists("docs/NONE.md") && !Self.exists("Sources/*/None.swift"))
    #expect(Self.exists("Tests/HouseTests/DocumentTests") && Self.exists("Sources/C/*/shim.h"))
  }

  @Test func `every exception is still needed`() {
    let named = Set(Self.pages.flatMap(\.spans).flatMap { $0.split(separator: " ").map(String.init) })
    for word in Self.foreignTypes.union(Self.foreignWords) { #expect(named.contains(word), "\(word)") }
  }

  @Test func `the table of modules has those of the package, in its order`() throws {
    let text = try String(contentsOfFile: "\(checkout)/docs/ARCHITECTURE.md", encoding: .utf8)
    let package = try String(contentsOfFile: "\(checkout)/Package.swift", encoding: .utf8)
    let rows = package.matches(of: #/^ {2}\(\s*"([A-Z]\w*)",/#.anchorsMatchLineEndings()).map { String($0.output.1) }
    let table = text.matches(of: #/^\| (?:[1-5] \w+)? ?\| ([A-Z]\w*) \|/#.anchorsMatchLineEndings()).map {
      String($0.output.1)
    }
    #expect(rows.count > 20)
    #expect(Set(table) == Set(rows), "\(Set(rows).symmetricDifference(table))")
  }

  @Test func `a module imports each module that its row names`() throws {
    let package = try String(contentsOfFile: "\(checkout)/Package.swift", encoding: .utf8)
    let rows = package.matches(of: #/^ {2}\(\s*"([A-Z]\w*)",\s*\[([^\]]*)\]/#.anchorsMatchLineEndings())
    #expect(rows.count > 20)
    for row in rows {
      let declared = row.output.2.matches(of: #/"(\w+)"/#).map { String($0.output.1) }
      let imported = SourceFile.sources.filter { $0.module == row.output.1 }.flatMap(\.imports).map(String.init)
      let unused = Set(declared).subtracting(imported)
      #expect(unused.isEmpty, "\(row.output.1): \(unused.sorted())")
    }
  }

  // MARK: Exceptions

  /// Names in ARCHITECTURE and the decisions that are not ours.
  private static let foreignTypes: Set<String> = [
    // Swift, its packages, Foundation and Dispatch.
    "Data", "Deque", "DispatchSource", "Heap", "Span", "Unmanaged",
    // Fields of HTTP, and a part of one.
    "By", "Date",
    // What decision 0030 says that there is none of.
    "HTTP2Mux",
  ]

  /// Words with an underscore that no directive and no source has.
  private static let foreignWords: Set<String> = [
    // Alerts of TLS.
    "access_denied", "bad_certificate", "internal_error", "no_application_protocol",
    // prctl(2).
    "no_new_privs",
    // Ends of `$proxy_protocol_tlv_…`.
    "ssl_cn", "ssl_key_alg", "ssl_sig_alg", "ssl_version",
  ]

  // MARK: Rules

  /// The words of a text in backticks that are paths of the checkout. `Sources/X` stands for any module.
  private static func paths(in span: String) -> [String] {
    span.split(separator: " ").compactMap { word in
      let path = word.prefix { $0 != ":" }.trimmingCharacters(in: CharacterSet(charactersIn: ".,;()"))
      let isOurs = ["Sources/", "Tests/", "docs/", "deploy/", "config/"].contains { path.hasPrefix($0) }
      return isOurs && path != "Sources/X" ? path : nil
    }
  }

  /// Swift files may lack their suffix. `*` stands for a part of one name.
  private static func exists(_ path: String) -> Bool {
    for name in [path, "\(path).swift"] where access("\(checkout)/\(name)", F_OK) == 0 { return true }
    guard let star = path.firstIndex(of: "*"), let slash = path[..<star].lastIndex(of: "/") else { return false }
    let folder = "\(checkout)/\(path[..<slash])"
    let pattern = String(path[path.index(after: slash)...])
    let names = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
    return names.contains { fnmatch(pattern, $0, FNM_PATHNAME) == 0 }
  }

  /// nil for a text that names no type; "" for a type, file or folder that exists. The first name of several is a module,
  /// and the last one must be of this module; which folder it is in may change.
  private static func fault(ofType span: String) -> String? {
    guard span.utf8.first.map({ (0x41...0x5A).contains($0) }) == true else { return nil }
    let shape = #/([A-Z][A-Za-z0-9]*(?:/[A-Z][A-Za-z0-9]*)*)(?:\.swift)?(?:\.([a-z][A-Za-z0-9]*)(?:\([^)]*\))?)?/?/#
    guard let found = span.wholeMatch(of: shape), found.output.1.contains(where: \.isLowercase) else { return nil }
    let names = found.output.1.split(separator: "/").map(String.init)
    guard let first = names.first, let last = names.last, first != "Sources", first != "Tests" else { return nil }
    if foreignTypes.contains(last) || packageWords.contains(last) { return "" }
    guard let modules = index.names[last] else { return "nothing has the name \(last)" }
    if index.modules.contains(first) {
      guard modules.contains(first) else { return "the module \(first) has no \(last)" }
    } else if index.names[first] == nil {
      return "nothing has the name \(first)"
    }
    if let member = found.output.2, !index.hasWord(member) { return "nothing has the name \(member)" }
    return ""
  }

  /// nil for a text that names no directive; "" for a directive, or for a word that the sources have: a value, a label of a
  /// metric, a part of a variable. A text that ends with a semicolon begins with a directive.
  private static func fault(ofDirective span: String) -> String? {
    let words = span.split(separator: " ")
    guard let first = words.first else { return nil }
    if words.count > 1, span.hasSuffix(";"), first.wholeMatch(of: #/[a-z][a-z0-9_]*/#) != nil {
      return directives.contains(String(first)) ? "" : "no directive"
    }
    guard let found = first.wholeMatch(of: #/([a-z][a-z0-9]*(?:_[a-z0-9]+)+);?/#) else { return nil }
    let name = String(found.output.1)
    let isKnown = directives.contains(name) || index.hasWord(name) || foreignWords.contains(name)
    return isKnown ? "" : "no directive, and no word of the sources"
  }

  // MARK: What exists

  /// What the sources and tests have. One pass over their bytes: a debug build would compare text for most of a minute.
  private struct Index {
    /// Types, files and folders, with the modules that have them.
    private(set) var names: [String: Set<String>] = [:]
    /// Modules of Sources.
    private(set) var modules: Set<String> = []
    /// Suites of tests.
    private(set) var suites: Set<String> = []
    /// Hashes of the words of Sources, without those of comments.
    private var words: Set<UInt64> = []

    private static let isOfWord: [Bool] = (0...255).map { Documents.isOfWord($0) }
    private static let keywords = Set(
      ["struct", "class", "enum", "protocol", "typealias", "actor", "extension"].map { hash($0.utf8) })
    private static let suiteKeyword = hash("struct".utf8)

    init() {
      for folder in ["Sources", "Tests"] {
        let paths = FileManager.default.enumerator(atPath: "\(checkout)/\(folder)")?.compactMap { $0 as? String } ?? []
        for path in paths where path.hasSuffix(".swift") {
          let parts = path.split(separator: "/").map(String.init)
          let module = parts[0], isSource = folder == "Sources"
          if isSource { modules.insert(module) }
          for part in parts {
            let name = part.hasSuffix(".swift") ? String(part.dropLast(".swift".count)) : part
            names[name, default: []].insert(module)
          }
          let bytes = FileManager.default.contents(atPath: "\(checkout)/\(folder)/\(path)") ?? Data()
          bytes.withUnsafeBytes { read($0, of: module, isSource: isSource) }
        }
      }
    }

    func hasWord(_ word: some StringProtocol) -> Bool { words.contains(Self.hash(word.utf8)) }

    private mutating func read(_ text: UnsafeRawBufferPointer, of module: String, isSource: Bool) {
      guard let bytes = text.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
      let isOfWord = Self.isOfWord
      var line = 0
      while line < text.count {
        let end = memchr(bytes + line, 0x0A, text.count - line).map { UnsafeRawPointer($0) - UnsafeRawPointer(bytes) }
        let next = end ?? text.count
        var place = line
        line = next + 1
        while place < next, bytes[place] == 0x20 { place += 1 }
        if place + 1 < next, bytes[place] == 0x2F, bytes[place + 1] == 0x2F { continue }
        var previous: UInt64 = 0
        while place < next {
          guard isOfWord[Int(bytes[place])] else {
            place += 1
            continue
          }
          let start = place
          var hash = Self.seed
          while place < next, isOfWord[Int(bytes[place])] {
            hash = Self.mix(hash, bytes[place])
            place += 1
          }
          if isSource { words.insert(hash) }
          if bytes[start] >= 0x41, bytes[start] <= 0x5A, Self.keywords.contains(previous) {
            let name = Self.text(bytes, start, place)
            names[name, default: []].insert(module)
            if !isSource, previous == Self.suiteKeyword, bytes[start - 1] == 0x20 { suites.insert(name) }
          }
          // struct `Name of a suite`
          if hash == Self.suiteKeyword, !isSource, place + 2 < next, bytes[place + 1] == 0x60 {
            var quote = place + 2
            while quote < next, bytes[quote] != 0x60 { quote += 1 }
            suites.insert(Self.text(bytes, place + 2, quote))
          }
          previous = hash
        }
      }
    }

    private static func text(_ bytes: UnsafePointer<UInt8>, _ start: Int, _ end: Int) -> String {
      String(decoding: UnsafeBufferPointer(start: bytes + start, count: end - start), as: UTF8.self)
    }

    // FNV-1a
    private static let seed: UInt64 = 0xCBF2_9CE4_8422_2325
    private static func mix(_ hash: UInt64, _ byte: UInt8) -> UInt64 { (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    private static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(seed, mix) }
  }

  private static let index = Index()

  /// Names of targets, those of C libraries too.
  private static let packageWords: Set<String> = {
    let text = (try? String(contentsOfFile: "\(checkout)/Package.swift", encoding: .utf8)) ?? ""
    return Set(text.utf8.split { !isOfWord($0) }.map { String(decoding: $0, as: UTF8.self) })
      .filter { $0.first?.isUppercase == true }.union(["Package"])
  }()

  private static func isOfWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
    default: false
    }
  }

  /// The first words in the first column of docs/DIRECTIVES.md, supported and not.
  private static let directives: Set<String> = {
    let text = (try? String(contentsOfFile: "\(checkout)/docs/DIRECTIVES.md", encoding: .utf8)) ?? ""
    var names: Set<String> = []
    for line in text.split(separator: "\n") where line.hasPrefix("| `") {
      let cell = line.replacing("\\|", with: " ").split(separator: "|").first ?? ""
      for (number, piece) in cell.split(separator: "`", omittingEmptySubsequences: false).enumerated()
      where number % 2 == 1 {
        if let name = piece.split(separator: " ").first { names.insert(String(name)) }
      }
    }
    return names
  }()

  private static let pages: [Page] = {
    var paths = ["README.md"]
    for folder in ["docs", "docs/operating", "docs/decisions"] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(checkout)/\(folder)")) ?? []
      paths += names.filter { $0.hasSuffix(".md") }.sorted().map { "\(folder)/\($0)" }
    }
    return paths.map(Page.init(path:))
  }()

  // MARK: Reading Markdown

  private struct Page {
    let path: String
    let text: String
    /// The texts in backticks, each on one line, without those of code blocks.
    private(set) var spans: [String] = []
    /// What is outside backticks and code blocks.
    private(set) var prose = ""
    /// Where backticks begin that don't end in the same paragraph.
    private(set) var unpaired: [String] = []

    init(path: String) {
      self.path = path
      text = (try? String(contentsOfFile: "\(checkout)/\(path)", encoding: .utf8)) ?? ""
      var rest = Substring(Self.withoutBlocks(text))
      while let start = rest.firstIndex(of: "`") {
        prose += rest[..<start]
        let ticks = rest[start...].prefix { $0 == "`" }
        let body = rest[ticks.endIndex...]
        guard let end = Self.end(of: ticks.count, in: body) else {
          unpaired.append(String(body.prefix(60)))
          rest = body
          continue
        }
        let span = body[..<end.lowerBound]
        if span.contains("\n\n") { unpaired.append(String(span.prefix(60))) }
        spans.append(
          span.replacing("\\|", with: "|").split(whereSeparator: \.isWhitespace).joined(separator: " "))
        rest = body[end.upperBound...]
      }
      prose += rest
    }

    /// The next run of just as many backticks.
    private static func end(of count: Int, in body: Substring) -> Range<Substring.Index>? {
      var rest = body
      while let start = rest.firstIndex(of: "`") {
        let ticks = rest[start...].prefix { $0 == "`" }
        if ticks.count == count { return ticks.startIndex..<ticks.endIndex }
        rest = rest[ticks.endIndex...]
      }
      return nil
    }

    /// Empty lines in place of code blocks.
    private static func withoutBlocks(_ text: String) -> String {
      var isFenced = false
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> Substring in
        if line.drop(while: { $0 == " " }).hasPrefix("```") {
          isFenced.toggle()
          return ""
        }
        return isFenced || line.hasPrefix("    ") ? "" : line
      }
      return lines.joined(separator: "\n")
    }

    /// The names that a browser of Markdown gives the headings, and those of rows of the manual.
    static func anchors(in text: String) -> Set<String> {
      Set(text.matches(of: #/<a id="([^"]+)"><\/a>/#).map { String($0.output.1) }).union(
        withoutBlocks(text).split(separator: "\n").filter { $0.hasPrefix("#") }.map { line in
          line.drop { $0 == "#" }.drop { $0 == " " }.lowercased().filter {
            $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_"
          }.replacing(" ", with: "-")
        })
    }
  }
}
