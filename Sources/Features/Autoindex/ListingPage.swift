import Bytes
import Files
import Glibc
import HTTP
import Observability

/// The list of a folder as a text, in nginx's forms: a pure value.
///
/// A name can have any bytes but a slash and NUL. Whatever they are, the text is well-formed UTF-8 and of its form: what
/// can't stand in it is replaced by U+FFFD, and a link has each byte of the name.
struct ListingPage: Sendable {
  private let settings: Autoindex
  /// The path of the request.
  private let uri: [UInt8]
  /// The function that JSONP calls; empty: the text is JSON.
  var callback: [UInt8] = []
  /// Seconds that the times of HTML are ahead of UTC.
  private let offset: Int64

  /// `offset`: nil for that of the server's time zone now.
  init(_ settings: Autoindex, _ uri: [UInt8], offset: Int64? = nil) {
    self.settings = settings
    self.uri = uri
    self.offset = settings.showsLocalTime ? offset ?? Int64(Moment(Int64(time(nil)), utc: false).offsetMinutes) * 60 : 0
  }

  var type: StaticString {
    switch settings.format {
    case .html: "text/html"
    case .xml: "text/xml; charset=utf-8"
    case .json: "application/json"
    case .jsonp: callback.isEmpty ? "application/json" : "application/javascript"
    }
  }

  /// As in nginx: a name of letters, digits, `_` and `.`, or none.
  static func isFunction(_ name: UnsafeRawBufferPointer) -> Bool {
    name.count <= 128
      && name.allSatisfy { ASCII.isDigit($0) || (0x61...0x7A).contains($0 | 0x20) || $0 == 0x5F || $0 == 0x2E }
  }

  /// Folders first, and each in the order of their bytes.
  func text(_ entries: [ServedFolder.Entry]) -> [UInt8] {
    let sorted = entries.sorted { one, other in
      let isFolder = (one.facts.kind == .folder, other.facts.kind == .folder)
      return isFolder.0 == isFolder.1 ? one.name.lexicographicallyPrecedes(other.name) : isFolder.0
    }
    var page = ByteBuffer()
    switch settings.format {
    case .html: html(sorted, &page)
    case .xml: xml(sorted, &page)
    case .json, .jsonp: json(sorted, &page)
    }
    return Array(page.readable)
  }

  // MARK: HTML

  private static let nameWidth = 50
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  private func html(_ entries: [ServedFolder.Entry], _ page: inout ByteBuffer) {
    let path = Self.characters(uri)
    page.append("<html>\r\n<head><title>Index of ")
    Self.append(path, &page)
    page.append("</title></head>\r\n<body>\r\n<h1>Index of ")
    Self.append(path, &page)
    page.append("</h1><hr><pre><a href=\"../\">../</a>\r\n")
    for entry in entries { line(entry, &page) }
    page.append("</pre><hr></body>\r\n</html>\r\n")
  }

  private func line(_ entry: ServedFolder.Entry, _ page: inout ByteBuffer) {
    let isFolder = entry.facts.kind == .folder
    page.append("<a href=\"")
    Self.append(escaped: entry.name, &page)
    page.append(isFolder ? "/\">" : "\">")
    let name = Self.characters(entry.name)
    var width = name.count
    if width > Self.nameWidth {
      Self.append(Array(name.prefix(Self.nameWidth - 3)), &page)
      page.append("..&gt;</a>")
    } else {
      Self.append(name, &page)
      if isFolder, width < Self.nameWidth {
        page.append("/")
        width += 1
      }
      page.append("</a>")
      page.append([UInt8](repeating: 0x20, count: Self.nameWidth - width))
    }
    let time = Moment(entry.facts.modified &+ offset, utc: true)
    let date = "\(Self.padded(time.day))-\(Self.months[time.month - 1])-\(time.year)"
    page.append(string: " \(date) \(Self.padded(time.hour)):\(Self.padded(time.minute)) ")
    let size = isFolder ? "-" : settings.showsExactSizes ? "\(entry.facts.size)" : Self.rounded(entry.facts.size)
    let room = settings.showsExactSizes ? 19 : 7
    page.append([UInt8](repeating: 0x20, count: max(0, room - size.utf8.count)))
    page.append(string: size)
    page.append("\r\n")
  }

  /// As nginx rounds: to halves of the unit, and bytes below 10000.
  private static func rounded(_ size: UInt64) -> String {
    for (shift, least, unit) in [(30, 1 << 30, "G"), (20, 1 << 20, "M"), (10, 10_000, "K")]
      as [(UInt64, UInt64, String)]
    where size >= least {
      return "\(size >> shift + (size >> (shift - 1) & 1))\(unit)"
    }
    return "\(size)"
  }

  private static func padded(_ number: Int, to width: Int = 2) -> String {
    let digits = "\(number)"
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }

  // MARK: XML and JSON

  private func xml(_ entries: [ServedFolder.Entry], _ page: inout ByteBuffer) {
    page.append("<?xml version=\"1.0\"?>\r\n<list>\r\n")
    for entry in entries {
      let kind = Self.word(entry.facts.kind), time = Moment(entry.facts.modified, utc: true)
      let date = "\(Self.padded(time.year, to: 4))-\(Self.padded(time.month))-\(Self.padded(time.day))"
      let clock = "\(Self.padded(time.hour)):\(Self.padded(time.minute)):\(Self.padded(time.second))"
      page.append(string: "<\(kind) mtime=\"\(date)T\(clock)Z\"")
      if entry.facts.kind == .regular { page.append(string: " size=\"\(entry.facts.size)\"") }
      page.append(">")
      Self.append(Self.characters(entry.name), &page)
      page.append(string: "</\(kind)>\r\n")
    }
    page.append("</list>\r\n")
  }

  private func json(_ entries: [ServedFolder.Entry], _ page: inout ByteBuffer) {
    let clock = ClockText()
    if !callback.isEmpty {
      page.append("/* callback */\r\n")
      page.append(callback)
      page.append("(")
    }
    page.append("[")
    for (index, entry) in entries.enumerated() {
      page.append(index > 0 ? ",\r\n{ \"name\":\"" : "\r\n{ \"name\":\"")
      Self.append(json: entry.name, &page)
      page.append(string: "\", \"type\":\"\(Self.word(entry.facts.kind))\", \"mtime\":\"")
      clock.update(seconds: entry.facts.modified, milliseconds: 0)
      page.append(clock.httpDate)
      page.append("\"")
      if entry.facts.kind == .regular { page.append(string: ", \"size\":\(entry.facts.size)") }
      page.append(" }")
    }
    page.append("\r\n]")
    if !callback.isEmpty { page.append(");") }
  }

  private static func word(_ kind: FileFacts.Kind) -> String {
    switch kind {
    case .regular: "file"
    case .folder: "directory"
    case .other: "other"
    }
  }

  // MARK: Names

  /// The characters of a name as a page shows it. What isn't UTF-8, and a control character, which has no place in XML, is
  /// U+FFFD.
  private static func characters(_ name: [UInt8]) -> [Unicode.Scalar] {
    String(decoding: name, as: UTF8.self).unicodeScalars.map { character in
      switch character.value {
      case ..<0x20, 0x7F..<0xA0, 0xFFFE, 0xFFFF: "\u{FFFD}"
      default: character
      }
    }
  }

  /// Appends characters as they may stand in an element of HTML or XML.
  private static func append(_ characters: [Unicode.Scalar], _ page: inout ByteBuffer) {
    for character in characters {
      switch character {
      case "<": page.append("&lt;")
      case ">": page.append("&gt;")
      case "&": page.append("&amp;")
      case "\"": page.append("&quot;")
      default: for byte in UTF8.encode(character) ?? UTF8.encodedReplacementCharacter { page.append(byte) }
      }
    }
  }

  /// Appends a name as it may stand in a string of JSON, and of JavaScript.
  private static func append(json name: [UInt8], _ page: inout ByteBuffer) {
    for character in String(decoding: name, as: UTF8.self).unicodeScalars {
      switch character {
      case "\"": page.append("\\\"")
      case "\\": page.append("\\\\")
      case "\u{0}"..<"\u{20}", "\u{2028}", "\u{2029}":
        let digits = String(character.value, radix: 16)
        page.append(string: "\\u\(String(repeating: "0", count: 4 - digits.utf8.count))\(digits)")
      default: for byte in UTF8.encode(character) ?? UTF8.encodedReplacementCharacter { page.append(byte) }
      }
    }
  }

  /// Appends a name as a segment of a path: each byte but the unreserved ones (RFC 3986 §2.3) escaped.
  private static func append(escaped name: [UInt8], _ page: inout ByteBuffer) {
    for byte in name {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: page.append(byte)
      default:
        page.append(0x25)
        withUnsafeBytes(of: byte) { Hex.encode($0, .upper, into: &page) }
      }
    }
  }
}
