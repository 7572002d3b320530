import Language

/// A file of `crt-list`: for each certificate the names that it is shown for, and options of its own.
struct HAProxyCertificateList {
  struct Entry {
    let certificate: String
    /// Options in brackets, which take the place of those of the `bind` line.
    var options: [String: [String]] = [:]
    /// Each a word of `server_name`. Empty: the names of the certificate, which only the first entry needs not to know.
    var names: [String] = []
    let line: OldLine
  }

  private(set) var entries: [Entry] = []
  private(set) var faults: [ConversionNote] = []
  /// Names of earlier entries, whose certificate is shown for them.
  private var taken: Set<String> = []
  private let globals: HAProxyGlobals

  /// Several `crt` of one line.
  init(_ certificates: [String], at line: OldLine, _ globals: HAProxyGlobals) {
    self.globals = globals
    for certificate in certificates { add(Entry(certificate: certificate, line: line)) }
  }

  init(_ path: String, at line: OldLine, _ globals: HAProxyGlobals) {
    self.globals = globals
    switch globals.files.read(path, Parser.maximumFileSize) {
    case .failure(let fault):
      faults.append(ConversionNote(.refused, line, "the list of certificates can't be read: \(fault.reason)"))
    case .success(let bytes):
      let text = String(decoding: bytes, as: UTF8.self)
      for line in OldText.lines(text, file: OldText.plain(Array(path.utf8))) { read(line) }
      if entries.isEmpty { faults.append(ConversionNote(.refused, line, "the list of certificates is empty")) }
    }
  }

  private mutating func read(_ line: OldLine) {
    guard !line.text.isEmpty, !line.text.hasPrefix("#") else { return }
    func refuse(_ reason: String) { faults.append(ConversionNote(.refused, line, reason)) }
    var rest = Substring(line.text)
    let certificate = rest.prefix { $0 != " " && $0 != "[" }
    rest = rest[certificate.endIndex...].drop { $0 == " " }
    var entry = Entry(certificate: String(certificate), line: line)
    if rest.hasPrefix("[") {
      guard let end = rest.firstIndex(of: "]") else { return refuse("a bracket isn't closed") }
      let words = rest[rest.index(after: rest.startIndex)..<end].split(separator: " ").map(String.init)
      let options = HAProxyOptions(words, HAProxyBind.options)
      if let word = options.unknown.first { return refuse("\"\(word)\" isn't known, and it may be a check") }
      entry.options = options.values
      rest = rest[rest.index(after: end)...]
    }
    for name in rest.split(separator: " ") {
      guard let word = Self.word(name.lowercased()) else {
        return refuse("\"\(name)\": a name, or *.NAME")
      }
      entry.names.append(word)
    }
    add(entry)
  }

  /// The names of the certificate count where the list has none. The first certificate is shown without a name, too.
  private mutating func add(_ entry: Entry) {
    var entry = entry
    if entry.names.isEmpty {
      let found = globals.names(globals.certificate(entry.certificate))
      entry.names = (found ?? []).compactMap { Self.word($0.lowercased()) }
      if entry.names.isEmpty, !entries.isEmpty {
        let reason =
          "the names of \(entry.certificate) aren't known here: " + (found == nil ? "it can't be read" : "none")
        return faults.append(ConversionNote(.refused, entry.line, reason))
      }
    }
    entry.names = entry.names.filter { taken.insert($0).inserted }
    if entries.isEmpty || !entry.names.isEmpty { entries.append(entry) }
  }

  /// `*` stands for one label.
  static func word(_ name: String) -> String? {
    guard name.hasPrefix("*.") else { return Endpoint.isHost(name) && !name.contains(":") ? name : nil }
    let end = String(name.dropFirst(2))
    return Endpoint.isHost(end) && !end.contains(":") ? "~^[^.]+\\.\(ConvertedWord.expression(of: end))\\z" : nil
  }
}
