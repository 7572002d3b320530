package import Crypto
import Observability
import Patterns
import Proxy
import Transport

// Spells settings as in the configuration language, and certificates in one line, for `check` and `pin`.

extension Certificate {
  /// The certificate's subject, names and expiry date. A server may have sent it, so control characters are escaped.
  package var summary: String {
    let names = subjectAltNames.all.map(\.description)
    return LogEscape.visible(
      "\(subject)" + (names.isEmpty ? "" : " (\(names.joined(separator: ", ")))") + ", until \(notAfterWords)")
  }
}

extension ServerName {
  var spelling: String {
    switch self {
    case .exact(let name): name
    case .leadingWildcard(let suffix, let matchesBare): matchesBare ? suffix : "*\(suffix)"
    case .trailingWildcard(let prefix): "\(prefix)*"
    case .regex(let expression, _): "~\(expression.pattern)"
    }
  }
}

extension LocationMatch {
  var spelling: String {
    switch self {
    case .prefix(let path): String(decoding: path, as: UTF8.self)
    case .prefixNoRegex(let path): "^~ \(String(decoding: path, as: UTF8.self))"
    case .exact(let path): "= \(String(decoding: path, as: UTF8.self))"
    case .regex(let expression, _): "~ \(expression.pattern)"
    case .named(let name): "@\(name)"
    }
  }
}

extension Template {
  var spelling: String {
    parts.map { part in
      switch part {
      case .literal(let bytes): String(decoding: bytes, as: UTF8.self)
      case .variable(let variable): "$\(variable.name)"
      }
    }.joined()
  }
}

extension Variable {
  fileprivate var name: String {
    func joined(_ prefix: String, _ name: [UInt8]) -> String { prefix + String(decoding: name, as: UTF8.self) }
    return switch self {
    case .simple(let simple): simple.rawValue
    case .argument(let name): joined("arg_", name)
    case .requestField(let name): joined("http_", name)
    case .cookie(let name): joined("cookie_", name)
    case .sentField(let name): joined("sent_http_", name)
    case .sentTrailer(let name): joined("sent_trailer_", name)
    case .upstreamField(let name): joined("upstream_http_", name)
    case .upstreamCookie(let name): joined("upstream_cookie_", name)
    case .capture(let number), .escapedCapture(let number): "\(number)"
    case .proxyTLV(let kind): "proxy_protocol_tlv_\(kind.name)"
    case .settable(_, let variable): variable.name
    case .slot(let index): "(variable \(index + 1) of set)"
    }
  }
}
