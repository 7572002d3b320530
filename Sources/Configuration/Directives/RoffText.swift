/// Text for man(1): macros of man(7), with every character escaped that roff would read as an instruction.
///
/// The texts of the table of directives mark code with backticks, as Markdown does. They become bold.
package struct RoffText {
  package private(set) var text = ""

  package init() {}

  /// Begins the page. The words stand in its header and footer.
  package mutating func title(_ name: String, section: Int, date: String, source: String) {
    text += ".TH \(quoted(name)) \(section) \(quoted(date)) \(quoted(source))\n"
  }

  package mutating func section(_ title: String) { text += ".SH \(quoted(title.uppercased()))\n" }

  package mutating func paragraph() { text += ".PP\n" }

  /// Adds a line of running text. `isRoff`: the text is roff already.
  package mutating func line(_ line: String, isRoff: Bool = false) {
    text += (isRoff ? line : Self.escaped(line)) + "\n"
  }

  /// Adds a tagged paragraph. Without a tag, it begins with a bullet.
  package mutating func item(_ tag: String, _ paragraphs: [String]) {
    text += tag.isEmpty ? ".IP \\(bu 2\n" : ".TP\n\(Self.escaped(tag))\n"
    for (index, paragraph) in paragraphs.filter({ !$0.isEmpty }).enumerated() {
      if index > 0 { text += ".br\n" }
      line(paragraph)
    }
  }

  private func quoted(_ word: String) -> String {
    "\"" + word.unicodeScalars.map { $0 == "\"" ? "\\(dq" : Self.escaped($0, isCode: false) }.joined() + "\""
  }

  /// Escapes a line. Text between backticks becomes bold, and its quotes and hyphens stay as they are typed.
  package static func escaped(_ line: String) -> String {
    var result = ""
    var isCode = false
    for scalar in line.unicodeScalars {
      if scalar == "`" {
        isCode.toggle()
        result += isCode ? "\\fB" : "\\fR"
      } else {
        result += escaped(scalar, isCode: isCode)
      }
    }
    if isCode { result += "\\fR" }
    // A line that begins with one of these would be a request.
    return result.hasPrefix(".") || result.hasPrefix("'") ? "\\&" + result : result
  }

  private static func escaped(_ scalar: Unicode.Scalar, isCode: Bool) -> String {
    switch scalar {
    case "\\": "\\(rs"
    case "-" where isCode: "\\-"
    case "'" where isCode: "\\(aq"
    case "^": "\\(ha"
    case "~": "\\(ti"
    case "\n", "\r", "\t": " "
    case _ where scalar.isASCII: String(scalar)
    default: "\\[u\(hexadecimal(scalar.value))]"
    }
  }

  private static func hexadecimal(_ value: UInt32) -> String {
    let digits = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
  }
}
