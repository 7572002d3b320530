/// A line of HAProxy's file in words.
struct HAProxyLine: Hashable {
  let words: [String]
  let line: OldLine
  /// Whether it comes from the defaults, which say more than one kind of section reads.
  var isDefault = false

  var name: String { words.first ?? "" }
  func word(_ index: Int) -> String { index < words.count ? words[index] : "" }
}

/// HAProxy's file: its sections in order.
struct HAProxyFile {
  struct Section {
    let kind: String
    let name: String
    let head: OldLine
    var lines: [HAProxyLine] = []
    /// The section `defaults` that is in effect, by its place; nil: none is.
    var defaults: Int?
  }

  private(set) var sections: [Section] = []
  private(set) var faults: [ConversionNote] = []
  /// Each proxy has all lines of its defaults, so their number is bounded.
  static let maximumDefaults = 300
  static let maximumSections = 5000
  var isTooLarge: Bool {
    sections.count > Self.maximumSections
      || sections.contains { $0.kind == "defaults" && $0.lines.count > Self.maximumDefaults }
  }

  private static let kinds: Set<String> = [
    "global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "userlist", "cache", "program",
    "mailers",
    "http-errors", "ring", "crt-store", "log-forward", "log-profile", "fcgi-app", "traces", "acme",
  ]

  init(_ text: String, file: String) {
    var defaults: Int?
    for line in OldText.lines(text, file: file) {
      guard let words = Self.words(line.text) else {
        faults.append(ConversionNote(.refused, line, "a quote isn't closed"))
        if !sections.isEmpty { sections[sections.count - 1].lines.append(HAProxyLine(words: ["?"], line: line)) }
        continue
      }
      guard let first = words.first else { continue }
      if Self.kinds.contains(first) {
        if first == "defaults" { defaults = sections.count }
        sections.append(
          Section(kind: first, name: words.count > 1 ? words[1] : "", head: line, defaults: defaults))
        if words.count > 2 {
          sections[sections.count - 1].lines.append(HAProxyLine(words: ["?"] + words.dropFirst(2), line: line))
        }
      } else if sections.isEmpty {
        faults.append(ConversionNote(.refused, line, "it stands in no section"))
      } else {
        let isSecret =
          first == "user" && sections.last?.kind == "userlist" || first == "stats" && words.contains("auth")
        let shown = isSecret ? line.masked("\(first) …") : line
        sections[sections.count - 1].lines.append(HAProxyLine(words: words, line: shown))
      }
    }
  }

  /// Words with quotes and backslashes resolved; nil: a quote isn't closed.
  private static func words(_ text: String) -> [String]? {
    var words: [String] = []
    var word: [UInt8]?
    var quote: UInt8?
    var isEscaped = false
    scan: for byte in text.utf8 {
      if isEscaped {
        word = word ?? []
        word?.append(byte)
        isEscaped = false
        continue
      }
      if let open = quote {
        if byte == open {
          quote = nil
        } else if byte == UInt8(ascii: "\\"), open == UInt8(ascii: "\"") {
          isEscaped = true
        } else {
          word?.append(byte)
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\\"): isEscaped = true
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        quote = byte
        word = word ?? []
      case UInt8(ascii: "#"): break scan
      case UInt8(ascii: " "):
        if let bytes = word { words.append(String(decoding: bytes, as: UTF8.self)) }
        word = nil
      default:
        word = word ?? []
        word?.append(byte)
      }
    }
    guard quote == nil else { return nil }
    if let bytes = word { words.append(String(decoding: bytes, as: UTF8.self)) }
    return words
  }
}

/// A time as HAProxy writes it; without a unit, milliseconds.
enum HAProxyTime {
  static func written(_ text: String) -> String? {
    let digits = text.prefix { $0.isASCII && $0.isNumber }
    guard digits.utf8.count < 12, let number = Int(digits) else { return nil }
    let scale: Int
    switch text[digits.endIndex...] {
    case "", "ms": return "\(number)ms"
    case "us": return "\(max(number / 1000, 1))ms"
    case "s": scale = 1
    case "m": scale = 60
    case "h": scale = 3600
    case "d": scale = 86_400
    default: return nil
    }
    let (seconds, isTooLarge) = number.multipliedReportingOverflow(by: scale)
    return isTooLarge || seconds > 1 << 30 ? nil : "\(seconds)s"
  }
}
