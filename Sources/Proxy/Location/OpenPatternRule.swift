import Language
import Observability
import Patterns

/// Warns of a regular expression that is tried on a name that a client brings, and that also matches other names: it has no
/// anchor at its begin or its end.
enum OpenPatternRule {
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
  static func judge(_ pattern: String, at word: Word, on subject: Template, _ builder: inout SettingsBuilder) {
    let kinds: [Kind] = subject.parts.compactMap {
      if case .variable(let variable) = $0 { Kind.of(variable) } else { nil }
    }
    guard let kind = kinds.first else { return }
    let text = PatternText(pattern), separators = kind.separators
    guard text.hasLiteral else { return }
    // In an Origin, nothing but the scheme stands before "://".
    let hasScheme = kind == .origin && (pattern.contains("://") || pattern.contains(#":\/\/"#))
    let begins = hasScheme || text.beginsAtBound(separators.front)
    let ends = text.endsAtBound(separators.back)
    guard !begins || !ends else { return }
    let place = begins ? "end" : ends ? "begin" : "begin and end"
    builder.warning(
      word.location,
      "the pattern \"\(pattern)\" has no anchor at its \(place): it matches other names that contain it",
      hint: "\(kind.hint)")
  }
}
