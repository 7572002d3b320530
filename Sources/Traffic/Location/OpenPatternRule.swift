package import Language
import Observability
import Patterns

/// Warns of a regular expression that is tried on a name that a client brings, and that also matches other names: it has no
/// anchor at its begin or its end.
package enum OpenPatternRule {
  private enum Kind {
    case distinguishedName
    case commonName
    case origin

    static func of(_ variable: Variable) -> Kind? {
      switch variable {
      case .simple(.ssl_client_s_dn), .simple(.ssl_client_i_dn), .simple(.ssl_client_s_dn_legacy),
        .simple(.ssl_client_i_dn_legacy):
        .distinguishedName
      case .simple(.ssl_client_s_dn_cn): .commonName
      case .requestField(let name) where name == Array("origin".utf8): .origin
      case .settable(_, let own): of(own)
      default: nil
      }
    }

    /// What stands between the parts of a name.
    var separators: (front: Set<UInt8>, back: Set<UInt8>) {
      switch self {
      case .distinguishedName: (Set(",/+".utf8), Set(",/+".utf8))
      case .commonName: ([], [])
      case .origin: (Set("./".utf8), Set(":/".utf8))
      }
    }

    var hint: String {
      switch self {
      case .distinguishedName:
        "compare one part, $ssl_client_s_dn_cn, or write the whole name between ^ and $; `ssl_client_allow cn=NAME` compares exactly"
      case .commonName: "write it between ^ and $"
      case .origin: "write it between ^ and $, as ^https://([a-z0-9-]+\\.)?example\\.com$"
      }
    }
  }

  /// `pattern`: as the configuration has it, behind `~` or `~*`. `word`: where it stands.
  package static func judge(_ pattern: String, at word: Word, on subject: Template, _ builder: inout SettingsBuilder) {
    let text = PatternText(pattern)
    guard text.hasLiteral else { return }
    for (index, part) in subject.parts.enumerated() {
      guard case .variable(let variable) = part, let kind = Kind.of(variable) else { continue }
      let front = Divider(subject.parts[..<index], isInFront: true, rest: subject.parts[index...])
      let back = Divider(subject.parts[(index + 1)...], isInFront: false, rest: subject.parts[...index])
      // It is about a variable on the other side of these.
      if let front, text.beginsAtBound([]), !text.mayHave(front.byte) { continue }
      if let back, text.endsAtBound([]), !text.mayHave(back.byte) { continue }
      let separators = kind.separators
      // In an Origin, nothing but the scheme stands before "://".
      let hasScheme = kind == .origin && (pattern.contains("://") || pattern.contains(#":\/\/"#))
      let begins =
        hasScheme || text.beginsAtBound(separators.front.union([front?.byte].compactMap { $0 }))
        || front?.isIn(text) ?? false
      let ends =
        text.endsAtBound(separators.back.union([back?.byte].compactMap { $0 })) || back?.isIn(text) ?? false
      guard !begins || !ends else { continue }
      let place = begins ? "end" : ends ? "begin" : "begin and end"
      builder.warning(
        word.location,
        "the pattern \"\(pattern)\" has no anchor at its \(place): it matches other names that contain it",
        hint: "\(kind.hint)")
      return
    }
  }

  /// The character that divides a variable's value from what stands before it, or behind it.
  private struct Divider {
    let byte: UInt8
    /// How many of these characters the subject has from there to its end on the variable's other side.
    private let count: Int

    /// nil: no text stands beside the variable. `rest`: the variable, and what is on its other side.
    init?(_ parts: ArraySlice<Template.Part>, isInFront: Bool, rest: ArraySlice<Template.Part>) {
      guard case .literal(let bytes)? = isInFront ? parts.last : parts.first,
        let byte = isInFront ? bytes.last : bytes.first
      else { return nil }
      self.byte = byte
      count =
        rest.reduce(1) { count, part in
          if case .literal(let bytes) = part { count + bytes.count { $0 == byte } } else { count }
        }
    }

    /// Whether the pattern goes beyond the character: it has as many of it.
    func isIn(_ text: PatternText) -> Bool { text.leastCount(of: byte) >= count }
  }
}
